"""Explanations and bounds of rows that workers of a cluster read.

Results of all rows come back to the client, or workers write them to a folder: one Parquet file for
each chunk of rows, written atomically. The folder belongs to one run; repeating the call writes the
missing files.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.files import plain, write_atomically
from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.distributed.session import Job, Session, open_session
from noisyor.engines.contract import EngineLike
from noisyor.errors import ClusterError, InvalidSettingError, MissingExtraError
from noisyor.inference.evaluate import EvaluationResult, chosen_methods, evaluation_of
from noisyor.inference.max_product import method_for
from noisyor.inference.method import Bounds, Method, Posterior, concatenate
from noisyor.learning.state import Checkpoint
from noisyor.model.network import Network

PathLike = str | os.PathLike[str]

_RUN = "run.json"


@dataclass(frozen=True)
class Parts:
    """Results by row in a folder of Parquet files.

    Attributes
    ----------
    folder : holds ``part-00000000.parquet`` and so on, one for each chunk that has rows, in the
        order of the rows, and ``run.json``, which identifies the run.
    n_parts : number of files.
    n_rows : number of rows of the data.
    n_resumed : number of files that an earlier call had written.
    """

    folder: Path
    n_parts: int
    n_rows: int
    n_resumed: int

    @property
    def files(self) -> list[Path]:
        """The files in the order of the rows."""
        return [_part_file(self.folder, index) for index in range(self.n_parts)]


def explain(
    client: Any,
    network: Network,
    rows: Any,
    method: Method | None = None,
    *,
    out: PathLike | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Posterior | Parts:
    """Find the most likely causes of rows that workers of a cluster read.

    Parameters
    ----------
    client, rows, engine : as in `noisyor.distributed.train`.
    network, method, seed, progress : as in `noisyor.explain`.
    out : folder on storage that all workers can write to. Workers write a Parquet file for each
        chunk of rows, and no memory grows with the number of rows. The same call given again writes
        the files that are missing. None returns everything to this process.

    Returns
    -------
    `Parts` if ``out`` is given, else a `Posterior`. Each row has the bits of `noisyor.explain`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> network = nor.bipartite(n_visible=4, n_hidden=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     parts = nor.distributed.explain(client, network, "rows", out="causes")
    >>> parts.n_rows, [file.name for file in parts.files]
    (8, ['part-00000000.parquet'])
    """
    chosen = method_for(network) if method is None else method
    job: dict[str, Any] = {"method": chosen, "seed": check_seed(seed), "engine": engine}
    session = open_session(client, network, rows, **job)
    if out is None:
        return concatenate(session.map(explain_chunk, progress=progress))
    return _write_parts(session, out, progress)


def evaluate(
    client: Any,
    network: Network,
    rows: Any,
    methods: Method | Sequence[Method] | None = None,
    *,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> EvaluationResult:
    """Compute bounds on the log-likelihood of rows that workers of a cluster read.

    Parameters
    ----------
    client, rows, engine : as in `noisyor.distributed.train`.
    network, methods, progress : as in `noisyor.evaluate`.

    Returns
    -------
    An `EvaluationResult` with the bits of `noisyor.evaluate`. It holds the bounds of every row: 8
    bytes for each row and bound.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> network = nor.bipartite(n_visible=4, n_hidden=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     score = nor.distributed.evaluate(client, network, "rows", nor.MaxProduct())
    >>> len(score.elbo_mp.per_row)
    8
    """
    chosen = chosen_methods(methods)
    session = open_session(client, network, rows, engine=engine)
    found = session.map(bounds_of_chunk, progress=progress, methods=chosen)
    bounds = []
    for index in range(len(chosen)):
        parts = [each[index] for each, _ in found]
        mode = np.concatenate([mode for mode, _ in parts])
        averages = any(elbo is not None for _, elbo in parts)
        filled = [mode if elbo is None else elbo for mode, elbo in parts]
        bounds.append(Bounds(mode, np.concatenate(filled) if averages else mode))
    weights = None
    if any(weight is not None for _, weight in found):
        sizes = [len(each[0][0]) for each, _ in found]
        weights = np.concatenate(
            [np.ones(n) if w is None else w for n, (_, w) in zip(sizes, found, strict=True)]
        )
    return evaluation_of(chosen, bounds, weights)


# ---- what workers compute


def explain_chunk(rows: Observations, job: Job) -> Posterior:
    """Task: explain a chunk of rows."""
    assert job.method is not None
    return job.method.posterior(job.network_at(), rows, seed=job.seed, engine=job.engine)


def bounds_of_chunk(
    rows: Observations, job: Job, methods: Sequence[Method]
) -> tuple[list[tuple[FloatArray, FloatArray | None]], FloatArray | None]:
    """Task: mode and ELBO of each row by each method, and the weights of the rows.

    The ELBO is None if it equals the mode, so that it is not sent twice.
    """
    network, found = job.network_at(), []
    for method in methods:
        mode, elbo = method.bounds(network, rows, engine=job.engine)
        found.append((mode, None if elbo is mode else elbo))
    return found, rows.weights


# ---- folders of parts


def _write_parts(session: Session, out: PathLike, progress: bool | None) -> Parts:
    """Let workers write the parts that a folder does not hold yet."""
    reader, job = session.job.reader, session.job
    assert job.network is not None
    assert job.method is not None
    run = {
        "function": "explain",
        "method": job.method.settings(),
        "clamp": None,
        "seed": job.seed,
        "chunks": list(reader.source.sizes),
    }
    identity = Checkpoint.identity_of(job.network, session.identity(), None, plain(run))
    folder, written = _open_folder(out, {"function": "explain", "identity": identity})
    chunks = reader.filled.tolist()
    names = [_part_file(folder, index).name for index in range(len(chunks))]
    done = {chunk for chunk, name in zip(chunks, names, strict=True) if name in written}
    session.map(write_explanations, skip=done, progress=progress, folder=str(folder))
    return Parts(folder, len(chunks), session.n_rows, len(done))


def _open_folder(out: PathLike, run: dict[str, str]) -> tuple[Path, set[str]]:
    """Create or find the folder of a run; return it and the names of the parts that it holds."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("parts are Parquet files, which need pyarrow", "dask") from None
    folder, record = Path(out).absolute(), {"format": "noisyor-parts-2", **run}
    file = folder / _RUN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            if any(folder.iterdir()):
                raise InvalidSettingError(f"the folder {folder} is not empty and holds no run")
            write_atomically(file, (json.dumps(record, indent=1) + "\n").encode())
        elif json.loads(file.read_bytes()) != record:
            raise InvalidSettingError(
                f"{folder} holds the results of another run; choose another folder"
            )
        return folder, {part.name for part in folder.glob("part-*.parquet") if part.is_file()}
    except OSError as error:
        raise ClusterError(f"cannot write to {folder}: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettingError(f"{file} is damaged; choose another folder") from error


def _part_file(folder: Path, index: int) -> Path:
    return folder / f"part-{index:08d}.parquet"


def write_explanations(rows: Observations, job: Job, folder: str) -> None:
    """Task: explain a chunk and write a line for each row and sample.

    Columns: ``row``, ``sample``, ``causes`` (the indices of those that are on), ``log_joint``,
    ``iterations``, ``residual``, ``converged``; with mean field also ``elbo_vi`` and, if kept,
    ``q``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = explain_chunk(rows, job)
    states, n_samples = found.states, found.n_samples
    columns: dict[str, Any] = {
        "row": np.repeat(rows.row_ids, n_samples),
        "sample": np.tile(np.arange(n_samples, dtype=np.int32), rows.n_rows),
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
            flat = pa.array(np.ascontiguousarray(values).reshape(-1))
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    content, first = io.BytesIO(), int(rows.row_ids[0])
    pq.write_table(pa.table(columns), content)
    (chunk,) = job.reader.chunks_of([(first, first + 1)])
    target = _part_file(Path(folder), int(np.searchsorted(job.reader.filled, chunk)))
    try:
        write_atomically(target, content.getvalue())
    except OSError as error:
        raise ClusterError(f"cannot write {target}: {error.strerror}") from error
