"""Write the report of a model and its data as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.files import check_folder, check_target, real_path, write_text
from noisyor._util.validation import check_count
from noisyor._version import __version__
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.explanation.attribution import attribute_findings
from noisyor.explanation.odd import odd_rows
from noisyor.io.model_file import metrics_of
from noisyor.model.layout import ConvolutionalLayout
from noisyor.report.baseline import MIN_ROWS, baseline_section, compare_with_mixture
from noisyor.report.fit_quality import ExplainedRows, explain_rows, fit_section, spread
from noisyor.report.inputs import (
    Model,
    describe,
    model_of,
    provenance_rows,
    read_labels,
    read_model,
    rows_for,
    same_data,
    shorten,
    words_of,
)
from noisyor.report.residuals import EXTRA, MISSED, RECONSTRUCTED, residuals
from noisyor.report.sections import Share, cause_section, count_labels, feature_section
from noisyor.report.templating import (
    asset,
    embedded_json,
    environment,
    require_templates,
    script_hash,
)
from noisyor.tables.table import Table

GENERATOR = "noisyor report"
"""Mark by which earlier reports are recognized."""

MAX_ROWS = 2000
"""Rows that are explained by default."""

_N_ODD, _MAX_ODD, _MAX_ODD_EDGES = 10, 300, 50_000
"""Number of odd rows that are listed; largest numbers of rows to search and of edges of the
model."""

_SCRIPTS = ("dom.js", "map.js", "explorer.js", "matrix.js", "pictures.js", "charts.js")


class Page(NamedTuple):
    """The HTML, and its main numbers for JSON."""

    html: str
    summary: dict[str, Any]


def write_report(
    model: Any,
    data: Any = None,
    out: str | Path = "report.html",
    *,
    reading: Mapping[str, Any] | None = None,
    labels: str | None = None,
    max_rows: int = MAX_ROWS,
    scores: bool = True,
    force: bool = False,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> dict[str, Any]:
    """Write the report of a model to an HTML file.

    Parameters
    ----------
    model : path of a file that `noisyor.save_network` wrote, a network, or a fitted estimator.
    data : rows to explain in any form that `Observations.of` takes, or the path of a file of rows;
        None for a page that shows the model alone.
    out : the page. An earlier report is replaced, any other file only with ``force``.
    reading : options of `noisyor.tables.ReadOptions` that replace those of the model.
    labels : column of the data file with a label of each row, which the model has not seen; the
        page shows which causes are over-represented with each label.
    max_rows : largest number of rows to explain, spread evenly over the data.
    scores : estimate log-probabilities, list odd rows, and learn a mixture of Bernoullis as a
        baseline. Without these parts the page is written sooner.
    force : replace any file at ``out``.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    The main numbers of the page, for JSON.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np, noisyor as nor
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> network, rows = nor.bipartite(3, 2), np.eye(3)
    >>> summary = nor.report.write_report(network, rows, folder / "page.html", scores=False)
    >>> summary["hidden"], (folder / "page.html").exists()
    (2, True)
    """
    require_templates()
    check_count("max_rows", max_rows)
    is_page = isinstance(data, (str, Path)) and str(data).lower().endswith((".html", ".htm"))
    if is_page or not isinstance(out, (str, Path)):
        raise InvalidSettingError(
            "write_report takes the model, the rows and the path of the page, in this order: "
            'write_report(model, X, "page.html"), or write_report(model, out="page.html")'
        )
    target = Path(out)
    inputs = [Path(one) for one in (model, data) if isinstance(one, (str, Path))]
    if real_path(target) in [real_path(path) for path in inputs]:
        raise InvalidSettingError(f"{target} is an input and cannot be written as well")
    check_target(target, (lambda _: True) if force else is_report, "a report")
    check_folder(target.parent)
    shown = read_model(Path(model)) if isinstance(model, (str, Path)) else model_of(model)
    rows = None if data is None else rows_for(shown, data, reading)
    if labels is not None and rows is None:
        raise InvalidSettingError("labels are a column of the data, but there are no data")
    page = model_page(
        shown,
        rows,
        labels=None if labels is None else (labels, read_labels(shown, data, reading, labels)),
        max_rows=max_rows,
        scores=scores,
        engine=engine,
        progress=progress,
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, page.html)
    return {"page": str(target), "bytes": target.stat().st_size, **page.summary}


def model_page(
    model: Model,
    rows: Table | None = None,
    *,
    labels: tuple[str, Sequence[str]] | None = None,
    max_rows: int = MAX_ROWS,
    scores: bool = True,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Page:
    """Return the report as HTML; see `write_report`.

    ``labels`` are the name of a column and its value in each row.
    """
    network, words = model.network, words_of(model)
    layout = network.layout
    is_image = model.kind == "features" and isinstance(layout, ConvolutionalLayout)
    if labels is not None and is_image:
        raise InvalidSettingError("labels need causes of rows; this model has features of images")
    explained = left = links = share = counted = baseline = None
    if rows is not None:
        explained = explain_rows(network, rows.observations, max_rows, engine, progress)
        left = residuals(network, explained)
        links = attribute_findings(network, explained.observations, explained.states).chains()
        # Topics make few words more likely on than off: there, what counts is the attribution.
        if network.n_layers > 1 or model.kind == "topics":
            share = Share("explain", links.explained_share)
        else:
            share = Share("reconstruct", left.recall)
        if scores:
            baseline = compare_with_mixture(model, rows.observations, engine=engine)
        if labels is not None:
            values = [labels[1][row] for row in explained.number.tolist()]
            counted = count_labels(values, explained.states, labels[0])
    odd = _odd_rows(model, rows, explained, engine) if scores and not is_image else None
    fit = fit_section(model, words, explained, scores)
    if is_image and isinstance(layout, ConvolutionalLayout):
        section = feature_section(model, layout, explained, share)
    else:
        section = cause_section(model, words, rows, explained, left, links, share, counted)
    log_p = fit["log_p"]
    summary = {
        "kind": model.kind,
        "hidden": network.n_hidden,
        "visible": network.n_visible,
        "rows_explained": None if explained is None else len(explained.number),
        "log_p": None if log_p is None else log_p.mean,
        "log_p_exact": None if log_p is None else log_p.exact,
        "elbo": None if explained is None else float(explained.elbo.mean()),
        "independent_log_p": None if explained is None else explained.independent,
        "ones_explained": None if links is None else links.explained_share,
        "ones_reconstructed": None if left is None else left.recall,
        "headline": section["headline"],
        "wrong_entries": None if left is None else left.wrong,
        "odd": None if odd is None else {row["number"]: row["log_p"] for row in odd},
        "mixture": None
        if baseline is None
        else {**baseline._asdict(), "verdict": baseline.verdict},
        "dead": [name for name, _ in section["health"]["dead"]],
        "duplicates": section["health"]["duplicates"],
        "metrics": metrics_of(model.metadata),
    }
    script = "\n".join(asset(name) for name in _SCRIPTS)
    html: str = (
        environment()
        .get_template("report.html")
        .render(
            generator=f"{GENERATOR} {__version__}",
            version=__version__,
            style=asset("base.css") + asset("report.css"),
            script=script,
            script_hash=script_hash(script),
            data=embedded_json(section.pop("data")),
            model=model,
            words=words,
            description=describe(model),
            explained=explained,
            scores=scores,
            min_rows=MIN_ROWS,
            is_training=rows is not None
            and same_data(model.metadata, rows.observations.fingerprint()),
            left=left,
            share=share,
            codes={"reconstructed": RECONSTRUCTED, "missed": MISSED, "extra": EXTRA},
            fit=fit,
            noise=float(np.median(network.noise_probability)),
            odd=odd,
            baseline=None if baseline is None else baseline_section(baseline, words),
            provenance=provenance_rows(model.metadata),
            has_metadata=bool(model.metadata),
            **section,
        )
    )
    return Page(html, summary)


def _odd_rows(
    model: Model, rows: Table | None, explained: ExplainedRows | None, engine: EngineLike
) -> list[dict[str, Any]] | None:
    """Return the least likely of the rows, with their surprising entries."""
    network = model.network
    if rows is None or explained is None or network.n_edges > _MAX_ODD_EDGES:
        return None
    some = spread(len(explained.number), _MAX_ODD)
    found = odd_rows(network, explained.observations.take(some), _N_ODD, engine=engine)
    numbers, names = explained.number[some], rows.row_names
    return [
        {
            "number": int(numbers[odd.row]),
            "name": None if names is None else shorten(names[int(numbers[odd.row])]),
            "log_p": odd.log_p,
            "entries": [
                (shorten(entry.name), "on" if entry.value else "off", entry.probability)
                for entry in odd.entries
            ],
        }
        for odd in found
    ]


def is_report(path: Path) -> bool:
    """Return whether a file is an earlier report, which may be replaced."""
    with path.open("rb") as stream:
        return f'name="generator" content="{GENERATOR} '.encode() in stream.read(2000)
