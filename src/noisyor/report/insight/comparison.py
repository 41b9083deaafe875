"""Two models side by side: which causes they share, which only one has, and which says more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.numerics import standard_error_of_mean
from noisyor._util.paths import check_folder, make_folder, write_text
from noisyor._version import __version__
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.explanation.attribution import attribute_findings
from noisyor.inference.sampling import evidence_bound
from noisyor.model.forward import prior_marginals
from noisyor.model.layout import ConvolutionalLayout
from noisyor.report.explorer import cause_names, reach_of
from noisyor.report.images import feature_entries, feature_rate
from noisyor.report.inputs import Model, read_model, rows_for
from noisyor.report.insight.map import Region, cause_map, cosine, similarity_of
from noisyor.report.insight.screen import NO_CLASS
from noisyor.report.insight.sentence import percent
from noisyor.report.quality import ExplainedRows, explain_rows
from noisyor.report.templating import asset, environment, script_hash
from noisyor.report.words import Words, headline, words_of

__all__ = ["GENERATOR", "Pairs", "comparison_page", "pair_causes", "write_comparison"]

GENERATOR = "noisyor report"
_ALIKE = 0.5  # cosine from which two causes are the same
_ROWS = 200  # rows on which the bounds of both are compared
_LISTED = 100


class Side(NamedTuple):
    """One of the models: its causes by title, what they switch on, and how often they are on.

    ``reach`` sparse (n, n_columns) in columns that both have; ``often`` (n,); ``pictures`` (n,)
    drawings or ""; ``share`` of what is on that is put down to them and ``bound`` (n_rows,) on the
    log-probability of rows, or None without data.
    """

    model: Model
    titles: list[str]
    reach: Any
    often: FloatArray
    pictures: list[str]
    states: Any
    share: float | None
    bound: FloatArray | None


class Pairs(NamedTuple):
    """Causes that are the same in both, (n,) numbers in each and how alike, and all others."""

    first: LongArray
    second: LongArray
    alike: FloatArray
    only_first: LongArray
    only_second: LongArray


def write_comparison(
    first: Path,
    second: Path,
    out: Path,
    data: Any = None,
    *,
    reading: Mapping[str, Any] | None = None,
    max_rows: int,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> dict[str, Any]:
    """Write a page about two model files; ``out`` may be written, see `write_report`."""
    check_folder(out.parent)
    models = [read_model(first), read_model(second)]
    sides = []
    columns = _columns(*models)
    for model, chosen in zip(models, columns, strict=True):
        explained = None
        if data is not None:
            rows = rows_for(model, data, reading).observations
            explained = explain_rows(model.network, rows, max_rows, engine, progress)
        sides.append(_side(model, chosen, explained, engine))
    html, summary = comparison_page(sides[0], sides[1])
    make_folder(out.parent)
    write_text(out, html)
    return {"page": str(out), "bytes": out.stat().st_size, **summary}


def pair_causes(first: Any, second: Any) -> Pairs:
    """Match the causes of two models, (n, n_columns) and (m, n_columns), one to one.

    The assignment makes the sum of cosines as large as possible; pairs below one half do not count.
    """
    alike = cosine(first, second)
    one, other = linear_sum_assignment(-alike)
    same = alike[one, other] >= _ALIKE
    one, other = one[same], other[same]
    return Pairs(
        one,
        other,
        alike[one, other],
        np.setdiff1d(np.arange(alike.shape[0]), one),
        np.setdiff1d(np.arange(alike.shape[1]), other),
    )


def comparison_page(first: Side, second: Side) -> tuple[str, dict[str, Any]]:
    """The page as HTML, and its main numbers."""
    words = words_of(first.model)
    pairs = pair_causes(first.reach, second.reach)
    # Pairs by how often they are on, so that their numbers and colours are easy to find.
    order = np.argsort(-(first.often[pairs.first] + second.often[pairs.second]), kind="stable")
    pairs = pairs._replace(
        first=pairs.first[order], second=pairs.second[order], alike=pairs.alike[order]
    )
    summary: dict[str, Any] = {
        "models": [first.model.name, second.model.name],
        "causes": [len(first.titles), len(second.titles)],
        "same": len(order),
        "only_first": len(pairs.only_first),
        "only_second": len(pairs.only_second),
        "ones_explained": [first.share, second.share],
        "bound": None,
    }
    gain = None
    if first.bound is not None and second.bound is not None:
        change = second.bound - first.bound
        error = standard_error_of_mean(change) if len(change) > 1 else 0.0
        gain = (float(change.mean()), error)
        summary["bound"] = [float(first.bound.mean()), float(second.bound.mean())]
        summary["gain"], summary["gain_error"] = gain
    script = asset("map.js")
    html: str = (
        environment()
        .get_template("comparison.html")
        .render(
            generator=f"{GENERATOR} {__version__}",
            version=__version__,
            style=asset("base.css") + asset("report.css"),
            script=script,
            script_hash=script_hash(script),
            words=words,
            said=_said(pairs, words),
            gain=gain,
            n_rows=None if first.bound is None else len(first.bound),
            sides=[
                {
                    "name": side.model.name,
                    "headline": headline(side.model),
                    "share": None if side.share is None else percent(side.share),
                    "bound": None if side.bound is None else float(side.bound.mean()),
                    "map": _map(side, mine, words),
                }
                for side, mine in ((first, pairs.first), (second, pairs.second))
            ],
            pairs=[
                {
                    "number": n,
                    "colour": n % NO_CLASS,
                    "first": _entry(first, a),
                    "second": _entry(second, b),
                    "alike": float(alike),
                }
                for n, (a, b, alike) in enumerate(
                    zip(pairs.first.tolist(), pairs.second.tolist(), pairs.alike, strict=True)
                )
            ],
            alone=[
                [_entry(side, k) for k in _by_often(side, only)[:_LISTED]]
                for side, only in ((first, pairs.only_first), (second, pairs.only_second))
            ],
        )
    )
    return html, summary


def _columns(first: Model, second: Model) -> tuple[LongArray, LongArray]:
    """Numbers of the columns that both models have, in each."""
    a, b = first.network, second.network
    if (first.kind == "features") != (second.kind == "features"):
        raise InvalidDataError("a model of features of images is compared with another such model")
    if a.visible_names is not None and b.visible_names is not None:
        place = {name: k for k, name in enumerate(b.visible_names)}
        both = [(k, place[name]) for k, name in enumerate(a.visible_names) if name in place]
        if not both:
            raise InvalidDataError(f"{first.name} and {second.name} have no column in common")
        one, other = zip(*both, strict=True)
        return np.array(one), np.array(other)
    if a.n_visible != b.n_visible:
        raise InvalidDataError(
            f"{first.name} has {a.n_visible:,} columns and {second.name} {b.n_visible:,}, and "
            "there are no names to find those that both have"
        )
    return np.arange(a.n_visible), np.arange(b.n_visible)


def _side(
    model: Model, columns: LongArray, explained: ExplainedRows | None, engine: EngineLike
) -> Side:
    network = model.network
    share = bound = states = None
    if explained is not None:
        states = explained.states
        found = attribute_findings(network, explained.observations, states)
        share = found.chains().explained_share
        n_rows = len(explained.number)
        spread = np.linspace(0, n_rows - 1, min(_ROWS, n_rows)).round().astype(np.int64)
        some = explained.observations.take(spread)
        bound = evidence_bound(network, some, engine=engine).per_row
    layout = network.layout
    if model.kind == "features" and isinstance(layout, ConvolutionalLayout):
        entries = feature_entries(network, layout, None)
        shapes = (1.0 - network.failure_probability)[: len(entries)]
        titles = [f"feature {entry['number']}" for entry in entries]
        reach = sp.csr_array(shapes.reshape(len(entries), -1))
        pictures = [entry["picture"] for entry in entries]
        often = feature_rate(network, layout)[: len(entries)]
        return Side(model, titles, reach, often, pictures, None, share, bound)
    reach = reach_of(network)
    called = cause_names(network, model.kind, model.metadata.get("named") is True, reach)
    titles = [label or name for name, label in zip(*called, strict=True)]
    often = prior_marginals(network)
    if states is not None:
        often = np.asarray(states.mean(axis=0)).ravel()
    return Side(
        model, titles, reach[:, columns].tocsr(), often, [""] * len(titles), states, share, bound
    )


def _said(pairs: Pairs, words: Words) -> str:
    """What the comparison says in one sentence."""
    same, a, b = len(pairs.first), len(pairs.only_first), len(pairs.only_second)
    if not same:
        return f"The two models have no {words.cause} in common."
    both = f"{same:,} {words.cause if same == 1 else words.causes} in common"
    if not a and not b:
        return f"The two models have the same {words.causes}: {same:,}."
    only = [f"{n:,}" if n else "none" for n in (a, b)]
    return f"The two models have {both}; {only[0]} only in the first, {only[1]} only in the second."


def _map(side: Side, paired: LongArray, words: Words) -> dict[str, Any] | None:
    pair = {int(k): n for n, k in enumerate(paired.tolist())}
    regions = []
    for k, title in enumerate(side.titles):
        often = float(side.often[k])
        n = pair.get(k)
        told = f"{title}: in {percent(often)} of {words.rows}, "
        told += "only here" if n is None else "in both"
        regions.append(
            Region(
                "alone" if n is None else f"pair-{n}",
                tuple(title.split(", ")),
                told,
                often,
                colour=NO_CLASS if n is None else n % NO_CLASS,
                picture=side.pictures[k],
            )
        )
    label = f"Map of the {words.causes} of {side.model.name}"
    return cause_map(regions, partial(similarity_of, side.reach, side.states), label)


def _entry(side: Side, k: int) -> dict[str, Any]:
    return {
        "title": side.titles[k],
        "often": percent(float(side.often[k])),
        "picture": side.pictures[k],
    }


def _by_often(side: Side, only: LongArray) -> list[int]:
    found: list[int] = only[np.argsort(-side.often[only], kind="stable")].tolist()
    return found
