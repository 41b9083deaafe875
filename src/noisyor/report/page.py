"""A model, and data it explains, as one HTML file to look at: no network, nothing else needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from noisyor._util.paths import (
    check_folder,
    check_target,
    make_folder,
    real_path,
    write_text,
)
from noisyor._version import __version__
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.explanation.attribution import attribute_findings
from noisyor.io.provenance import metrics_of
from noisyor.report.explorer import (
    Caps,
)
from noisyor.report.goodness import fit_section, noise_section
from noisyor.report.inputs import Model, Rows, read_model, rows_for
from noisyor.report.insight.classes import classes_of
from noisyor.report.insight.comparison import write_comparison
from noisyor.report.insight.sections import Texts, cause_section, feature_section
from noisyor.report.insight.texts import excerpts, labels_of
from noisyor.report.metadata import provenance_rows, same_data
from noisyor.report.quality import calibrate, explain_rows
from noisyor.report.residuals import EXTRA, MISSED, residuals
from noisyor.report.rival import compare_with_mixture, rival_section
from noisyor.report.templating import (
    asset,
    embedded_json,
    environment,
    require_templates,
    script_hash,
)
from noisyor.report.words import headline, words_of

__all__ = ["GENERATOR", "model_page", "write_report"]

GENERATOR = "noisyor report"
"""Mark by which a page of ours is recognised."""

MAX_ROWS = 2000
"""Rows that are explained unless told otherwise."""

_SCRIPTS = ("dom.js", "map.js", "explorer.js", "matrix.js", "pictures.js", "charts.js")


class Page(NamedTuple):
    """The HTML, and the main numbers in it, for JSON."""

    html: str
    summary: dict[str, Any]


def write_report(
    model_path: str | Path,
    out: str | Path,
    data: Any = None,
    *,
    reading: Mapping[str, Any] | None = None,
    second: str | Path | None = None,
    labels: str | None = None,
    max_rows: int = MAX_ROWS,
    force: bool = False,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> dict[str, Any]:
    """Write the report of a model file to an HTML file.

    Parameters
    ----------
    model_path : file that `noisyor.save_network` wrote.
    out : the page. An earlier report is replaced, any other file only with ``force``.
    data : file of rows to explain, or rows in any form that `Observations.of` takes; without data
        the page shows the model alone.
    reading : options of `noisyor.tables.ReadOptions`, where those of the model do not fit.
    second : another model file; the page then sets the two side by side.
    labels : column of the data file that holds a class of each row; the page shows which causes go
        with which class. The model does not see it.
    max_rows : how many rows to explain at most, spread evenly over the data.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    The main numbers of the page, for JSON.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> nor.save_network(folder / "model.safetensors", nor.bipartite(3, 2))
    >>> summary = nor.report.write_report(folder / "model.safetensors", folder / "report.html")
    >>> summary["hidden"], (folder / "report.html").exists()
    (2, True)
    """
    require_templates()
    if max_rows < 1:
        raise InvalidSettingError(f"max_rows must be at least 1, got {max_rows}")
    target = Path(out)
    inputs = [Path(model_path), *([] if second is None else [Path(second)])]
    inputs += [*([Path(data)] if isinstance(data, (str, Path)) else [])]
    if real_path(target) in [real_path(path) for path in inputs]:
        raise InvalidSettingError(f"{target} is to be read, it cannot be written as well")
    check_target(target, (lambda _: True) if force else _is_page, "a report")
    check_folder(target.parent)
    if second is not None:
        if labels is not None:
            raise InvalidSettingError("labels stand beside the causes of one model, not of two")
        return write_comparison(
            Path(model_path),
            Path(second),
            target,
            data,
            reading=reading,
            max_rows=max_rows,
            engine=engine,
            progress=progress,
        )
    model = read_model(Path(model_path))
    rows = None if data is None else rows_for(model, data, reading)
    if labels is not None and rows is None:
        raise InvalidSettingError("labels are a column of the data, and there are no data")
    page = model_page(
        model,
        rows,
        texts=partial(excerpts, model, data, reading),
        labels=None if labels is None else (labels, labels_of(model, data, reading, labels)),
        max_rows=max_rows,
        engine=engine,
        progress=progress,
    )
    make_folder(target.parent)
    write_text(target, page.html)
    return {"page": str(target), "bytes": target.stat().st_size, **page.summary}


def model_page(
    model: Model,
    rows: Rows | None = None,
    *,
    texts: Texts | None = None,
    labels: tuple[str, Sequence[str]] | None = None,
    max_rows: int = MAX_ROWS,
    engine: EngineLike = "auto",
    progress: bool | None = False,
    caps: Caps | None = None,
) -> Page:
    """The report as HTML; see `write_report`.

    ``texts`` gives the beginnings of the texts of some rows by their numbers; ``labels`` are the
    name of a column and its value in each row.
    """
    caps = Caps() if caps is None else caps
    network, words = model.network, words_of(model)
    explained = fit = None
    if rows is not None:
        explained = explain_rows(network, rows.observations, max_rows, engine, progress)
    calibration = None if explained is None else calibrate(network, explained, engine=engine)
    left = None if explained is None else residuals(network, explained)
    links, by_push = None, network.n_layers > 1 or model.kind == "topics"
    share = None
    if explained is not None and left is not None:
        links = attribute_findings(network, explained.observations, explained.states).chains()
        # Few words of a topic are more likely on than off: there it counts who pushed hardest.
        share = links.explained_share if by_push else left.recall
    put_down = None if links is None else links.explained_share
    fit = fit_section(model, words, explained, calibration)
    log_p, classes = fit["log_p"], None
    if labels is not None and model.kind == "features":
        raise InvalidSettingError("labels stand beside causes, not beside features of images")
    section = feature_section(model, explained, put_down) if model.kind == "features" else None
    if section is None:
        if labels is not None and explained is not None:
            values = [labels[1][row] for row in explained.number.tolist()]
            classes = classes_of(values, explained.states, labels[0])
        section = cause_section(
            model, words, rows, explained, left, links, put_down, classes, texts, caps
        )
    is_training = rows is not None and same_data(model.metadata, rows.observations.fingerprint())
    noise = noise_section(network, None if rows is None else rows.observations)
    rival = None if rows is None else compare_with_mixture(model, rows.observations, engine=engine)
    summary = {
        "kind": model.kind,
        "hidden": network.n_hidden,
        "visible": network.n_visible,
        "rows_explained": None if explained is None else len(explained.number),
        "log_p": None if log_p is None else log_p.mean,
        "log_p_exact": None if log_p is None else log_p.exact,
        "elbo": None if explained is None else float(explained.elbo.mean()),
        "independent_log_p": None if explained is None else explained.independent,
        "ones_explained": share,
        "wrong_entries": None if left is None else left.wrong,
        "calibration_gap": None if calibration is None else calibration.gap,
        "noise_above_frequency": len(noise["doubtful"]),
        "mixture": None if rival is None else {**rival._asdict(), "verdict": rival.verdict},
        "dead": [name for name, _ in section["health"]["dead"]],
        "duplicates": section["health"]["duplicates"],
        "metrics": metrics_of(model.metadata),
    }
    scripts = "\n".join(asset(name) for name in _SCRIPTS)
    html: str = (
        environment()
        .get_template("report.html")
        .render(
            generator=f"{GENERATOR} {__version__}",
            version=__version__,
            style=asset("base.css") + asset("report.css"),
            script=scripts,
            script_hash=script_hash(scripts),
            data=embedded_json(section.pop("data")),
            model=model,
            words=words,
            headline=headline(model),
            explained=explained,
            is_training=is_training,
            left=left,
            share_explained=share,
            is_pushed=by_push,
            codes={"missed": MISSED, "extra": EXTRA},
            fit=fit,
            noise=noise,
            rival=None if rival is None else rival_section(rival, words),
            provenance=provenance_rows(model.metadata),
            has_metadata=bool(model.metadata),
            **section,
        )
    )
    return Page(html, summary)


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f'name="generator" content="{GENERATOR} '.encode() in stream.read(2000)
