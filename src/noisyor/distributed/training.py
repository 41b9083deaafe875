"""Training on a cluster: the loop of `noisyor.train`, with sums that workers compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from noisyor.distributed.chunks import Item, is_for_cluster
from noisyor.distributed.inference import mean_bound
from noisyor.distributed.session import OnCluster, Session, session
from noisyor.distributed.tasks import add_up_gradient, weigh
from noisyor.engines.contract import EngineLike, GradientSum
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import BatchGradient, Method
from noisyor.learning.options import TrainOptions, choose_options
from noisyor.learning.state import TrainingResult, TrainingState
from noisyor.learning.train import Batches, HeldOut, order_of, train_on
from noisyor.model.network import Network

__all__ = ["FEWEST_ROWS", "train"]

FEWEST_ROWS = 8192
"""Rows of a minibatch that are worth a message to another machine, and of a block to shuffle."""

_DEFAULTS = TrainOptions(batch_size=None, block_rows=FEWEST_ROWS)


def train(
    client: Any,
    network: Network,
    rows: Any,
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    engine: EngineLike = "auto",
    exact: bool = True,
    timeout: float = 60.0,
    **changes: Any,
) -> TrainingResult:
    """Learn the free parameters of a network from rows that workers of a cluster read.

    The result has the bits of ``noisyor.train`` on the same rows in memory, with the same options,
    ``batch_size`` and ``block_rows`` given: for any number of workers, and when some are lost on
    the way. (Weights of rows, if they have any, are whole numbers then.)

    Parameters
    ----------
    client : a ``distributed.Client``.
    network : graph and starting parameters.
    rows : a `RowSource` on storage that all workers see or its path, a Dask array or DataFrame.
        Workers read their chunks anew in every step; those of a Dask collection are computed once
        and kept by the cluster.
    method, options, changes : as in `noisyor.train`; by default every update sees all rows. Where
        it does not, blocks of ``block_rows`` consecutive rows are shuffled, 8,192 by default. A
        minibatch of fewer than 8,192 rows is refused: sending parameters and sums would take
        longer than the work.
    held_out : rows in memory, or in any form of ``rows``, whose mean bound is recorded.
    engine : of the workers, as in `explain`; by name, it has one thread for each task.
    exact : refuse workers that compute other bits than this process; False warns only.
    timeout : seconds after which a worker that does not report is no longer waited for.

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
    chosen = MaxProduct(temperature=1.0) if method is None else method
    if getattr(chosen, "warm_start", False):
        raise InvalidSettingError(
            "warm_start keeps the state of every row in memory and is for one machine"
        )
    if options.block_rows is None:
        options = replace(options, block_rows=_DEFAULTS.block_rows)
    cluster, job = OnCluster(engine, exact, timeout), {"method": chosen, "seed": int(options.seed)}
    with session(client, network, rows, cluster, **job) as open_session:
        _check_size(options, open_session.rows.n_rows)
        judge = None
        if held_out is not None:
            judge = judge_of(client, network, held_out, cluster)
        return train_on(
            network,
            _RowsOfTraining(open_session),
            chosen,
            options,
            held_out=judge,
            settings={"cluster": True},
        )


class _RowsOfTraining(NamedTuple):
    """Rows of a cluster, as the loop of training asks for them."""

    session: Session

    @property
    def n_rows(self) -> int:
        return self.session.rows.n_rows

    def total_weight(self) -> float:
        items = self._items([(0, self.n_rows)])
        return float(self.session.cluster.sum(weigh, items, self.session.job)[0][0])

    def identity(self) -> bytes:
        return self.session.first_chunk()

    def batches(self, method: Method, options: TrainOptions) -> Batches:
        size, order = options.batch_size or self.n_rows, order_of(self.n_rows, options)
        cluster, job = self.session.cluster, self.session.job

        def compute(number: int, state: TrainingState) -> BatchGradient:
            last = min((number + 1) * size, self.n_rows)
            step = self.session.task_rows(last - number * size)
            items = [
                self.session.rows.item(order.pieces(begin, min(begin + step, last)), keep=True)
                for begin in range(number * size, last, step)
            ]
            theta = cluster.share(state.theta)
            value, gradient, weight = cluster.sum(
                add_up_gradient, items, job, theta=theta, step=state.step
            )
            return BatchGradient(GradientSum(float(value[0]), gradient, float(weight[0])))

        return compute

    def _items(self, pieces: list[tuple[int, int]]) -> list[Item]:
        size = self.session.task_rows(self.n_rows)
        return [
            self.session.rows.item([(begin, min(begin + size, end))])
            for first, end in pieces
            for begin in range(first, end, size)
        ]


def judge_of(client: Any, network: Network, held_out: Any, cluster: OnCluster) -> HeldOut:
    """Held-out rows of this process, or of the cluster."""
    if not is_for_cluster(held_out):
        return HeldOut.in_memory(network, held_out, cluster.engine)

    def identity() -> bytes:
        with session(client, network, held_out, cluster) as held:
            return held.first_chunk()

    def bound(current: Network, method: Method) -> float:
        return mean_bound(client, current, held_out, method, cluster)

    return HeldOut(identity, bound)


def _check_size(options: TrainOptions, n_rows: int) -> None:
    size = options.batch_size
    if size is not None and size < min(FEWEST_ROWS, n_rows):
        raise InvalidSettingError(
            f"batch_size={size:,} is too small for a cluster: parameters and sums would travel "
            f"for longer than the work takes. Take at least {FEWEST_ROWS:,} rows, or all "
            "(batch_size=None), or learn_by_gibbs, which needs no rate; or train on one machine"
        )
