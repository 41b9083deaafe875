"""The command ``noisyor report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisyor.cli.options import (
    PATH,
    engine_with,
    force_option,
    json_option,
    model_argument,
    out_option,
    print_json,
    quiet_option,
    reading_options,
    threads_option,
)
from noisyor.errors import InvalidSettingError

__all__ = ["report"]


@click.command()
@model_argument
@click.argument("others", type=PATH, nargs=-1, metavar="[MODEL] [DATA]")
@out_option("The page.", default="report.html")
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    metavar="N",
    help="Rows of DATA to explain at most, spread evenly.",
)
@click.option(
    "--labels",
    metavar="NAME",
    help="Column or JSON field of DATA with a class of each row, to set beside the causes.",
)
@force_option("Replace a file that is no report.")
@reading_options
@threads_option()
@json_option
@quiet_option
def report(
    model: Path,
    others: tuple[Path, ...],
    out: Path,
    max_rows: int,
    labels: str | None,
    force: bool,
    reading: dict[str, Any],
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show a model, and how it explains data, on one page to look at.

    MODEL is a model file. With DATA the page also shows what each cause explains there, what is
    missed, and how well predictions hold. A second MODEL is set beside the first: what both have,
    and what only one has. The page is one HTML file: it opens in any browser, offline, and can be
    sent as it is.

    \b
    Examples:
      noisyor report topics.safetensors posts.jsonl --out topics.html
      noisyor report animals.safetensors zoo.csv
      noisyor report news.safetensors news.jsonl --labels section
      noisyor report animals8.safetensors animals12.safetensors zoo.csv
    """
    from noisyor.io.sealed_file import is_sealed
    from noisyor.report.page import write_report

    second = others[0] if others and is_sealed(others[0]) else None
    rest = others if second is None else others[1:]
    if len(rest) > 1:
        raise InvalidSettingError(
            f"{rest[0]} is no model file: give MODEL, MODEL DATA, MODEL MODEL or MODEL MODEL DATA"
        )
    data = rest[0] if rest else None
    result = write_report(
        model,
        out,
        data,
        second=second,
        reading=reading,
        max_rows=max_rows,
        labels=labels,
        force=force,
        engine=engine_with(threads),
        progress=False if quiet or as_json else None,
    )
    if as_json:
        print_json(result)
    elif not quiet:
        click.echo(_text(result))


def _text(result: dict[str, Any]) -> str:
    """What was found, in a few lines."""
    if "same" in result:
        return _compared(result)
    lines = [f"page        {result['page']} ({result['bytes'] / 1e6:.1f} MB)"]
    if result["log_p"] is not None:
        how = "exact" if result["log_p_exact"] else "estimated"
        lines += [
            f"log p       {result['log_p']:.2f} nats a row, {how}",
            f"            {result['independent_log_p']:.2f} if all columns were independent",
        ]
    mixture = result["mixture"]
    if mixture is not None:
        lines.append(
            f"mixture     of {mixture['n_classes']} classes: {mixture['gain']:+.2f} nats per row "
            f"(± {mixture['error']:.2f}) against the model"
        )
    if result["ones_explained"] is not None:
        done, what = ("explained", "words") if result["kind"] == "topics" else ("predicted", "ones")
        lines.append(f"{done}   {100 * result['ones_explained']:.0f} % of the {what}")
    lines.append(f"dead        {len(result['dead'])} causes")
    lines.append(f"duplicates  {len(result['duplicates'])} groups")
    if result["noise_above_frequency"]:
        lines.append(f"doubtful    noise of {result['noise_above_frequency']} columns")
    return "\n".join(lines)


def _compared(result: dict[str, Any]) -> str:
    lines = [
        f"page        {result['page']} ({result['bytes'] / 1e6:.1f} MB)",
        f"in both     {result['same']} causes",
        f"only one    {result['only_first']} in the first, {result['only_second']} in the second",
    ]
    if result["bound"] is not None:
        gain, error = result["gain"], result["gain_error"]
        lines.append(f"second      {gain:+.2f} nats per row (± {error:.2f}) against the first")
    return "\n".join(lines)
