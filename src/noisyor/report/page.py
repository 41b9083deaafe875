"""A model, and data it explains, as one HTML file to look at: no network, nothing else needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.paths import (
    check_folder,
    check_target,
    make_folder,
    real_path,
    write_text,
)
from noisyor._version import __version__
from noisyor.diagnosis.attribution import Chains, attribute_findings
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.io.provenance import metrics_of
from noisyor.network.forward import prior_marginals
from noisyor.network.graph import Network
from noisyor.network.labels import one_of
from noisyor.network.layout import ConvolutionalLayout
from noisyor.report.explorer import (
    Caps,
    cause_names,
    explorer_data,
    label_of,
    reach_of,
    visible_names,
)
from noisyor.report.goodness import fit_section, noise_section
from noisyor.report.health import (
    find_dead,
    find_duplicates,
    groups_of,
    similar_features,
    success_matrix,
)
from noisyor.report.images import (
    MAX_FEATURES,
    feature_entries,
    feature_rate,
    feature_uses,
    image_entries,
)
from noisyor.report.inputs import Model, Rows, read_model, rows_for
from noisyor.report.insight.classes import Classes, class_section, classes_of
from noisyor.report.insight.comparison import write_comparison
from noisyor.report.insight.map import cause_map, similarity_of
from noisyor.report.insight.screen import feature_regions, regions_of, said_of
from noisyor.report.insight.texts import excerpts, labels_of
from noisyor.report.metadata import provenance_rows, same_data
from noisyor.report.quality import ExplainedRows, calibrate, explain_rows
from noisyor.report.residuals import EXTRA, MISSED, Residuals, matrix_data, residuals
from noisyor.report.rival import compare_with_mixture, rival_section
from noisyor.report.templating import (
    asset,
    embedded_json,
    environment,
    require_templates,
    script_hash,
)
from noisyor.report.words import WORDS, Words, headline, is_drawn, words_of

__all__ = ["GENERATOR", "model_page", "write_report"]

GENERATOR = "noisyor report"
"""Mark by which a page of ours is recognised."""

MAX_ROWS = 2000
"""Rows that are explained unless told otherwise."""

Texts = Callable[[set[int]], dict[int, str]]

_LISTED = 15
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
    links = None
    share = None
    if explained is not None and left is not None:
        links = attribute_findings(network, explained.observations, explained.states).chains()
        # Few words of a topic are more likely on than off: there it counts who pushed hardest.
        share = links.explained_share if network.n_layers > 1 else left.recall
    put_down = None if links is None else links.explained_share
    fit = fit_section(model, words, explained, calibration)
    classes = None
    if labels is not None and model.kind == "features":
        raise InvalidSettingError("labels stand beside causes, not beside features of images")
    section = _features(model, explained, put_down) if model.kind == "features" else None
    if section is None:
        if labels is not None and explained is not None:
            values = [labels[1][row] for row in explained.number.tolist()]
            classes = classes_of(values, explained.states, labels[0])
        section = _causes(
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
        "elbo": None if explained is None else float(explained.elbo.mean()),
        "independent_elbo": None if explained is None else explained.independent,
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


def _causes(
    model: Model,
    words: Words,
    rows: Rows | None,
    explained: ExplainedRows | None,
    left: Residuals | None,
    links: Chains | None,
    share: float | None,
    classes: Classes | None,
    texts: Texts | None,
    caps: Caps,
) -> dict[str, Any]:
    """Parts of the page for everything but images."""
    network = model.network
    names = rows.names if rows is not None else None
    reach, rate = reach_of(network), prior_marginals(network)
    called = cause_names(network, model.kind, model.metadata.get("named") is True, reach)
    if is_drawn(network):  # a picture says more than the names of three pixels
        called = called[0], [""] * network.n_hidden
    uses = None
    if explained is not None:
        uses = np.asarray(explained.states.sum(axis=0)).ravel()
    data: dict[str, Any] = {
        "explorer": explorer_data(
            network, words, called, reach, rate, explained, links, names, caps
        )
    }
    documents = data["explorer"].get("documents")
    if documents and texts is not None:
        found = texts({document["row"] for document in documents})
        for document in documents:
            text = found.get(document["row"])
            document["text"] = text and text.removeprefix(document["name"] or "").strip()
    flat = network.n_layers == 1
    if explained is not None and flat:
        data["matrix"] = matrix_data(network, explained, names)
    titles = [label_of(name, label) for name, label in zip(*called, strict=True)]
    short = [label or name for name, label in zip(*called, strict=True)]
    n_rows = None if explained is None else len(explained.number)
    success = success_matrix(network)
    strength = success.max(axis=1).toarray().ravel()  # 0 for a cause without edges
    dead = find_dead(strength, rate, uses, n_rows, words.rows)
    pairs = find_duplicates(success, {fault.cause for fault in dead})
    often = rate if uses is None else uses
    order = np.argsort(-np.asarray(often, dtype=np.float64), kind="stable")[:_LISTED]
    order = order[np.asarray(often)[order] > 0]
    working = network.n_hidden - len(dead)
    regions = regions_of(model, words, called, data["explorer"], classes)
    return {
        "data": data,
        "said": said_of(words, network.n_hidden, working, share, n_rows, regions, network.n_layers),
        "map": cause_map(
            regions,
            partial(similarity_of, reach, None if explained is None else explained.states),
            f"Map of the {words.causes}: area by how often each is on",
        ),
        "classes": None if classes is None else class_section(classes, short),
        "has_explorer": True,
        "has_labels": any(called[1]),
        "has_matrix": "matrix" in data,
        "matrix_shape": _matrix_shape(data.get("matrix")),
        "is_layered": not flat,
        "features": None,
        "images": None,
        "worst": _worst(network, left) if left is not None and flat else None,
        "rates": [
            {
                "name": titles[k] + one_of(network, k),
                "prior": float(rate[k]),
                "share": None if uses is None or not n_rows else float(uses[k]) / n_rows,
            }
            for k in order.tolist()
        ],
        "n_rates": network.n_hidden,
        "per_image": False,
        "n_cut": data["explorer"]["cut"],
        "health": _health(titles, dead, pairs),
    }


def _features(
    model: Model, explained: ExplainedRows | None, share: float | None
) -> dict[str, Any] | None:
    """Parts of the page for features of images."""
    network = model.network
    layout = network.layout
    if not isinstance(layout, ConvolutionalLayout):
        return None
    uses = None if explained is None else feature_uses(explained, layout)
    rate = feature_rate(network, layout)
    success = 1.0 - network.failure_probability
    n_images = None if explained is None else len(explained.number)
    titles = [f"feature {number}" for number in range(layout.n_components)]
    dead = find_dead(success.max(axis=(1, 2)), rate, uses, n_images, "images")
    pairs = similar_features(success, {fault.cause for fault in dead})
    entries = feature_entries(network, layout, uses)
    often = rate if uses is None or not n_images else uses / n_images
    regions = feature_regions(entries, often)
    alike = partial(similarity_of, sp.csr_array(success.reshape(len(success), -1)), None)
    working = layout.n_components - len(dead)
    return {
        "data": {},
        "said": said_of(
            WORDS["features"],
            layout.n_components,
            working,
            share,
            n_images,
            regions,
            per_row=False,
        ),
        "map": cause_map(regions, alike, "Map of the features: area by how often each is laid"),
        "classes": None,
        "has_explorer": False,
        "has_labels": False,
        "has_matrix": False,
        "matrix_shape": None,
        "is_layered": False,
        "features": entries,
        "images": None if explained is None else image_entries(network, layout, explained),
        "worst": None,
        "rates": [
            {
                "name": titles[f],
                "prior": float(rate[f]),
                "share": None if uses is None or not n_images else float(uses[f]) / n_images,
            }
            for f in range(min(layout.n_components, MAX_FEATURES))
        ],
        "n_rates": layout.n_components,
        "per_image": True,
        "n_cut": 0,
        "health": _health(titles, dead, pairs),
    }


def _matrix_shape(matrix: dict[str, Any] | None) -> tuple[int, int] | None:
    return None if matrix is None else (len(matrix["rows"]), len(matrix["columns"]))


def _health(
    titles: list[str], dead: list[Any], pairs: list[tuple[int, int, float]]
) -> dict[str, Any]:
    return {
        "n_causes": len(titles),
        "dead": [(titles[fault.cause], fault.reason) for fault in dead],
        "duplicates": [
            [titles[cause] for cause in group] for group in groups_of(pairs, len(titles))
        ],
    }


def _worst(network: Network, left: Residuals) -> list[dict[str, Any]]:
    """Columns with the most wrong cells."""
    names = visible_names(network)
    wrong = left.columns[MISSED] + left.columns[EXTRA]
    order = np.argsort(-wrong, kind="stable")[:10]
    return [
        {
            "name": names[i],
            "ones": int(left.columns[1][i] + left.columns[MISSED][i]),
            "missed": int(left.columns[MISSED][i]),
            "extra": int(left.columns[EXTRA][i]),
        }
        for i in order.tolist()
        if wrong[i]
    ]


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f'name="generator" content="{GENERATOR} '.encode() in stream.read(2000)
