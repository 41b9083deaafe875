"""Train on a cluster: the loop of `noisyor.train`, with sums over rows that workers compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.distributed.chunks import Ranges, joined
from noisyor.distributed.session import ROWS_AT_ONCE, Job, Session, open_session
from noisyor.engines.contract import EngineLike, GradientSum
from noisyor.errors import InvalidSettingError
from noisyor.inference.method import Method
from noisyor.learning.state import TrainingResult, TrainingState, TrainOptions, choose_options
from noisyor.learning.train import Batches, default_method, order_of, train_on
from noisyor.model.network import Network

MIN_BATCH_ROWS = 8192
"""Smallest number of rows in a minibatch on a cluster, and in a block that is shuffled."""

_SAMPLE_ENTRIES, _MIN_SAMPLE_ROWS = 2**19, 5_000
"""Entries of a sample of rows, approximately, and its smallest number of rows."""

_DEFAULTS = TrainOptions(batch_size=None, block_rows=MIN_BATCH_ROWS)


def train(
    client: Any,
    network: Network,
    rows: Any,
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> TrainingResult:
    """Learn the free parameters of a network from rows that workers of a cluster read.

    The result has the bits of ``noisyor.train`` on the same rows in memory with the same options,
    ``batch_size`` and ``block_rows`` included: for any number of workers, and when workers are lost
    during training. This needs workers with the processor and the library versions of this process,
    and weights of rows, if any, that are whole numbers.

    Parameters
    ----------
    client : a ``distributed.Client``.
    network : graph and starting parameters.
    rows : a `RowSource` on storage that all workers can read, or its path. Workers read the chunks
        in every step.
    method, options, changes : as in `noisyor.train`, but by default every update uses all rows.
        With a smaller ``batch_size``, blocks of ``block_rows`` consecutive rows are shuffled, 8,192
        by default. Minibatches of fewer than 8,192 rows are rejected, because sending parameters
        and sums would take longer than the work.
    held_out : rows in memory whose mean bound is recorded.
    engine : of the workers, as in `explain`; an engine given by name uses one thread for each task.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> network = nor.bipartite(n_visible=4, n_hidden=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     result = nor.distributed.train(client, network, "rows", steps=2)
    >>> result.state.step
    2
    """
    options = choose_options(options, changes, _DEFAULTS)
    chosen = default_method(network) if method is None else method
    if options.block_rows is None:
        options = replace(options, block_rows=_DEFAULTS.block_rows)
    job: dict[str, Any] = {"method": chosen, "seed": int(options.seed), "engine": engine}
    session = open_session(client, network, rows, **job)
    _check_batch_size(options, session.n_rows)
    return train_on(
        network,
        _RowsOnCluster(session),
        chosen,
        options,
        held_out=held_out,
        engine=engine,
        settings={"cluster": True},
    )


class _RowsOnCluster(NamedTuple):
    """Rows that workers read, in the form of `TrainingRows`."""

    session: Session

    @property
    def n_rows(self) -> int:
        return self.session.n_rows

    def total_weight(self) -> float:
        tasks = self.session.split(0, self.n_rows, lambda begin, end: [(begin, end)])
        return float(self.session.sum(weight_of_rows, tasks)[0][0])

    def identity(self) -> bytes:
        return self.session.identity()

    def batches(self, method: Method, options: TrainOptions) -> Batches:
        size, order = options.batch_size or self.n_rows, order_of(self.n_rows, options)
        session = self.session

        def compute(index: int, state: TrainingState) -> GradientSum:
            last = min((index + 1) * size, self.n_rows)
            value, gradient, weight = session.sum(
                gradient_of_rows,
                session.split(index * size, last, order.pieces),
                theta=session.share(state.theta),
                step=state.step,
            )
            return GradientSum(float(value[0]), gradient, float(weight[0]))

        return compute


def gradient_of_rows(
    rows: Observations, job: Job, theta: FloatArray, step: int
) -> list[FloatArray]:
    """Task: value (1,), gradient (n_params,) and weight (1,) summed over rows."""
    assert job.method is not None
    network = job.network_at(theta)
    found = job.method.gradient(network, rows, seed=job.seed, step=step, engine=job.engine)
    return [np.array([found.value]), found.gradient, np.array([rows.total_weight])]


def weight_of_rows(rows: Observations, job: Job) -> list[FloatArray]:
    """Task: sum of the weights of rows, (1,)."""
    return [np.array([rows.total_weight])]


def _check_batch_size(options: TrainOptions, n_rows: int) -> None:
    size = options.batch_size
    if size is not None and size < min(MIN_BATCH_ROWS, n_rows):
        raise InvalidSettingError(
            f"batch_size={size:,} is too small for a cluster: sending parameters and sums would "
            f"take longer than the work. Use at least {MIN_BATCH_ROWS:,} rows, all rows "
            "(batch_size=None), or one machine"
        )


# ---- the sample from which a fit starts


def fetch_sample(client: Any, rows: Any, seed: int) -> Observations:
    """Let workers read a random sample of rows: about half a million entries, or all rows."""
    check_seed(seed)
    session = open_session(client, None, rows)
    n_rows = session.n_rows
    size = max(_MIN_SAMPLE_ROWS, _SAMPLE_ENTRIES // session.job.reader.source.n_visible)
    if n_rows > size:
        chosen = np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False))
    else:
        chosen = np.arange(n_rows)
    task_of_row = chosen // session.rows_per_task(n_rows)
    groups = np.split(chosen, np.flatnonzero(np.diff(task_of_row)) + 1)
    tasks = ([(row, row + 1) for row in group.tolist()] for group in groups)
    parts = dict(session.map_tasks(read_rows, tasks))
    return joined([parts[index] for index in range(len(groups))])


def read_rows(task: Ranges, job: Job) -> Observations:
    """Task: return rows of a sample."""
    return joined(list(job.reader.batches(task, ROWS_AT_ONCE)))
