"""The command ``noisyor report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisyor._util.validation import COUNT
from noisyor.cli import common


@click.command()
@common.model_argument
@common.optional_data_argument
@common.out_option("The page.", default="report.html")
@click.option(
    "--max-rows",
    type=common.Ruled(COUNT),
    default=2000,
    show_default=True,
    metavar="N",
    help="Largest number of rows of DATA to explain, spread evenly.",
)
@click.option(
    "--labels",
    metavar="NAME",
    help="Column or JSON field of DATA with a label of each row, to compare with the causes.",
)
@common.force_option("Replace a file that is no report.")
@common.reading_options
@common.threads_option
@common.json_option
@common.quiet_option
def report(
    model: Path,
    data: Path | None,
    out: Path,
    max_rows: int,
    labels: str | None,
    force: bool,
    reading: dict[str, Any],
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write an HTML page about MODEL and how it explains DATA.

    With DATA the page also shows what each cause explains, odd rows, cells that are not
    reconstructed, and the calibration of predictions. The page is one file that opens in any
    browser, offline.

    \b
    Examples:
      noisyor report topics.safetensors posts.jsonl --out topics.html
      noisyor report animals.safetensors zoo.csv
      noisyor report news.safetensors news.jsonl --labels section
    """
    from noisyor.report.page import write_report

    common.check_order(model, data)
    result = write_report(
        model,
        data,
        out,
        reading=reading,
        max_rows=max_rows,
        labels=labels,
        force=force,
        engine=common.engine_with(threads),
        progress=False if quiet or as_json else None,
    )
    if as_json:
        common.print_json(result)
    elif not quiet:
        click.echo(common.printable(_text(result)))


def _text(result: dict[str, Any]) -> str:
    """Return the main results in a few lines."""
    lines = [result["headline"], f"page   {result['page']} ({result['bytes'] / 1e6:.1f} MB)"]
    if result["log_p"] is not None:
        how = "exact" if result["log_p_exact"] else "estimated"
        lines += [
            f"log p  {result['log_p']:.2f} nats a row, {how}",
            f"       {result['independent_log_p']:.2f} if all columns were independent",
        ]
    mixture = result["mixture"]
    if mixture is not None:
        lines.append(
            f"       a mixture of {mixture['n_classes']} classes is {mixture['verdict']}: "
            f"{mixture['gain']:+.2f} ± {mixture['error']:.2f} nats a row against the model"
        )
    return "\n".join(lines)
