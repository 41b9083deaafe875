"""What `noisyor fit` and `noisyor resume` print when they have learned something."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor.cli.options import NOTHING_FOUND, print_json, printable

if TYPE_CHECKING:
    from noisyor.cli.fitting.job import Fitted
    from noisyor.learning.validation import Validation
    from noisyor.model.network import Network

__all__ = ["tell"]

_SHOWN = 8


def tell(fitted: Fitted, data: Path | None, out: Path, as_json: bool, quiet: bool) -> int:
    """Print what was learned; the exit code says whether any cause was found.

    Parameters
    ----------
    fitted : what was learned.
    data : the file it was learned from, if it is known.
    out : the file of the model.
    as_json, quiet : print one JSON document, or nothing.
    """
    network, rows, judgement = fitted.learned.network, fitted.table.observations, fitted.judgement
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
                "held_out_rows": judgement.n_held_out,
                "log_p": judgement.log_p.mean,
                "log_p_standard_error": judgement.log_p.standard_error,
                "log_p_exact": judgement.log_p.exact,
                "log_p_bound": judgement.log_p.bound_mean,
                "elbo": judgement.score.mean,
                "elbo_standard_error": judgement.score.standard_error,
                "independent": judgement.reference.mean,
                "active_causes": judgement.n_active,
                "settings": fitted.learned.settings,
            }
        )
    elif not quiet:
        page = shlex.quote(str(out.with_suffix(".html")))
        lines = _lines(fitted, out)
        again = " ".join(shlex.quote(str(path)) for path in (out, data) if path)
        lines.append(f"next    noisyor report {again} --out {page}")
        click.echo(printable("\n".join(lines)))
    if judgement.n_active:
        return 0
    click.echo(
        "noisyor: nothing found: the model explains every row by noise; "
        "try another --init, more --steps or fewer causes",
        err=True,
    )
    return NOTHING_FOUND


def _score_lines(judgement: Validation, where: str) -> list[str]:
    """What the model and independent columns score, in nats a row; log p first, bounds by name."""
    log_p = judgement.log_p
    error = f" ± {log_p.standard_error:.3f}" if len(log_p.per_row) > 1 else ""
    how = "exact" if log_p.exact else "estimated"
    lines = [f"log p   {log_p.mean:.3f}{error} nats a row on {where}, {how}"]
    if not log_p.exact:
        lines.append(f"        {log_p.bound_mean:.3f} at least: sum over a set of explanations")
    return [
        *lines,
        f"        {judgement.reference.mean:.3f} if all columns were independent",
        f"        {judgement.score.mean:.3f} Elbo of one explanation (paper), a bound on log p",
    ]


def _number_lines(settings: Mapping[str, Any]) -> list[str]:
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


def _lines(fitted: Fitted, out: Path) -> list[str]:
    import numpy as np

    from noisyor.model.names import hidden_label

    network, data, judgement = fitted.learned.network, fitted.table.observations, fitted.judgement
    weight, total = data.row_weights, data.total_weight
    seen = total * data.n_visible - weight @ np.diff(data.missing_ptr)
    share = float(weight @ np.diff(data.ptr)) / max(1.0, float(seen))
    rows = f"{data.n_rows:,} rows"
    if data.weights is not None:
        rows += f" that stand for {total:,.10g}"
    where = f"{judgement.n_held_out} held-out rows" if judgement.n_held_out else "the training rows"
    if len(judgement.log_p.per_row) < len(judgement.score.per_row):
        where = f"{len(judgement.log_p.per_row):,} of {where}"
    lines = [
        f"data    {rows}, {data.n_visible:,} columns, {100 * share:.1f} % ones"
        + (f", {data.n_missing:,} missing" if data.n_missing else ""),
        f"model   {fitted.kind}, {_causes(network, fitted.learned.settings)}: {out}",
        *_score_lines(judgement, where),
        *_number_lines(fitted.learned.settings),
    ]
    prior = network.prior_probability
    if fitted.kind != "features":
        lines.append("likely causes, each with its probability:")
        order = sorted(range(network.n_hidden), key=lambda k: -prior[k])[:_SHOWN]
        lines += [f"  {prior[k]:.3f}  {hidden_label(network, k)}" for k in order]
        if network.n_hidden > _SHOWN:
            lines.append(f"  ... and {network.n_hidden - _SHOWN:,} more: noisyor info {out}")
    return lines


def _causes(network: Network, settings: Mapping[str, Any]) -> str:
    """Say how many causes there are, in how many layers, and how many of them are unused."""
    layers = f"{network.n_layers} layer{'s' * (network.n_layers > 1)}"
    unused = settings.get("n_unused")
    rest = f", {unused:,} of them unused" if unused else ""
    return f"{network.n_hidden:,} causes in {layers}{rest}"
