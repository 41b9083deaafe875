"""`noisyor impute`: missing entries of a table filled in by a model."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import click

from noisyor.cli.options import (
    check_output,
    data_argument,
    engine_with,
    force_option,
    json_option,
    model_argument,
    open_model,
    out_option,
    print_json,
    quiet_option,
    read_for,
    reading_options,
    seed_option,
    threads_option,
)
from noisyor.errors import InvalidDataError, InvalidSettingError, MissingExtraError

__all__ = ["impute"]

_ENDINGS = (".csv", ".parquet")


@click.command()
@model_argument
@data_argument
@out_option("Where the table goes: .csv or .parquet.", required=True)
@click.option(
    "--probabilities",
    is_flag=True,
    help="Write the probability of 1 in place of a missing entry, not the likelier of 0 and 1.",
)
@force_option()
@seed_option
@threads_option()
@reading_options
@json_option
@quiet_option
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
      noisyor impute survey.safetensors new.csv --out chances.parquet --probabilities
    """
    if out.suffix.lower() not in _ENDINGS:
        raise InvalidSettingError(
            f"{out}: tables are written to {' or '.join(_ENDINGS)}, not to {out.suffix!r}"
        )
    check_output(out, force=force, inputs=[model, data])

    import numpy as np

    from noisyor._util.files import real_path, write_atomically
    from noisyor.data.columns import find_one_hot
    from noisyor.inference.sampling import predict_visible
    from noisyor.io.provenance import mapping_in
    from noisyor.model.names import visible_label

    saved = open_model(model, data)
    table = read_for(saved, data, reading)
    rows, network = table.observations, saved.network
    if rows.n_rows * rows.n_visible > 2 * 10**8:
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
        engine=engine_with(threads),
        progress=False if quiet or as_json else None,
    )
    values: Any = found.probability
    if not probabilities:
        values = (values >= 0.5).astype(np.int8)
    names = [visible_label(network, i) for i in range(network.n_visible)]
    labels = {}
    if table.row_names is not None:
        known = {**mapping_in(saved.metadata, "reading"), **reading}.get("id_column")
        labels = {_id_name(known, names): list(table.row_names)}
    write = _csv if out.suffix.lower() == ".csv" else _parquet
    write_atomically(real_path(out), write(out, values, names, labels))
    if as_json:
        print_json({"file": str(out), "rows": rows.n_rows, "filled": rows.n_missing})
    elif not quiet:
        click.echo(f"{out}: {rows.n_rows:,} rows, {rows.n_missing:,} entries filled in")


def _id_name(known: Any, names: list[str]) -> str:
    """Return a name for the column of row names that no other column has."""
    name = known if isinstance(known, str) and not known.isdecimal() else "row"
    while name in names:
        name += "_"
    return name


def _csv(out: Path, values: Any, names: list[str], labels: dict[str, list[str]]) -> bytes:
    from noisyor._util.files import csv_content

    rows = (
        [*(column[index] for column in labels.values()), *(f"{value:.6g}" for value in line)]
        for index, line in enumerate(values.tolist())
    )
    return csv_content(chain([[*labels, *names]], rows))


def _parquet(out: Path, values: Any, names: list[str], labels: dict[str, list[str]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError.of(f"{out}: Parquet files need pyarrow", "parquet") from None
    columns: dict[str, Any] = {**labels, **{name: values[:, i] for i, name in enumerate(names)}}
    stream = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return bytes(stream.getvalue())
