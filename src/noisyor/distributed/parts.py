"""Results by row as Parquet files, one for each chunk of rows: written whole or not at all.

A folder of parts belongs to one run, which goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.files import write_atomically
from noisyor.distributed.chunks import Item
from noisyor.distributed.tasks import Job, explain_rows, marginals_of_rows
from noisyor.errors import ClusterError, InvalidSettingError, MissingExtraError

__all__ = ["Parts", "open_parts", "write_explanations", "write_marginals"]

_RUN = "run.json"


@dataclass(frozen=True)
class Parts:
    """Results by row in a folder of Parquet files.

    Attributes
    ----------
    folder : holds ``part-00000000.parquet`` and so on, one for each chunk of rows, in their order,
        and ``run.json``, which says what they are of.
    n_parts : number of files.
    n_rows : number of rows of the data.
    n_resumed : files that an earlier call had written.

    Examples
    --------
    >>> from pathlib import Path
    >>> import noisyor as nor
    >>> parts = nor.distributed.Parts(Path("causes"), n_parts=2, n_rows=30, n_resumed=0)
    >>> [file.name for file in parts.files]
    ['part-00000000.parquet', 'part-00000001.parquet']
    """

    folder: Path
    n_parts: int
    n_rows: int
    n_resumed: int

    @property
    def files(self) -> list[Path]:
        """The files in the order of the rows."""
        return [part_file(self.folder, number) for number in range(self.n_parts)]


def part_file(folder: Path, number: int) -> Path:
    """Where the results of a chunk are."""
    return folder / f"part-{number:08d}.parquet"


def open_parts(out: str | os.PathLike[str], run: dict[str, Any]) -> tuple[Path, set[str]]:
    """Make the folder of a run, or find it: the folder, and the names of the parts that are there.

    ``run`` is plain JSON that determines the results.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("parts are Parquet files, which need pyarrow", "dask") from None
    folder = Path(out).absolute()
    record = {"format": "noisyor-parts-1", **run}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / _RUN
        if kept.exists():
            if json.loads(kept.read_bytes()) != json.loads(json.dumps(record)):
                raise InvalidSettingError(
                    f"{folder} holds the results of another run; choose another folder"
                )
        elif any(folder.iterdir()):
            raise InvalidSettingError(f"the folder {folder} is not empty and holds no run")
        else:
            write_atomically(kept, (json.dumps(record, indent=1) + "\n").encode())
        return folder, {file.name for file in folder.glob("part-*.parquet") if file.is_file()}
    except OSError as error:
        raise ClusterError(f"cannot write to {folder}: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, InvalidSettingError):
            raise
        raise InvalidSettingError(f"{folder / _RUN} is damaged; choose another folder") from error


def digest_of(*arrays: Any) -> str:
    """Hash of some arrays, for the record of a run."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write_explanations(item: Item, job: Job, folder: str) -> int:
    """Task: explain a chunk and write a line for every row and sample.

    Columns: ``row``, ``sample``, ``causes`` (those that are on), ``log_joint``, ``iterations``,
    ``residual``, ``converged``; of mean-field also ``elbo_vi`` and, if kept, ``q``.
    """
    import pyarrow as pa

    found = explain_rows(item, job)
    states, lines = found.states, np.arange(found.states.shape[0])
    first = int(job.reader.starts[job.numbers_of(item)])
    columns: dict[str, Any] = {
        "row": first + lines // found.n_samples,
        "sample": (lines % found.n_samples).astype(np.int32),
        "causes": pa.LargeListArray.from_arrays(
            pa.array(states.indptr, pa.int64()), pa.array(states.indices, pa.int32())
        ),
        "log_joint": found.log_joint,
        "iterations": found.iterations,
        "residual": found.residual,
        "converged": found.converged,
    }
    if found.elbo_vi is not None:
        columns["elbo_vi"] = found.elbo_vi
    for name, values in (("q", found.q), ("beliefs", found.beliefs)):
        if values is not None:
            columns[name] = _lists(values)
    return _write(columns, job, item, folder)


def write_marginals(item: Item, job: Job, folder: str) -> int:
    """Task: probabilities of a chunk. Columns: ``row``, ``probability`` and ``error`` (lists)."""
    probability, error = marginals_of_rows(item, job)
    first = int(job.reader.starts[job.numbers_of(item)])
    columns = {
        "row": first + np.arange(len(probability)),
        "probability": _lists(probability),
        "error": _lists(error),
    }
    return _write(columns, job, item, folder)


def _lists(values: Any) -> Any:
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _write(columns: dict[str, Any], job: Job, item: Item, folder: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns)
    content = io.BytesIO()
    pq.write_table(table, content)
    target = part_file(Path(folder), job.numbers_of(item))
    try:
        write_atomically(target, content.getvalue())
    except OSError as error:
        raise ClusterError(f"cannot write {target}: {error.strerror}") from error
    return int(table.num_rows)
