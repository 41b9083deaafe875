"""The NumPy engine: every function of the contract, slow and readable, float64 throughout.

Read the modules in this order: `rows` (what is known of a row), `log_joint`, `max_product`,
`jensen` and `mean_field`, `local_model`, `gibbs`, `configurations`, `annealing`,
`joint_max_product`, `cover`, `cover_search`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, IntArray, SingleArray
from noisyor.engines import contract
from noisyor.engines.numpy.annealing import anneal
from noisyor.engines.numpy.cover import cover_memberships
from noisyor.engines.numpy.cover_search import improve_cover
from noisyor.engines.numpy.gibbs import gibbs_sweep
from noisyor.engines.numpy.joint_max_product import joint_max_product
from noisyor.engines.numpy.log_joint import log_joint, log_joint_gradient, polish
from noisyor.engines.numpy.max_product import max_product
from noisyor.engines.numpy.mean_field import mean_field, mean_field_gradient
from noisyor.engines.numpy.rows import Prepared
from noisyor.engines.threads import resolve_threads
from noisyor.model.network import Network

__all__ = ["NumpyEngine"]


@dataclass(frozen=True)
class NumpyEngine:
    """The reference that other engines are held to. See `noisyor.engines.contract.Engine`.

    ``n_threads`` is accepted because every engine has it; this one works on one thread, whatever
    it is.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=0.1, prior_probability=0.3)
    >>> engine = nor.engines.NumpyEngine()
    >>> nor.explain(network, np.array([[1, 1], [0, 0]]), engine=engine).states.toarray()
    array([[1],
           [0]], dtype=uint8)
    """

    n_threads: int | None = None

    name: ClassVar[str] = "numpy"
    supports: ClassVar[frozenset[str]] = contract.FUNCTIONS

    def __post_init__(self) -> None:
        resolve_threads(self.n_threads)

    @property
    def workers(self) -> int:
        """One."""
        return 1

    def prepare(self, network: Network) -> Prepared:
        """The network with its parameters spread over edges and nodes."""
        return Prepared(network)

    def max_product(
        self,
        prepared: Prepared,
        evidence: contract.Evidence,
        options: contract.MaxProductOptions,
        key: contract.NoiseKey,
        *,
        with_beliefs: bool = False,
    ) -> contract.MaxProductResult:
        """Message passing and decoding of every row."""
        return max_product(prepared, evidence, options, key, with_beliefs=with_beliefs)

    def polish(
        self,
        prepared: Prepared,
        evidence: contract.Evidence,
        states: BinaryArray,
        options: contract.PolishOptions,
    ) -> BinaryArray:
        """States (lines, n_hidden) after single flips that raise log p(h, x); clamps stay."""
        return polish(prepared, evidence, states, options)

    def log_joint(
        self, prepared: Prepared, evidence: contract.Evidence, states: BinaryArray
    ) -> FloatArray:
        """``log p(h, x)`` (lines,) of states (lines, n_hidden), several lines per row allowed."""
        return log_joint(prepared, evidence, states)

    def log_joint_gradient(
        self, prepared: Prepared, evidence: contract.Evidence, states: BinaryArray
    ) -> contract.GradientSum:
        """Sum over rows of ``log p(h, x)`` and its gradient; lines of one row are averaged."""
        return log_joint_gradient(prepared, evidence, states)

    def mean_field(
        self,
        prepared: Prepared,
        evidence: contract.Evidence,
        options: contract.MeanFieldOptions,
        *,
        with_q: bool = False,
    ) -> contract.MeanFieldResult:
        """Coordinate ascent on (q, r) of every row."""
        return mean_field(prepared, evidence, options, with_q=with_q)

    def mean_field_gradient(
        self,
        prepared: Prepared,
        evidence: contract.Evidence,
        options: contract.MeanFieldOptions,
        warm: contract.WarmState | None = None,
        *,
        keep_warm: bool = False,
    ) -> tuple[contract.GradientSum, contract.WarmState | None]:
        """Sum over rows of the bound and its gradient with (q, r) held fixed at the optimum."""
        return mean_field_gradient(prepared, evidence, options, warm, keep_warm=keep_warm)

    def gibbs_sweep(
        self,
        prepared: Prepared,
        evidence: contract.Evidence,
        states: BinaryArray,
        key: contract.NoiseKey,
    ) -> contract.GibbsResult:
        """Draw every hidden node of every row once, given all others; ``key.step`` numbers it."""
        return gibbs_sweep(prepared, evidence, states, key)

    def anneal(
        self,
        prepared: Prepared,
        evidence: contract.Evidence,
        starts: BinaryArray,
        options: contract.AnnealingOptions,
        key: contract.NoiseKey,
        *,
        with_probability: bool = False,
    ) -> contract.AnnealingResult:
        """Sets of likely configurations from ``starts`` (n_rows * n_starts, n_hidden), chains."""
        return anneal(prepared, evidence, starts, options, key, with_probability=with_probability)

    def joint_max_product(
        self,
        unaries: contract.JointUnaries,
        options: contract.JointOptions,
        progress: Callable[[int], object] | None = None,
    ) -> contract.JointResult:
        """States and features together, or the states alone if the features are given."""
        return joint_max_product(unaries, options, progress)

    def cover_memberships(
        self,
        weights: SingleArray,
        factors: contract.Factors,
        states: BinaryArray,
        counts: IntArray,
        price: FloatArray,
    ) -> contract.CoverResult:
        """Flip memberships of rows in factors while the cover gains."""
        return cover_memberships(weights, factors, states, counts, price)

    def improve_cover(
        self,
        ones: BoolArray,
        observed: BoolArray,
        weights: FloatArray,
        states: BinaryArray,
        factors: BinaryArray,
        options: contract.ImproveOptions,
        key: contract.NoiseKey,
    ) -> contract.ImprovedCover:
        """Replace factors of a cover, some at a time, and keep what has no more errors."""
        return improve_cover(ones, observed, weights, states, factors, options, key)
