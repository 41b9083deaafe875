"""The base class of inference methods, and what methods return.

Training, explaining and evaluating use a method through this class only. Many rows are inferred
in blocks, so that memory stays bounded and progress can be shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.progress import progress_bar
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, GradientSum
from noisyor.engines.registry import Runner
from noisyor.errors import InvalidSettingError
from noisyor.model.network import Network

BLOCK_BYTES = 32 * 2**20
"""Size of the dense arrays of one block."""


class Bounds(NamedTuple):
    """Test-time bounds on ``log p(x)`` of every row, (n_rows,) each.

    ``mode``: ``log p(h, x)`` at the method's single best explanation; ``elbo``: the method's own
    bound, the same as ``mode`` unless the method averages over causes.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> row = np.array([[1, 1, 0]])
    >>> bounds = nor.MeanField().bounds(network, nor.Observations.of(row))
    >>> bool(bounds.elbo[0] > bounds.mode[0])
    True
    """

    mode: FloatArray
    elbo: FloatArray


def check_method(method: object) -> None:
    """Raise `InvalidSettingError` unless ``method`` is an object with the functions of a method."""
    if isinstance(method, type) or not hasattr(method, "posterior"):
        shown = f"the class {method.__name__}" if isinstance(method, type) else repr(method)
        raise InvalidSettingError(
            f"method must be an object such as MaxProduct() or MeanField(), got {shown}"
        )


@dataclass(frozen=True, eq=False)
class Posterior:
    """Binary explanations of a batch of rows.

    With several samples per row, draw ``row * n_samples + sample`` belongs to that row and sample.

    Attributes
    ----------
    states : sparse (n_rows * n_samples, n_hidden) uint8, the causes that are on.
    log_joint : (n_rows * n_samples,) exact ``log p(h, x)``, unobserved visibles summed out.
    iterations : (n_rows * n_samples,) rounds of message passing that were run.
    residual : (n_rows * n_samples,) largest residual of a message in the last iteration.
    converged : (n_rows * n_samples,) whether the residual is below the tolerance.
    n_samples : number of explanations per row.
    beliefs : (n_rows * n_samples, n_hidden) float32 log-odds of the max-marginals, or None if they
        were not requested. Nodes that were left out as non-ancestors have -1e30.
    messages : (n_rows * n_samples, n_edges) float32 log-odds that each child sends to its parent,
        edges as in ``network.edge_child`` and ``network.parent``; NaN where the child is
        unobserved. None if they were not requested.
    q : (n_rows, n_hidden) mean-field probabilities of the causes, or None if another method was
        used or they were not kept. With mean-field, ``iterations`` holds the rounds and
        ``residual`` the gain of the last round.
    elbo_vi : (n_rows,) the mean-field bound on ``log p(x)``, or None.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> posterior = nor.explain(network, rows)
    >>> posterior.active(1)
    array([1], dtype=int32)
    """

    states: sp.csr_array
    log_joint: npt.NDArray[np.float64]
    iterations: npt.NDArray[np.int32]
    residual: npt.NDArray[np.float32]
    converged: npt.NDArray[np.bool_]
    n_samples: int = 1
    beliefs: npt.NDArray[np.float32] | None = None
    messages: npt.NDArray[np.float32] | None = None
    q: npt.NDArray[np.float64] | None = None
    elbo_vi: npt.NDArray[np.float64] | None = None

    @property
    def n_rows(self) -> int:
        """Number of observations explained."""
        return int(self.states.shape[0]) // self.n_samples

    @property
    def n_hidden(self) -> int:
        """Number of hidden nodes."""
        return int(self.states.shape[1])

    def sample(self, number: int) -> sp.csr_array:
        """Return the states of one sample for every row, sparse (n_rows, n_hidden)."""
        if not 0 <= number < self.n_samples:
            raise IndexError(f"there are {self.n_samples} samples per row, no number {number}")
        return self.states[number :: self.n_samples]

    def marginals(self) -> sp.csr_array:
        """Return the share of samples in which each cause is on, sparse (n_rows, n_hidden).

        A mean-field posterior that kept q returns q.
        """
        if self.q is not None:
            return sp.csr_array(self.q)
        draws = np.arange(self.states.shape[0])
        average = sp.csr_array(
            (np.full(len(draws), 1.0 / self.n_samples), (draws // self.n_samples, draws)),
            shape=(self.n_rows, len(draws)),
        )
        return sp.csr_array(average @ self.states.astype(np.float64))

    def active(self, row: int, sample: int = 0) -> npt.NDArray[np.int32]:
        """Return the indices of the causes that are on in one explanation."""
        draw = row * self.n_samples + sample
        indices = self.states.indices[self.states.indptr[draw] : self.states.indptr[draw + 1]]
        return np.asarray(indices, dtype=np.int32)

    def take(self, rows: npt.NDArray[np.int64]) -> Posterior:
        """Return the explanations of some rows, in the order given; rows may repeat."""
        draws = (rows[:, None] * self.n_samples + np.arange(self.n_samples)).ravel()
        # Mean field, which alone has q and elbo_vi, gives one draw for each row.
        return replace(self, **{name: values[draws] for name, values in self.arrays().items()})

    def arrays(self) -> dict[str, Any]:
        """Return the attributes with an entry for each row and sample, by name."""
        return {
            name: values
            for name, values in vars(self).items()
            if name != "n_samples" and values is not None
        }

    def __repr__(self) -> str:
        return (
            f"Posterior(rows={self.n_rows}, samples={self.n_samples}, hidden={self.n_hidden}, "
            f"mean log p(h, x)={self.log_joint.mean():.4f}, "
            f"converged={100 * self.converged.mean():.1f} %)"
        )


class Method(ABC):
    """An inference method that can train a network. Methods are frozen dataclasses without state.

    A subclass has a ``name`` for records, such as ``"max-product"``, and infers blocks of rows with
    `infer` and `gradient`. Without noise each distinct row is inferred once, and rows that are
    equal to it get a copy, unless rows have individual evidence on hidden nodes.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.MaxProduct().name, nor.MeanField().name
    ('max-product', 'mean-field')
    """

    name: ClassVar[str]

    @abstractmethod
    def infer(
        self, runner: Runner, observations: Observations, clamp: BinaryArray | None, seed: int
    ) -> Posterior:
        """Infer the causes of the rows of one block; arguments as in `posterior`."""

    @abstractmethod
    def gradient(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int,
        step: int,
        engine: EngineLike = "auto",
    ) -> GradientSum:
        """Infer the causes of a batch, then differentiate the bound with the causes held fixed.

        Returns the sums over rows of the bound and of its gradient.
        """

    @property
    def has_noise(self) -> bool:
        """Whether rows that are the same may get different results, by noise keyed by their ids."""
        return False

    def at_test_time(self) -> Method:
        """Return the same settings for evaluation: no noise, one explanation per row."""
        return self

    def row_bytes(self, network: Network) -> int:
        """Return the memory that the result of a row takes; by default states and probabilities."""
        return 9 * network.n_hidden

    def settings(self) -> dict[str, object]:
        """Return everything that determines the results, for records and checkpoints.

        By default these are all fields except those that only say what to keep.
        """
        fields = {key: value for key, value in vars(self).items() if not key.startswith("keep_")}
        return {"method": self.name, **fields}

    def posterior(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int = 0,
        clamp: BinaryArray | None = None,
        engine: EngineLike = "auto",
        progress: bool | None = False,
    ) -> Posterior:
        """Infer the causes of every row; ``clamp`` (n_rows or 1, n_hidden) of 0, 1 and ``FREE``."""
        distinct, numbers = observations, None
        if not self.has_noise and (clamp is None or len(clamp) == 1):
            distinct, numbers = observations.unique_rows()
        runner = Runner(self._engine(engine), network)
        blocks = row_blocks(distinct, clamp, self.row_bytes(network), progress)
        found = concatenate([self.infer(runner, rows, fixed, seed) for rows, fixed in blocks])
        return found if numbers is None or distinct is observations else found.take(numbers)

    def bounds(
        self,
        network: Network,
        observations: Observations,
        *,
        engine: EngineLike = "auto",
        progress: bool | None = False,
    ) -> Bounds:
        """Return the bounds at test time: ``log p(h, x)`` of the best explanation, and the own."""
        method = self.at_test_time()
        found = method.posterior(network, observations, engine=engine, progress=progress)
        return Bounds(found.log_joint, found.log_joint if found.elbo_vi is None else found.elbo_vi)

    def _engine(self, engine: EngineLike) -> EngineLike:
        """Return the engine to use for a requested ``engine``."""
        return engine


def concatenate(parts: Sequence[Posterior]) -> Posterior:
    """Join the posteriors of consecutive blocks of rows."""
    if len(parts) == 1:
        return parts[0]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in parts[0].arrays()
        if name != "states"
    }
    states = sp.csr_array(sp.vstack([part.states for part in parts], format="csr"))
    return replace(parts[0], states=states, **joined)


def row_blocks(
    observations: Observations,
    clamp: BinaryArray | None,
    row_bytes: int,
    progress: bool | None,
    *,
    task: str = "explain",
    max_rows: int | None = None,
) -> Iterator[tuple[Observations, BinaryArray | None]]:
    """Yield consecutive blocks of rows with their evidence on hidden nodes.

    ``clamp`` (n_rows or 1, n_hidden) or None; ``row_bytes`` is the memory that a row takes. A
    progress bar named ``task`` counts the rows of finished blocks.
    """
    size = max(1, BLOCK_BYTES // max(1, row_bytes))
    size = size if max_rows is None else min(size, max_rows)
    with progress_bar(observations.n_rows, task, "rows", progress) as bar:
        for begin in range(0, observations.n_rows, size):
            where = slice(begin, min(begin + size, observations.n_rows))
            fixed = clamp if clamp is None or len(clamp) == 1 else clamp[where]
            yield observations.take(where), fixed
            bar.update(where.stop - where.start)
