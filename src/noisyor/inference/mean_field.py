"""Mean-field variational inference: a probability for every cause of each row, and a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BinaryArray
from noisyor._util.validation import COUNT, COUNT_OR_ZERO, NOT_NEGATIVE, check_settings, or_none
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence, GradientSum, MeanFieldOptions
from noisyor.engines.registry import Runner
from noisyor.inference.method import Method, Posterior
from noisyor.model.network import Network

_R_SHARE = 0.01
"""Share of the tolerance of the bound up to which the Jensen weights of a child are solved."""

_CONVERGED = 1e-3
"""A row counts as converged if the last round added less than this to its bound."""


@dataclass(frozen=True)
class MeanField(Method):
    """Settings of mean-field inference; the default is the published schedule.

    The posterior of a row is approximated by independent probabilities q, one for each cause. The
    bound on ``log p(x)`` also depends on Jensen weights r, one for each edge into a node that may
    be on. For every row q starts at 1/2 and r proportional to theta, and both are improved in turn;
    no update lowers the bound.

    Parameters
    ----------
    local : restrict each row to the ancestors of its active visibles, q = 0 for all other causes.
        Far less work for sparse data in deep networks; the bound stays comparable.
    outer : rounds at most, each of sweeps over q followed by steps on r.
    inner : sweeps over q in a round at most; sweeps that would change nothing are not run.
    r_iterations : steps on r in a round, at most if a tolerance is given.
    tolerance : None runs all rounds and steps. A number stops a row when a round raises its bound
        by less than this, and the steps on r of a child when they could gain no more than a
        hundredth of it. 1e-4 changes results negligibly.
    keep_q : return q with the posterior; False saves memory.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> row = np.array([[1, 1, 0]])
    >>> posterior = nor.explain(network, row, nor.MeanField())
    >>> posterior.q.round(2)
    array([[1.  , 0.01]])
    """

    name: ClassVar[str] = "mean-field"

    local: bool = False
    outer: int = 10
    inner: int = 10
    r_iterations: int = 10
    tolerance: float | None = None
    keep_q: bool = True

    def __post_init__(self) -> None:
        rules = {
            "outer": COUNT,
            "inner": COUNT,
            "r_iterations": COUNT_OR_ZERO,
            "tolerance": or_none(NOT_NEGATIVE),
        }
        check_settings(self, rules)

    def gradient(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int,
        step: int,
        engine: EngineLike = "auto",
    ) -> GradientSum:
        """Sum Elbo^VI at the inferred (q, r) over rows, with its gradient."""
        solver, prepared = Runner(engine, network).on("mean_field_gradient")
        evidence = Evidence.of(network, observations)
        return solver.mean_field_gradient(prepared, evidence, self._options())

    def at_test_time(self) -> MeanField:
        """Return the same settings for evaluation: without q."""
        return replace(self, keep_q=False)

    def infer(
        self, runner: Runner, observations: Observations, clamp: BinaryArray | None, seed: int
    ) -> Posterior:
        """Infer the causes of the rows of one block."""
        evidence = Evidence.of(runner.network, observations, clamp)
        solver, prepared = runner.on("mean_field")
        result = solver.mean_field(prepared, evidence, self._options(), with_q=True)
        states = (result.q >= 0.5).astype(np.uint8)
        evaluator, prepared = runner.on("log_joint")
        return Posterior(
            states=sp.csr_array(states),
            log_joint=evaluator.log_joint(prepared, evidence, states),
            iterations=result.rounds,
            residual=result.gain.astype(np.float32),
            converged=result.gain < max(self.tolerance or 0.0, _CONVERGED),
            q=result.q if self.keep_q else None,
            elbo_vi=result.elbo,
        )

    def _options(self) -> MeanFieldOptions:
        return MeanFieldOptions(
            local=bool(self.local),
            outer=int(self.outer),
            inner=int(self.inner),
            r_iterations=int(self.r_iterations),
            tolerance=-1.0 if self.tolerance is None else float(self.tolerance),
            r_tolerance=-1.0 if self.tolerance is None else _R_SHARE * float(self.tolerance),
        )
