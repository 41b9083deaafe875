"""Mean-field variational inference: a probability for every cause of each row, and a bound."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.progress import progress_bar
from noisyor._util.validation import is_finite, is_whole
from noisyor.data.observations import Observations
from noisyor.engines.numba import engine
from noisyor.engines.numba.mean_field import entry as mean_field_engine
from noisyor.engines.numba.mean_field.entry import Memory, Options
from noisyor.errors import InvalidSettingError
from noisyor.inference.method import Gradient
from noisyor.inference.posterior import Posterior, concatenate
from noisyor.network.graph import Network

_BLOCK_BYTES = 64 * 2**20
_R_SHARE = 0.01
_R_TOLERANCE = 1e-6
_CONVERGED = 1e-3


@dataclass(frozen=True)
class MeanField:
    """Settings of mean-field inference; the default is the published schedule.

    The posterior of a row is approximated by independent probabilities q, one for each cause. The
    bound on ``log p(x)`` also depends on Jensen weights r, one for each edge into a node that may
    be on. Both start afresh for every row, q at 1/2 and r proportional to theta, and are improved
    in turn; no update lowers the bound.

    Parameters
    ----------
    local : restrict each row to the ancestors of its active visibles, q = 0 for all other causes.
        Far less work for sparse data in deep networks; the bound stays comparable.
    outer : rounds at most, each of sweeps over q followed by steps on r.
    inner : sweeps over q in a round at most; sweeps that would change nothing are not run.
    r_iterations : steps on r in a round, at most if a tolerance is given or with Newton's method.
    tolerance : None runs all rounds and steps. A number stops a row when a round raises its bound
        by less than this, and the steps on r of a child when they could gain no more than a
        hundredth of it. 1e-4 loses nothing that matters.
    r_update : ``"fixed_point"``, the published step; or ``"newton"``, which solves for r: six steps
        do what takes the fixed point hundreds. A tighter bound, by another path.
    warm_start : in training, start each minibatch from its (q, r) of the last time. The course
        then depends on the past: training that is resumed from a checkpoint starts them afresh.
        Memory: 8 bytes for every hidden node and edge of the rows' models.
    keep_q : return q with the posterior; False saves memory.
    """

    local: bool = False
    outer: int = 10
    inner: int = 10
    r_iterations: int = 10
    tolerance: float | None = None
    r_update: Literal["fixed_point", "newton"] = "fixed_point"
    warm_start: bool = False
    keep_q: bool = True
    _memories: _Memories = field(
        default_factory=lambda: _Memories(), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name, valid, expected in [
            ("outer", is_whole(self.outer) and self.outer >= 1, "1, 2, …"),
            ("inner", is_whole(self.inner) and self.inner >= 1, "1, 2, …"),
            ("r_iterations", is_whole(self.r_iterations) and self.r_iterations >= 0, "0, 1, 2, …"),
            (
                "tolerance",
                self.tolerance is None or (is_finite(self.tolerance) and self.tolerance >= 0),
                "None or at least 0",
            ),
            (
                "r_update",
                self.r_update in ("fixed_point", "newton"),
                "'fixed_point' or 'newton'",
            ),
        ]:
            if not valid:
                raise InvalidSettingError(f"{name} must be {expected}, got {getattr(self, name)!r}")

    def settings(self) -> dict[str, object]:
        """Everything that determines the results."""
        settings = asdict(replace(self))
        del settings["keep_q"], settings["_memories"]
        return {"method": "mean-field", **settings}

    def posterior(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int = 0,
        clamp: npt.NDArray[np.uint8] | None = None,
        n_threads: int = 1,
        progress: bool | None = False,
    ) -> Posterior:
        """q, the mode ``q >= 1/2`` and both bounds of every row, in blocks of rows.

        ``clamp`` (n_rows or 1, n_hidden) of 0, 1 and ``UNOBSERVED``. The result is the same for any
        ``seed``.
        """
        prepared = mean_field_engine.PreparedNetwork(network)
        exact = engine.PreparedNetwork(network)
        block = max(1, _BLOCK_BYTES // (9 * network.n_hidden))
        parts = []
        with progress_bar(observations.n_rows, "explain", "rows", progress) as bar:
            for begin in range(0, observations.n_rows, block):
                end = min(begin + block, observations.n_rows)
                rows = observations.take(slice(begin, end))
                output = mean_field_engine.infer(
                    prepared,
                    rows,
                    self._options(),
                    clamp=clamp if clamp is None or len(clamp) == 1 else clamp[begin:end],
                    with_q=True,
                    n_threads=n_threads,
                )
                states = (output.q >= 0.5).astype(np.uint8)
                parts.append(
                    Posterior(
                        states=sp.csr_array(states),
                        log_joint=engine.log_joint(exact, rows, states, n_threads),
                        iterations=output.rounds,
                        residual=output.gain.astype(np.float32),
                        converged=output.gain < max(self.tolerance or 0.0, _CONVERGED),
                        q=output.q if self.keep_q else None,
                        elbo_vi=output.elbo,
                    )
                )
                bar.update(end - begin)
        return concatenate(parts)

    def gradient(
        self, network: Network, observations: Observations, *, seed: int, step: int, n_threads: int
    ) -> Gradient:
        """Mean over rows of Elbo^VI at the inferred (q, r), and its gradient."""
        prepared = mean_field_engine.PreparedNetwork(network)
        memory = None
        if self.warm_start:
            memory = self._memories.recall(prepared, observations, self.local)
        total, gradient = mean_field_engine.gradient(
            prepared, observations, self._options(), memory=memory, n_threads=n_threads
        )
        return Gradient(total / observations.n_rows, gradient / observations.n_rows)

    def bound(
        self, network: Network, observations: Observations, *, n_threads: int
    ) -> npt.NDArray[np.float64]:
        """Elbo^VI of every row, shape (n_rows,)."""
        prepared = mean_field_engine.PreparedNetwork(network)
        options = self._options()
        return mean_field_engine.infer(prepared, observations, options, n_threads=n_threads).elbo

    def _options(self) -> Options:
        newton, r_tolerance = self.r_update == "newton", -1.0
        if self.tolerance is not None:
            r_tolerance = _R_SHARE * self.tolerance
        elif newton:
            r_tolerance = _R_TOLERANCE
        return Options(
            local=bool(self.local),
            outer=int(self.outer),
            inner=int(self.inner),
            r_iterations=int(self.r_iterations),
            tolerance=-1.0 if self.tolerance is None else float(self.tolerance),
            r_tolerance=float(r_tolerance),
            newton=newton,
        )


class _Memories:
    """(q, r) of the minibatches seen so far, by their content."""

    def __init__(self) -> None:
        self.graph: object = None
        self.by_batch: dict[str, Memory] = {}

    def recall(
        self,
        prepared: mean_field_engine.PreparedNetwork,
        observations: Observations,
        local: bool,
    ) -> Memory:
        """Memory of a batch, filled if it was seen before; it will hold the new (q, r) as well."""
        if self.graph is not prepared.graph:
            self.graph, self.by_batch = prepared.graph, {}
        key = observations.fingerprint()
        memory = self.by_batch.get(key)
        if memory is None:
            memory = mean_field_engine.empty_memory(prepared, observations, local)
            self.by_batch[key] = memory._replace(filled=True)
        return memory
