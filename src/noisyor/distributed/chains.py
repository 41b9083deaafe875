"""Gibbs sampling on a cluster: the rounds of `learn_by_gibbs`, with chains that lie in files.

The states of the chains have to last from round to round, and nothing may hang on a worker. So a
task reads the states of its rows after the last round, and writes those after this one beside them:
done twice, it writes the same. The client keeps the parameters after every round in the same
folder, and a run that was stopped goes on from there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.files import write_atomically
from noisyor._util.progress import progress_bar
from noisyor._util.validation import COUNT, check_seed
from noisyor.distributed.chunks import Item
from noisyor.distributed.session import OnCluster, Session, session
from noisyor.distributed.tasks import ROWS_AT_ONCE, Job
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.reduction import TreeSum
from noisyor.engines.registry import Runner
from noisyor.errors import CheckpointError, ClusterError
from noisyor.inference.max_product import MaxProduct
from noisyor.learning.checkpoint import Checkpoint
from noisyor.learning.gibbs_em import (
    ROWS_OF_SWEEP,
    GibbsRounds,
    RoundMean,
    column_weights,
    first_states,
)
from noisyor.model.network import Network

__all__ = ["learn_by_gibbs"]

_MOST_PARTS = 2048
_KEPT = "rounds.npz"


def learn_by_gibbs(
    client: Any,
    network: Network,
    rows: Any,
    *,
    folder: str | os.PathLike[str],
    sweeps: int = 60,
    smoothing: float = 0.5,
    smooth_to: Literal["failure", "frequency"] = "failure",
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
    exact: bool = True,
    timeout: float = 60.0,
) -> Network:
    """Estimate the free parameters of a network by Gibbs sampling, on a cluster.

    Each round looks at all rows and takes one step of expectation-maximisation: no rate, no
    minibatches, and one message to each worker and back. The result has the bits of
    ``noisyor.learning.learn_by_gibbs(share_draws=False)`` on the same rows.

    Parameters
    ----------
    client, rows, engine, exact, timeout : as in `noisyor.distributed.train`.
    network, sweeps, smoothing, smooth_to, seed, progress : as in `noisyor.learning.learn_by_gibbs`.
    folder : on storage that all workers see: holds the states of the chains, one bit for each row
        and hidden node, twice, and the parameters after the last round. A run that was stopped
        goes on from it. When the run is done, the states are removed.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> network = nor.bipartite(n_visible=4, n_hidden=1)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     learned = nor.distributed.learn_by_gibbs(
    ...         client, network, "rows", folder="chains", sweeps=2
    ...     )
    >>> learned.n_hidden
    1
    """
    COUNT.check("sweeps", sweeps)
    how = {"method": MaxProduct(), "sampling": True, "seed": check_seed(seed)}
    place = Path(folder).absolute()
    with session(client, network, rows, OnCluster(engine, exact, timeout), **how) as opened:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"cannot make the folder {place}: {error.strerror}") from error
        course = {"smoothing": smoothing, "smooth_to": smooth_to, "seed": seed, "sweeps": sweeps}
        identity = Checkpoint.identity_of(network, opened.first_chunk(), None, {"gibbs": course})
        chains = _ChainsInFiles(opened, place)
        rounds = GibbsRounds(network, chains, smoothing=smoothing, smooth_to=smooth_to, seed=seed)
        mean = _restore(place / _KEPT, identity, rounds)
        with progress_bar(sweeps, "gibbs", "sweeps", progress) as bar:
            bar.update(0 if mean is None else mean.n_done)
            learned = rounds.advance(
                sweeps,
                bar,
                mean=mean,
                keep=lambda mean: _keep(place / _KEPT, identity, rounds, mean),
            )
        chains.remove()
        return learned


class _ChainsInFiles:
    """The chains of all rows; their states are files that tasks read and write."""

    def __init__(self, opened: Session, folder: Path) -> None:
        self._opened, self._folder = opened, folder
        size = ROWS_OF_SWEEP  # a function of the number of rows: files must be found again
        while opened.rows.n_rows > size * _MOST_PARTS:
            size *= 2
        n_rows = opened.rows.n_rows
        self._items = [
            opened.rows.item([(begin, min(begin + size, n_rows))], keep=True)
            for begin in range(0, n_rows, size)
        ]

    def sweep(self, network: Network, key: NoiseKey) -> tuple[FloatArray, FloatArray]:
        cluster = self._opened.cluster
        credit, chance = cluster.sum(
            sweep_rows,
            self._items,
            self._opened.job,
            theta=cluster.share(network.theta),
            number=key.step,
            folder=str(self._folder),
        )
        return credit, chance

    def column_weights(self) -> tuple[FloatArray, FloatArray]:
        seen, ones = self._opened.cluster.sum(weigh_columns, self._items, self._opened.job)
        return seen, ones

    def remove(self) -> None:
        for file in self._folder.glob("states-*.npy"):
            file.unlink(missing_ok=True)


def sweep_rows(
    item: Item, job: Job, theta: FloatArray, number: int, folder: str
) -> list[FloatArray]:
    """Task: one sweep over the chains of some rows; credit and chance of every parameter."""
    network, place, begin = job.current(theta), Path(folder), item.pieces[0][0]
    before = _load_states(place, begin, number - 1, network.n_hidden) if number else None
    total, after, done = TreeSum(), [], 0
    sampler, prepared = Runner(job.engine, network).on("gibbs_sweep")
    for rows in job.reader.batches(item, ROWS_OF_SWEEP):
        if before is None:
            states = first_states(job.current(), rows, engine=job.engine)
        else:
            bits = before[done : done + rows.n_rows]
            states = np.unpackbits(bits, axis=1, count=network.n_hidden)
        evidence = Evidence.of(network, rows)
        swept = sampler.gibbs_sweep(prepared, evidence, states, NoiseKey(job.seed, number))
        total.add([swept.credit, swept.chance])
        after.append(np.packbits(swept.states, axis=1))
        done += rows.n_rows
    _save_states(place, begin, number, np.concatenate(after))
    # The round before the last is in the client's file: these states are of no use to anybody.
    _states_file(place, begin, number - 2).unlink(missing_ok=True)
    return total.result()


def weigh_columns(item: Item, job: Job) -> list[FloatArray]:
    """Task: weight of the rows in which each column is seen, and is 1."""
    total = TreeSum()
    for rows in job.reader.batches(item, ROWS_AT_ONCE):
        total.add(list(column_weights(rows)))
    return total.result()


def _states_file(folder: Path, begin: int, number: int) -> Path:
    return folder / f"states-{begin:015d}-{number}.npy"


def _save_states(folder: Path, begin: int, number: int, bits: BinaryArray) -> None:
    content, file = io.BytesIO(), _states_file(folder, begin, number)
    np.save(content, bits)
    try:
        write_atomically(file, content.getvalue())
    except OSError as error:
        raise ClusterError(f"cannot write {file}: {error.strerror}") from error


def _load_states(folder: Path, begin: int, number: int, n_hidden: int) -> BinaryArray:
    file = _states_file(folder, begin, number)
    try:
        bits: BinaryArray = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"cannot read the states of the chains from {file}: {error}") from error
    return bits


def _keep(file: Path, identity: str, rounds: GibbsRounds, mean: RoundMean) -> None:
    """Write what a run needs to go on: parameters and the mean so far."""
    content = io.BytesIO()
    arrays = {"theta": rounds.network.theta, "total": mean.total}
    description = json.dumps({"identity": identity, "done": mean.n_done, "counted": mean.n_counted})
    checksum = hashlib.sha256(b"".join(array.tobytes() for array in arrays.values())).hexdigest()
    np.savez(content, description=description, checksum=checksum, **arrays)  # type: ignore[arg-type]
    try:
        write_atomically(file, content.getvalue())
    except OSError as error:
        raise ClusterError(f"cannot write {file}: {error.strerror}") from error


def _restore(file: Path, identity: str, rounds: GibbsRounds) -> RoundMean | None:
    """Put rounds where an earlier run was stopped; None if there was none."""
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as found:
            description = json.loads(str(found["description"]))
            arrays = [found[name] for name in ("theta", "total")]
            checksum = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
            if str(found["checksum"]) != checksum:
                raise ValueError("checksum")
        done, counted = int(description["done"]), int(description["counted"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{file} is damaged; remove its folder to begin anew") from error
    if description["identity"] != identity:
        raise CheckpointError(
            f"{file} belongs to another run: rows, graph, starting parameters or settings differ. "
            "Choose another folder"
        )
    theta, total = arrays
    rounds.network, rounds.number = rounds.network.with_theta(theta), done
    return RoundMean(done, counted, total)
