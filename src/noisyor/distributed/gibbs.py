"""Gibbs sampling on a cluster: the rounds of `learn_by_gibbs`, with the states of chains in files.

Chains keep their states from round to round, and no state may be tied to a worker. So a task reads
the states of its rows after the previous round from a file and writes those after this round to
another one; a task that runs twice writes the same file twice. The client writes the parameters
after every round to the same folder, and a run that was stopped continues from there.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.files import write_atomically
from noisyor._util.progress import progress_bar
from noisyor._util.validation import COUNT, check_seed
from noisyor.data.observations import Observations
from noisyor.distributed.chunks import TaskRows
from noisyor.distributed.session import ClusterSettings, Job, Session, open_session
from noisyor.engines.context import Stored
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.reduction import TreeSum
from noisyor.engines.registry import Runner
from noisyor.errors import ClusterError
from noisyor.inference.max_product import MaxProduct
from noisyor.learning.gibbs_em import (
    ROWS_OF_SWEEP,
    GibbsRounds,
    RoundMean,
    column_weights,
    first_states,
)
from noisyor.learning.state import Checkpoint, read_checkpoint, save_checkpoint
from noisyor.model.network import Network

_MAX_FILES = 2048
_CHECKPOINT = "rounds.checkpoint"


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
    """Estimate the free parameters of a network by Gibbs sampling on a cluster.

    Each round uses all rows and takes one step of expectation-maximization. There is no learning
    rate and there are no minibatches. The result has the bits of
    ``noisyor.learning.learn_by_gibbs(share_draws=False)`` on the same rows.

    Parameters
    ----------
    client, rows, engine, exact, timeout : as in `noisyor.distributed.train`.
    network, sweeps, smoothing, smooth_to, seed, progress : as in `noisyor.learning.learn_by_gibbs`.
    folder : on storage that all workers can read and write. It holds the states of the chains, two
        bits for each row and hidden node, and the parameters after the last round. The same call
        given again continues a run that was stopped. The states are removed at the end.

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
    job = {"method": MaxProduct(), "sampling": True, "seed": check_seed(seed)}
    settings, target = ClusterSettings(engine, exact, timeout), Path(folder).absolute()
    with open_session(client, network, rows, settings, **job) as session:
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"cannot make the folder {target}: {error.strerror}") from error
        run = {"smoothing": smoothing, "smooth_to": smooth_to, "seed": seed, "sweeps": sweeps}
        identity = Checkpoint.identity_of(network, session.identity(), None, {"gibbs": run})
        chains = _ChainsInFiles(session, target)
        rounds = GibbsRounds(network, chains, smoothing=smoothing, smooth_to=smooth_to, seed=seed)
        file = target / _CHECKPOINT
        mean = _restore(file, identity, rounds)
        with progress_bar(sweeps, "gibbs", "sweeps", progress) as bar:
            bar.update(0 if mean is None else mean.n_done)
            learned = rounds.advance(
                sweeps, bar, mean=mean, keep=lambda mean: _save(file, identity, rounds, mean)
            )
        chains.remove()
        return learned


class _ChainsInFiles:
    """The chains of all rows, whose states tasks read from files and write to files."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session, self._folder = session, folder
        n_rows, size = session.rows.n_rows, ROWS_OF_SWEEP
        # Files must be found again on another cluster: the size depends on the number of rows only.
        while n_rows > size * _MAX_FILES:
            size *= 2
        self._tasks = [
            session.rows.select([(begin, min(begin + size, n_rows))], keep=True)
            for begin in range(0, n_rows, size)
        ]

    def sweep(self, network: Network, key: NoiseKey) -> tuple[FloatArray, FloatArray]:
        """See `Chains`."""
        cluster = self._session.cluster
        theta, folder = cluster.share(network.theta), str(self._folder)
        successes, trials = cluster.sum(
            sweep_rows, self._tasks, self._session.job, theta=theta, index=key.step, folder=folder
        )
        return successes, trials

    def column_weights(self) -> tuple[FloatArray, FloatArray]:
        """See `Chains`."""
        observed, ones = self._session.sum(weigh_columns, self._tasks)
        return observed, ones

    def remove(self) -> None:
        """Remove the states."""
        for file in self._folder.glob("states-*.npy"):
            file.unlink(missing_ok=True)


def sweep_rows(
    task: TaskRows, job: Job, theta: FloatArray, index: int, folder: str
) -> list[FloatArray]:
    """Task: run round ``index`` for some rows; successes and trials of each parameter."""
    job.check_fingerprint()
    network, begin = job.network_at(theta), task.ranges[0][0]
    start = Path(folder) / f"states-{begin:015d}"
    before = _load_states(Path(f"{start}-{index - 1}.npy")) if index else None
    total, after, n_done = TreeSum(), [], 0
    sampler, prepared = Runner(job.engine, network).on("gibbs_sweep")
    for rows in job.reader.batches(task, ROWS_OF_SWEEP):
        if before is None:
            states = first_states(job.network_at(), rows, engine=job.engine)
        else:
            bits = before[n_done : n_done + rows.n_rows]
            states = np.unpackbits(bits, axis=1, count=network.n_hidden)
        evidence = Evidence.of(network, rows)
        swept = sampler.gibbs_sweep(prepared, evidence, states, NoiseKey(job.seed, index))
        total.add([swept.successes, swept.trials])
        after.append(np.packbits(swept.states, axis=1))
        n_done += rows.n_rows
    _save_states(Path(f"{start}-{index}.npy"), np.concatenate(after))
    # The client has saved the round after these states, so that nothing can continue from them.
    Path(f"{start}-{index - 2}.npy").unlink(missing_ok=True)
    return total.result()


def weigh_columns(rows: Observations, job: Job) -> list[FloatArray]:
    """Task: weight of the rows in which each column is observed, and is 1, (n_visible,) each."""
    return list(column_weights(rows))


def _save_states(file: Path, bits: BinaryArray) -> None:
    content = io.BytesIO()
    np.save(content, bits)
    try:
        write_atomically(file, content.getvalue())
    except OSError as error:
        raise ClusterError(f"cannot write {file}: {error.strerror}") from error


def _load_states(file: Path) -> BinaryArray:
    try:
        bits: BinaryArray = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"cannot read the states of the chains from {file}: {error}") from error
    return bits


def _save(file: Path, identity: str, rounds: GibbsRounds, mean: RoundMean) -> None:
    """Write what a run needs to continue: the parameters and the mean so far."""
    counted = np.array([mean.n_counted], dtype=np.int64)
    arrays = {"theta": rounds.network.theta, "total": mean.total, "counted": counted}
    save_checkpoint(file, Checkpoint(identity, mean.n_done, arrays))


def _restore(file: Path, identity: str, rounds: GibbsRounds) -> RoundMean | None:
    """Continue where an earlier run was stopped; return None if there was none."""
    if not file.exists():
        return None
    found = read_checkpoint(file, identity)
    stored, n_params = Stored(found.arrays), rounds.network.n_params
    theta, total = (np.array(stored.numbers(name, n_params)) for name in ("theta", "total"))
    rounds.network, rounds.number = rounds.network.with_theta(theta), found.step
    return RoundMean(found.step, int(stored.numbers("counted", 1)[0]), total)
