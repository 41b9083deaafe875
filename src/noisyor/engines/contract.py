"""The contract of engines: functions of a backend, their options and results.

``tests/engines/contract`` checks these rules for every engine:

* Arguments and results are NumPy arrays; no argument is changed.
* Functions return sums over rows and the weight of the rows, never means, so that `GradientSum`
  values can be added.
* A row of weight w counts as w rows in every sum. Results per row do not depend on weights.
* Sums are taken over blocks of rows in a fixed balanced binary tree (`noisyor.engines.reduction`),
  so their bits do not depend on the number of workers or on the order in which they finish.
* Noise is a function of (seed, step, row id, sample, node), see `noisyor.engines.noise`. A row gets
  the same noise in any batch, order or worker.
* A node is on if its belief exceeds ``TIE``, so that an exact tie is off. Networks with uniform
  parameters have ties: real arithmetic gives a belief of zero, engines 1e-16 or, in single
  precision, 1e-6. In rows that converge all engines decode the same states.
* Workers belong to the engine: ``NumbaEngine(n_threads=2)``.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from noisyor._util.arrays import (
    BinaryArray,
    BoolArray,
    FloatArray,
    IntArray,
    LongArray,
    SingleArray,
)
from noisyor.data.observations import Observations
from noisyor.model.network import Network

FREE = 2
"""Evidence on a hidden node that is not clamped; 0 and 1 clamp it."""

TIE = 1e-5
"""Largest belief that counts as a tie: above the rounding of single precision, and far below the
tolerance of messages."""

NEVER = -1e30
"""Belief of a hidden node that took no part in the inference of a row; its state is off."""


_NO_WEIGHT = np.empty(0)
_NO_WEIGHT.flags.writeable = False  # as weights are: compiled kernels tell the two apart


class Evidence(NamedTuple):
    """The evidence of a batch of rows. Row r has its ones in ``columns[ptr[r]:ptr[r + 1]]``.

    ``ptr`` (n_rows + 1,) need not start at 0; ``missing_ptr`` and ``missing_columns`` hold
    unobserved visibles the same way. ``row_ids`` (n_rows,) key the noise. ``clamp`` (n_rows,
    n_hidden) of 0, 1 or ``FREE``, or (1, n_hidden) shared by all rows, or (0, n_hidden) for none.
    ``weight`` (n_rows,) is the number of rows that each row stands for, or (0,) if all weights are
    1.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(n_visible=3, n_hidden=1)
    >>> nor.engines.Evidence.of(network, nor.Observations.from_indices([[0, 2]], 3)).columns
    array([0, 2], dtype=int32)
    """

    ptr: LongArray
    columns: IntArray
    missing_ptr: LongArray
    missing_columns: IntArray
    row_ids: LongArray
    clamp: BinaryArray
    weight: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.ptr) - 1

    @property
    def total_weight(self) -> float:
        """Number of rows that these rows stand for."""
        return float(self.weight.sum()) if len(self.weight) else float(self.n_rows)

    @classmethod
    def of(
        cls, network: Network, observations: Observations, clamp: BinaryArray | None = None
    ) -> Evidence:
        """Build evidence from rows and, if given, ``clamp`` (n_rows or 1, n_hidden)."""
        if clamp is None:
            clamp = np.empty((0, network.n_hidden), dtype=np.uint8)
        weight = observations.weights
        return cls(
            observations.ptr,
            observations.columns,
            observations.missing_ptr,
            observations.missing_columns,
            observations.row_ids,
            clamp,
            _NO_WEIGHT if weight is None else weight,
        )


class NoiseKey(NamedTuple):
    """The part of the key of the noise that all rows of a batch share."""

    seed: int
    step: int = 0


class GradientSum(NamedTuple):
    """Sum over rows of an objective, its gradient (n_params,), and the weight of the rows.

    The sums of parts can be added; a worker returns one.

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.engines import GradientSum
    >>> GradientSum(-2.0, np.ones(2), 1.0).plus(GradientSum(-4.0, np.ones(2), 2.0)).weight
    3.0
    """

    value: float
    gradient: FloatArray
    weight: float

    def plus(self, other: GradientSum) -> GradientSum:
        """Add the sums of other rows."""
        return GradientSum(
            self.value + other.value, self.gradient + other.gradient, self.weight + other.weight
        )


# ---- options and results of the functions


class MaxProductOptions(NamedTuple):
    """The loop of max-product; see `noisyor.MaxProduct`. ``step`` is one minus the damping."""

    temperature: float
    max_iterations: int
    step: float
    tolerance: float
    n_samples: int
    ancestors_only: bool
    two_stage: bool


class MaxProductResult(NamedTuple):
    """States of all draws: draw ``r * n_samples + s`` is sample s of row r.

    ``states`` (draws, n_hidden); ``beliefs`` (draws, n_hidden), or (0, n_hidden) if not wanted;
    ``iterations`` (draws,); ``residual`` (draws,) largest residual of a message in the last
    iteration.
    """

    states: BinaryArray
    beliefs: SingleArray
    iterations: IntArray
    residual: SingleArray

    @classmethod
    def empty(cls, n_draws: int, n_hidden: int, with_beliefs: bool) -> MaxProductResult:
        """Allocate arrays for an engine to fill."""
        return cls(
            np.zeros((n_draws, n_hidden), dtype=np.uint8),
            np.zeros((n_draws if with_beliefs else 0, n_hidden), dtype=np.float32),
            np.zeros(n_draws, dtype=np.int32),
            np.zeros(n_draws, dtype=np.float32),
        )


class IcmOptions(NamedTuple):
    """Sweeps of iterated conditional modes, and which nodes take part; see `MaxProductOptions`."""

    sweeps: int
    ancestors_only: bool


class MeanFieldOptions(NamedTuple):
    """The schedule; see `noisyor.MeanField`. A negative tolerance stands for None."""

    local: bool
    outer: int
    inner: int
    r_iterations: int
    tolerance: float
    r_tolerance: float


class MeanFieldResult(NamedTuple):
    """``elbo`` and ``gain`` of the last round (n_rows,); ``rounds`` (n_rows,); ``q`` (n_rows,
    n_hidden), or (0, n_hidden) if not wanted.
    """

    elbo: FloatArray
    gain: FloatArray
    rounds: IntArray
    q: FloatArray

    @classmethod
    def empty(cls, n_rows: int, n_hidden: int, with_q: bool) -> MeanFieldResult:
        """Allocate arrays for an engine to fill."""
        rounds, q = np.zeros(n_rows, dtype=np.int32), np.zeros((n_rows if with_q else 0, n_hidden))
        return cls(np.zeros(n_rows), np.zeros(n_rows), rounds, q)


class GibbsResult(NamedTuple):
    """States (n_rows, n_hidden) after a sweep, and sums over rows for the parameters (n_params,).

    ``successes``: expected number of rows in which each parameter switched its node on; ``trials``:
    number of rows in which it could have, with its parent on and its child observed.
    """

    states: BinaryArray
    successes: FloatArray
    trials: FloatArray


class AnnealingOptions(NamedTuple):
    """Options of `Engine.anneal`.

    ``n_expansions`` configurations have all their single flips added to the set; ``n_chains``
    chains, or 0 for none, make ``n_steps`` sweeps to the posterior and ``n_stay`` more there.
    """

    n_expansions: int
    n_chains: int
    n_steps: int
    n_stay: int


class AnnealingResult(NamedTuple):
    """Sets of configurations and chains outside them.

    ``log_sum`` (n_rows,) log of the sum of p(h, x) over the set; ``size`` (n_rows,) its number of
    configurations of the nodes that interact; ``log_evidence`` (n_rows,) estimate of log p(x) from
    set and chains and ``log_error`` its standard error, ``log_sum`` and zero without chains;
    ``probability`` and ``error`` (n_rows, n_hidden) of each node and its standard error, or
    (0, n_hidden) if not wanted.
    """

    log_sum: FloatArray
    size: LongArray
    log_evidence: FloatArray
    log_error: FloatArray
    probability: FloatArray
    error: FloatArray

    @classmethod
    def empty(cls, n_rows: int, n_hidden: int, with_probability: bool) -> AnnealingResult:
        """Allocate arrays for an engine to fill."""
        of_rows = (np.zeros(n_rows) for _ in range(3))
        shape = (n_rows if with_probability else 0, n_hidden)
        log_sum, log_evidence, log_error = of_rows
        size = np.zeros(n_rows, dtype=np.int64)
        return cls(log_sum, size, log_evidence, log_error, np.zeros(shape), np.zeros(shape))


class TemperingResult(NamedTuple):
    """Chains from independent nodes to the posterior.

    ``log_weight`` (n_rows, n_chains): the mean of its exponential is an unbiased estimate of p(x).
    ``probability`` (n_rows, n_chains, n_hidden) of each node in the last sweep of each chain.
    """

    log_weight: FloatArray
    probability: FloatArray


class JointUnaries(NamedTuple):
    """Log-odds of every variable of joint max-product.

    ``pixels`` (n_images, height, width), 0 where not observed; ``states`` (n_images, n_components,
    rows, columns); ``features`` (n_components, feature_height, feature_width), plus and minus
    infinity where they are given.
    """

    pixels: SingleArray
    states: SingleArray
    features: SingleArray


class JointOptions(NamedTuple):
    """The loop of joint max-product; see `noisyor.inference.JointMaxProduct`."""

    iterations: int
    damping: float
    tolerance: float
    two_stage: bool = False


class JointResult(NamedTuple):
    """Log-odds of the max-marginals in the shapes of `JointUnaries`, with iterations and residual.

    ``iterations`` is the largest number of any image, ``residual`` the largest residual of a
    message in the last iteration.
    """

    states: SingleArray
    features: SingleArray
    iterations: int
    residual: float


class CoverResult(NamedTuple):
    """Memberships (n_rows, n_factors) after flips, how many factors cover each entry (n_rows,
    n_columns), and the number of flips.
    """

    states: BinaryArray
    counts: IntArray
    flips: int


class ImproveOptions(NamedTuple):
    """Options of `Engine.improve_cover`.

    At most ``steps`` replacements of factors are made, fewer if ``patience`` in a row bring no
    gain.
    """

    steps: int
    patience: int


class ImprovedCover(NamedTuple):
    """The cover with fewest errors: ``states`` (n_rows, n_factors), ``factors`` (n_factors,
    n_columns), the weight of its wrong entries, and the number of replacements made.
    """

    states: BinaryArray
    factors: BinaryArray
    errors: float
    steps: int


class Factors(NamedTuple):
    """Columns of every factor: those of factor k are ``columns[ptr[k]:ptr[k + 1]]``."""

    ptr: LongArray
    columns: IntArray


# ---- the engine


@runtime_checkable
class Engine(Protocol):
    """A backend. ``supports`` names its functions; for others the registry has a fallback.

    ``prepared`` is the result of ``prepare`` for the network. It holds the parameters in the
    engine's own layout.

    Examples
    --------
    >>> import noisyor as nor
    >>> sorted(nor.engines.get_engine("numba").supports)[0]
    'anneal'
    """

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    @property
    def workers(self) -> int:
        """Number of threads or devices in use; no result depends on it."""
        ...

    @property
    def supports(self) -> frozenset[str]:
        """Names of the functions of this protocol that the engine has."""
        ...

    def prepare(self, network: Network) -> Any:
        """Convert the network to the engine's layout; what depends on the graph alone is cached."""
        ...

    def max_product(
        self,
        prepared: Any,
        evidence: Evidence,
        options: MaxProductOptions,
        key: NoiseKey,
        *,
        with_beliefs: bool = False,
    ) -> MaxProductResult:
        """Pass messages and decode the states of every row."""
        ...

    def icm(
        self, prepared: Any, evidence: Evidence, states: BinaryArray, options: IcmOptions
    ) -> BinaryArray:
        """Run iterated conditional modes: flip single nodes of states (draws, n_hidden) while
        log p(h, x) rises; clamps stay.
        """
        ...

    def log_joint(self, prepared: Any, evidence: Evidence, states: BinaryArray) -> FloatArray:
        """Compute ``log p(h, x)`` (draws,) of states (draws, n_hidden), one or more a row."""
        ...

    def log_joint_gradient(
        self, prepared: Any, evidence: Evidence, states: BinaryArray
    ) -> GradientSum:
        """Sum ``log p(h, x)`` and its gradient over rows; draws of one row are averaged."""
        ...

    def mean_field(
        self, prepared: Any, evidence: Evidence, options: MeanFieldOptions, *, with_q: bool = False
    ) -> MeanFieldResult:
        """Maximize the bound of every row by coordinate ascent on (q, r)."""
        ...

    def mean_field_gradient(
        self, prepared: Any, evidence: Evidence, options: MeanFieldOptions
    ) -> GradientSum:
        """Sum the bound and its gradient, with (q, r) held fixed at the optimum, over rows."""
        ...

    def gibbs_sweep(
        self, prepared: Any, evidence: Evidence, states: BinaryArray, key: NoiseKey
    ) -> GibbsResult:
        """Draw every hidden node of every row once, given all others; ``key.step`` numbers it."""
        ...

    def anneal(
        self,
        prepared: Any,
        evidence: Evidence,
        starts: BinaryArray,
        options: AnnealingOptions,
        key: NoiseKey,
        *,
        with_probability: bool = False,
    ) -> AnnealingResult:
        """Grow sets of configurations from ``starts`` (n_rows * n_starts, n_hidden); run chains."""
        ...

    def temper(
        self,
        prepared: Any,
        evidence: Evidence,
        first: FloatArray,
        n_chains: int,
        n_steps: int,
        key: NoiseKey,
    ) -> TemperingResult:
        """Run annealed importance sampling in a network of one layer.

        A chain starts from independent nodes that are on with probabilities ``first`` (n_rows,
        n_hidden), strictly between 0 and 1, and passes to p(h, x) in ``n_steps`` Gibbs sweeps.
        """
        ...

    def joint_max_product(
        self,
        unaries: JointUnaries,
        options: JointOptions,
        progress: Callable[[int], object] | None = None,
    ) -> JointResult:
        """Infer states and features together, or the states alone if the features are given.

        ``progress`` is called with the number of iterations just finished, or of images if features
        are given.
        """
        ...

    def cover_memberships(
        self,
        weights: SingleArray,
        factors: Factors,
        states: BinaryArray,
        counts: IntArray,
        price: FloatArray,
    ) -> CoverResult:
        """Flip memberships of rows in factors as long as the cover gains.

        ``weights`` (n_rows, n_columns) gain from covering an entry; ``states`` (n_rows, n_factors);
        ``counts`` (n_rows, n_columns) how many factors cover it; ``price`` (n_factors,) of one
        membership.
        """
        ...

    def improve_cover(
        self,
        ones: BoolArray,
        observed: BoolArray,
        weights: FloatArray,
        states: BinaryArray,
        factors: BinaryArray,
        options: ImproveOptions,
        key: NoiseKey,
    ) -> ImprovedCover:
        """Replace factors of a cover, some at a time; keep a change if it does not add errors.

        ``ones`` and ``observed`` (n_rows, n_columns); ``weights`` (n_rows,) of the rows, or (0,) if
        all are 1; ``states`` (n_rows, n_factors) and ``factors`` (n_factors, n_columns) to start
        from.
        """
        ...


EngineLike = str | Engine
"""Type of ``engine=``: ``"auto"``, the name of an engine, or an engine."""

FUNCTIONS = frozenset(
    name for name, member in vars(Engine).items() if isfunction(member) and name[0] != "_"
) - {"prepare"}
"""Names of the functions that an engine may support."""
