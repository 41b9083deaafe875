"""`noisyor impute`: fill in missing entries of a table."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import click

from noisyor.cli import common
from noisyor.errors import InvalidDataError, InvalidSettingError


@click.command()
@common.model_argument
@common.data_argument
@common.out_option("Where the table goes: a .csv file.", required=True)
@click.option(
    "--probabilities",
    is_flag=True,
    help="Write the probability of 1 in place of a missing entry, not the likelier of 0 and 1.",
)
@common.force_option()
@common.seed_option
@common.threads_option
@common.reading_options
@common.json_option
@common.quiet_option
def impute(
    model: Path,
    data: Path,
    out: Path,
    probabilities: bool,
    force: bool,
    seed: int,
    threads: int | None,
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    """Fill in the missing entries of DATA with MODEL.

    Each missing entry is predicted from the other entries of its row; observed entries stay as they
    are. Where exactly one of several neighboring columns is 1 in all complete rows, this also holds
    for the rows filled in. DATA must have all columns of the model; leave unobserved columns empty.

    \b
    Examples:
      noisyor impute zoo.safetensors zoo.csv --out filled.csv
      noisyor impute survey.safetensors new.csv --out chances.csv --probabilities
    """
    if out.suffix.lower() != ".csv":
        raise InvalidSettingError(f"{out}: the table is written to a .csv file")
    common.check_output(out, force=force, inputs=[model, data])

    import numpy as np

    from noisyor._util.files import csv_content, real_path, write_atomically
    from noisyor.data.columns import find_one_hot
    from noisyor.inference.sampling import predict_visible
    from noisyor.io.model_file import mapping_in
    from noisyor.model.names import visible_label

    saved = common.open_model(model, data)
    table = common.read_for(saved, data, reading)
    rows, network = table.observations, saved.network
    if rows.n_rows * rows.n_visible > common.MAX_CELLS:
        raise InvalidDataError(
            f"{data}: {rows.n_rows:,} rows of {rows.n_visible:,} columns are too many for a table "
            "that is not sparse"
        )
    found = predict_visible(
        network,
        rows,
        observed="kept",
        one_hot=[group.columns for group in find_one_hot(rows)],
        seed=seed,
        engine=common.engine_with(threads),
        progress=False if quiet or as_json else None,
    )
    values: Any = found.probability
    if not probabilities:
        values = (values >= 0.5).astype(np.int8)
    names = [visible_label(network, i) for i in range(network.n_visible)]
    lines: Any = ([f"{value:.6g}" for value in line] for line in values.tolist())
    if table.row_names is not None:
        known = {**mapping_in(saved.metadata, "reading"), **reading}.get("id_column")
        lines = ([name, *line] for name, line in zip(table.row_names, lines, strict=True))
        names.insert(0, known if isinstance(known, str) and not known.isdecimal() else "row")
    write_atomically(real_path(out), csv_content(chain([names], lines)))
    if as_json:
        common.print_json({"file": str(out), "rows": rows.n_rows, "filled": rows.n_missing})
    elif not quiet:
        click.echo(f"{out}: {rows.n_rows:,} rows, {rows.n_missing:,} entries filled in")
