"""`noisyor fit --cluster`: from rows that workers of a Dask cluster read to a model file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from noisyor._util.locks import locked
from noisyor.cli.options import check_output, print_json, printable
from noisyor.data.chunks import RowSource, open_rows, write_rows
from noisyor.distributed.connection import connect
from noisyor.distributed.fitting import fit
from noisyor.errors import InvalidSettingError
from noisyor.estimators.models import BooleanMatrixFactorization
from noisyor.estimators.topics import TopicModel
from noisyor.learning.checkpoint import check_place
from noisyor.tables import ReadOptions
from noisyor.tables.read import read_table

__all__ = ["fit_on_cluster"]

_CHUNK_ROWS = 10_000


def fit_on_cluster(
    cluster: str,
    data: Path,
    out: Path,
    checkpoint: Path,
    *,
    kind: str | None,
    structure: Mapping[str, Any],
    training: Mapping[str, Any],
    reading: Mapping[str, Any],
    seed: int,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Learn on a cluster and write the model; the same command goes on with a run that stopped."""
    if kind == "features":
        raise InvalidSettingError("--cluster learns factors and topics, not features of images")
    check_output(out, force=force, inputs=[data])
    with locked(out, "noisyor fit"), locked(checkpoint, "noisyor fit"):
        if force:
            checkpoint.unlink(missing_ok=True)
        check_place(checkpoint)
        common = {
            **training,
            "random_state": seed,
            "checkpoint": checkpoint,
            "resume": True,
            "progress": False if quiet or as_json else None,
        }
        model: Any
        if kind == "topics":
            model = TopicModel(**structure, **common)
        else:
            model = BooleanMatrixFactorization(**{"n_components": "auto", **structure}, **common)
        with _rows(data, Path(f"{out}.rows"), reading) as source, connect(cluster) as client:
            fit(client, model, source)
        model.set_params(checkpoint=None, resume=False, progress=False)
        model.save(out)
        checkpoint.unlink(missing_ok=True)
    _tell(model, out, as_json, quiet)
    return 0


@contextmanager
def _rows(data: Path, folder: Path, reading: Mapping[str, Any]) -> Iterator[RowSource]:
    """Rows in chunks: DATA itself if it has such, else a copy beside the model while it lasts."""
    inside = list(data.iterdir()) if data.is_dir() else [data]
    if not reading and any(f.name == "indptr.npy" or f.suffix == ".parquet" for f in inside):
        yield open_rows(data)
        return
    table = read_table(data, ReadOptions(**reading))
    if folder.exists():  # of a run that was killed
        shutil.rmtree(folder)
    try:
        write_rows(folder, [table.observations.with_weights(None)])
        if table.observations.weights is not None:
            raise InvalidSettingError("--weights and --cluster do not go together")
        yield open_rows(folder, _CHUNK_ROWS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(model: Any, out: Path, as_json: bool, quiet: bool) -> None:
    found, network = model.provenance_["data"], model.network_
    elbo = model.provenance_.get("metrics", {}).get("training_elbo")
    if as_json:
        print_json(
            {
                "model": str(out),
                "rows": found["rows"],
                "columns": found["columns"],
                "chunks": found["chunks"],
                "hidden": network.n_hidden,
                "layers": network.n_layers,
                "edges": network.n_edges,
                "training_elbo": elbo,
                "settings": model.settings_,
            }
        )
    elif not quiet:
        lines = [
            f"data    {found['rows']:,} rows, {found['columns']:,} columns",
            f"model   {network.n_hidden:,} causes in {network.n_layers} "
            f"layer{'s' * (network.n_layers > 1)}: {out}",
        ]
        if elbo is not None:
            lines.append(f"bound   {elbo:.3f} nats a row on the training rows")
        click.echo(printable("\n".join(lines)))
