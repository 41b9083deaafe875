"""What `noisyor fit` and `noisyor resume` print about a fitted model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from noisyor.cli.options import NOTHING_FOUND, print_json, printable

if TYPE_CHECKING:
    from noisyor.estimators.base import NoisyOrEstimator
    from noisyor.learning.validation import Validation
    from noisyor.model.network import Network
    from noisyor.tables import Table

__all__ = ["Fitted", "print_cluster_summary", "print_summary"]

_SHOWN = 8
"""Causes that are listed."""


class Fitted(NamedTuple):
    """A fitted estimator, the kind of model, the data, and the scores on held-out rows."""

    model: NoisyOrEstimator
    kind: Any
    table: Table
    scores: Validation


def print_summary(fitted: Fitted, data: Path | None, out: Path, as_json: bool, quiet: bool) -> int:
    """Print what was learned; return the exit code, which says whether any cause was found.

    Parameters
    ----------
    fitted : what was learned.
    data : the file it was learned from, if it is known.
    out : the file of the model.
    as_json, quiet : print one JSON document, or nothing.
    """
    network, rows, scores = fitted.model.network_, fitted.table.observations, fitted.scores
    if as_json:
        print_json(
            {
                "model": str(out),
                "kind": fitted.kind,
                "rows": rows.n_rows,
                "columns": rows.n_visible,
                "hidden": network.n_hidden,
                "layers": network.n_layers,
                "edges": network.n_edges,
                "held_out_rows": scores.n_held_out,
                "log_p": scores.log_p.mean,
                "log_p_standard_error": scores.log_p.standard_error,
                "log_p_exact": scores.log_p.exact,
                "log_p_bound": scores.log_p.bound_mean,
                "elbo": scores.score.mean,
                "elbo_standard_error": scores.score.standard_error,
                "independent": scores.reference.mean,
                "active_causes": scores.n_active,
                "settings": fitted.model.settings_,
                **_stability(fitted),
            }
        )
    elif not quiet:
        page = shlex.quote(str(out.with_suffix(".html")))
        again = " ".join(shlex.quote(str(path)) for path in (out, data) if path)
        lines = [*_lines(fitted, out), f"next    noisyor report {again} --out {page}"]
        click.echo(printable("\n".join(lines)))
    if scores.n_active:
        return 0
    click.echo(
        "noisyor: nothing found: the model explains every row by noise; "
        "try another --init, more --steps or fewer causes",
        err=True,
    )
    return NOTHING_FOUND


def print_cluster_summary(model: NoisyOrEstimator, out: Path, as_json: bool, quiet: bool) -> None:
    """Print what was learned on a cluster, where no rows are at hand to evaluate on."""
    data, network = model.provenance_["data"], model.network_
    elbo = model.provenance_.get("metrics", {}).get("training_elbo")
    if as_json:
        print_json(
            {
                "model": str(out),
                "rows": data["rows"],
                "columns": data["columns"],
                "chunks": data["chunks"],
                "hidden": network.n_hidden,
                "layers": network.n_layers,
                "edges": network.n_edges,
                "training_elbo": elbo,
                "settings": model.settings_,
            }
        )
    elif not quiet:
        lines = [
            f"data    {data['rows']:,} rows, {data['columns']:,} columns",
            f"model   {_causes(network, model.settings_)}: {out}",
        ]
        if elbo is not None:
            lines.append(f"bound   {elbo:.3f} nats a row on the training rows")
        click.echo(printable("\n".join(lines)))


def _lines(fitted: Fitted, out: Path) -> list[str]:
    import numpy as np

    from noisyor.model.names import hidden_label

    network, data, scores = fitted.model.network_, fitted.table.observations, fitted.scores
    settings = fitted.model.settings_
    weight, total = data.row_weights, data.total_weight
    seen = total * data.n_visible - weight @ np.diff(data.missing_ptr)
    share = float(weight @ np.diff(data.ptr)) / max(1.0, float(seen))
    rows = f"{data.n_rows:,} rows"
    if data.weights is not None:
        rows += f" that stand for {total:,.10g}"
    where = f"{scores.n_held_out} held-out rows" if scores.n_held_out else "the training rows"
    if len(scores.log_p.per_row) < len(scores.score.per_row):
        where = f"{len(scores.log_p.per_row):,} of {where}"
    lines = [
        f"data    {rows}, {data.n_visible:,} columns, {100 * share:.1f} % ones"
        + (f", {data.n_missing:,} missing" if data.n_missing else ""),
        f"model   {fitted.kind}, {_causes(network, settings)}: {out}",
        *_score_lines(scores, where),
        *_curve_lines(settings),
        *_stability_lines(fitted),
    ]
    if fitted.kind != "features":
        prior, n_used = network.prior_probability, network.n_hidden - settings.get("n_unused", 0)
        lines.append("likely causes, each with its probability:")
        order = sorted(range(network.n_hidden), key=lambda k: -prior[k])[: min(_SHOWN, n_used)]
        mark = _marks(fitted)
        lines += [f"  {prior[k]:.3f}  {hidden_label(network, k)}{mark.get(k, '')}" for k in order]
        if n_used > _SHOWN:
            lines.append(f"  ... and {n_used - _SHOWN:,} more: noisyor info {out}")
    return lines


def _score_lines(scores: Validation, where: str) -> list[str]:
    """Compare the model with independent columns, in nats a row; log p first, bounds by name."""
    log_p = scores.log_p
    error = f" ± {log_p.standard_error:.3f}" if len(log_p.per_row) > 1 else ""
    how = "exact" if log_p.exact else "estimated"
    lines = [f"log p   {log_p.mean:.3f}{error} nats a row on {where}, {how}"]
    if not log_p.exact:
        lines.append(f"        {log_p.bound_mean:.3f} at least: sum over a set of explanations")
    return [
        *lines,
        f"        {scores.reference.mean:.3f} if all columns were independent",
        f"        {scores.score.mean:.3f} Elbo of one explanation (paper), a bound on log p",
    ]


def _curve_lines(settings: Mapping[str, Any]) -> list[str]:
    """List the numbers of causes that were compared, and how sure the choice is."""
    curve = settings.get("n_components_curve")
    if not isinstance(curve, dict):
        return []
    lines = [
        f"causes  the fewest within one standard error of the best log p of {curve['n_rows']:,} "
        "validation rows:"
    ]
    for size, log_p, error in zip(
        curve["n_components"], curve["log_p"], curve["standard_error"], strict=True
    ):
        mark = " <" if size == curve["chosen"] else ""
        lines.append(f"  {size:>5}  log p {log_p:.3f} ± {error:.3f}{mark}")
    return lines


def _stability(fitted: Fitted) -> dict[str, Any]:
    """Return how surely causes recur, if that was asked for."""
    found = fitted.model.provenance_.get("stability")
    return {} if found is None else {"stability": found}


def _stability_lines(fitted: Fitted) -> list[str]:
    """Say how many causes were found again in most resamples."""
    found = fitted.model.provenance_.get("stability")
    if found is None:
        return []
    recurs = [share > 0.5 for share in found["recurrence"]]
    return [
        f"recurs  {sum(recurs):,} of {len(recurs):,} causes, in most of {found['n_resamples']:,} "
        "resamples of the rows"
    ]


def _marks(fitted: Fitted) -> dict[int, str]:
    """Return a mark for each cause that was not found again in most resamples."""
    found = fitted.model.provenance_.get("stability") or {"recurrence": []}
    return {
        k: f"  [recurs in {100 * share:.0f} % of the resamples]"
        for k, share in enumerate(found["recurrence"])
        if share <= 0.5
    }


def _causes(network: Network, settings: Mapping[str, Any]) -> str:
    """Say how many causes there are, in how many layers, and how many of them are unused."""
    layers = f"{network.n_layers} layer{'s' * (network.n_layers > 1)}"
    unused = settings.get("n_unused")
    rest = f", {unused:,} of them unused" if unused else ""
    causes = f"{network.n_hidden:,} cause{'s' * (network.n_hidden > 1)}"
    return f"{causes} in {layers}{rest}"
