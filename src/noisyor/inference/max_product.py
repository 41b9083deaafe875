"""Max-product inference: the most likely causes of each row, or perturbed samples of them.

They also give the bound Elbo^MP on ``log p(x)`` that training maximizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import BinaryArray, SingleArray, dense_of
from noisyor._util.validation import (
    BELOW_ONE,
    COUNT,
    COUNT_OR_ZERO,
    FLAG,
    NOT_NEGATIVE,
    check_settings,
    choice,
)
from noisyor.data.observations import Observations
from noisyor.engines.contract import (
    EngineLike,
    Evidence,
    GradientSum,
    IcmOptions,
    MaxProductOptions,
    NoiseKey,
)
from noisyor.engines.registry import Runner
from noisyor.errors import InvalidDataError
from noisyor.inference.method import Method, Posterior
from noisyor.model.network import Network

ICM_SWEEPS = 20
"""Sweeps of iterated conditional modes after max-product; most rows need far fewer."""


@dataclass(frozen=True)
class MaxProduct(Method):
    """Settings of max-product message passing.

    Parameters
    ----------
    temperature : 0 for the mode; 1 for perturb-and-max-product samples: logistic noise of this
        scale on the unary of every hidden node.
    max_iterations : rounds of parallel message updates at most.
    damping : weight of the old message, 0 <= damping < 1.
    tolerance : a row stops when the largest residual of a message is below this; 0 runs all rounds.
    ancestors_only : restrict each row to the ancestors of its active visibles, all other causes
        off. Far less work for sparse data in deep networks.
    icm : sweeps of iterated conditional modes (ICM) after decoding, at most; 0 for none. ICM flips
        one node at a time as long as the exact ``log p(h, x)`` rises.
    n_samples : explanations per row; more than one makes sense with a temperature.
    keep_beliefs : also return the log-odds of every hidden node.
    keep_messages : also return these and the message of every edge, to study inference. The NumPy
        engine computes them, one row after another, for any ``engine``.
    schedule : order of the messages. ``"collapsed"`` computes those inside a noisy-OR factor from
        one another. ``"two-stage"`` stores and damps each of them as the authors' software does: it
        is slower, and with loops it often converges to another result.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network, row = nor.bipartite(3, 2), np.array([[1, 1, 0]])
    >>> method = nor.MaxProduct(temperature=1.0, n_samples=4)
    >>> nor.explain(network, row, method, seed=1).n_samples
    4
    """

    name: ClassVar[str] = "max-product"

    temperature: float = 0.0
    max_iterations: int = 100
    damping: float = 0.5
    tolerance: float = 1e-3
    ancestors_only: bool = False
    icm: int = 0
    n_samples: int = 1
    keep_beliefs: bool = False
    keep_messages: bool = False
    schedule: Literal["collapsed", "two-stage"] = "collapsed"

    def __post_init__(self) -> None:
        rules = {
            "temperature": NOT_NEGATIVE,
            "max_iterations": COUNT,
            "damping": BELOW_ONE,
            "tolerance": NOT_NEGATIVE,
            "icm": COUNT_OR_ZERO,
            "n_samples": COUNT,
            "keep_beliefs": FLAG,
            "keep_messages": FLAG,
            "schedule": choice("collapsed", "two-stage"),
        }
        check_settings(self, rules)

    def at_test_time(self) -> MaxProduct:
        """Return the same settings for evaluation: the mode, one explanation per row."""
        return replace(self, temperature=0.0, n_samples=1, keep_beliefs=False, keep_messages=False)

    @property
    def has_noise(self) -> bool:
        """Whether results depend on the ids of rows: with a temperature."""
        return self.temperature > 0

    def gradient(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int,
        step: int,
        engine: EngineLike = "auto",
    ) -> GradientSum:
        """Sum ``log p(h, x)`` at the inferred h over rows, with its gradient."""
        evidence, key = Evidence.of(network, observations), NoiseKey(int(seed), int(step))
        runner = Runner(engine, network)
        messenger, prepared = runner.on("max_product")
        states = messenger.max_product(prepared, evidence, self._options(), key).states
        states = self._refined(runner, evidence, states)
        evaluator, prepared = runner.on("log_joint_gradient")
        return evaluator.log_joint_gradient(prepared, evidence, states)

    def _engine(self, engine: EngineLike) -> EngineLike:
        return "numpy" if self.keep_messages else engine

    def row_bytes(self, network: Network) -> int:
        """Return the memory that the result of a row takes."""
        by_hidden = network.n_hidden * (5 if self.keep_beliefs else 1)
        return self.n_samples * (by_hidden + 4 * network.n_edges * self.keep_messages)

    def infer(
        self, runner: Runner, observations: Observations, clamp: BinaryArray | None, seed: int
    ) -> Posterior:
        """Infer the causes of the rows of one block."""
        evidence, key = Evidence.of(runner.network, observations, clamp), NoiseKey(int(seed))
        messenger, prepared = runner.on("max_product")
        result = messenger.max_product(
            prepared,
            evidence,
            self._options(),
            key,
            with_beliefs=self.keep_beliefs or self.keep_messages,
        )
        states = self._refined(runner, evidence, result.states)
        evaluator, prepared = runner.on("log_joint")
        return Posterior(
            states=sp.csr_array(states),
            log_joint=evaluator.log_joint(prepared, evidence, states),
            iterations=result.iterations,
            residual=result.residual,
            converged=result.residual < max(self.tolerance, 1e-6),
            n_samples=self.n_samples,
            beliefs=result.beliefs if self.keep_beliefs or self.keep_messages else None,
            messages=self._messages(runner, key, evidence) if self.keep_messages else None,
        )

    def _messages(self, runner: Runner, key: NoiseKey, evidence: Evidence) -> SingleArray:
        engine: Any
        engine, prepared = runner.on("max_product")
        messages: SingleArray = engine.edge_messages(prepared, evidence, self._options(), key)
        return messages

    def _refined(self, runner: Runner, evidence: Evidence, states: BinaryArray) -> BinaryArray:
        if not self.icm:
            return states
        engine, prepared = runner.on("icm")
        options = IcmOptions(int(self.icm), bool(self.ancestors_only))
        return engine.icm(prepared, evidence, states, options)

    def _options(self) -> MaxProductOptions:
        return MaxProductOptions(
            temperature=float(self.temperature),
            max_iterations=int(self.max_iterations),
            step=1.0 - float(self.damping),
            tolerance=float(self.tolerance),
            n_samples=int(self.n_samples),
            ancestors_only=bool(self.ancestors_only),
            two_stage=self.schedule == "two-stage",
        )


def method_for(network: Network) -> MaxProduct:
    """Return the default method of a network: the mode, refined by ICM.

    In networks of several layers only the ancestors of visibles that are on take part: all others
    are off, which is far less work for sparse rows.
    """
    return MaxProduct(icm=ICM_SWEEPS, ancestors_only=network.n_layers > 1)


def log_joint(
    network: Network, states: Any, X: Any, engine: EngineLike = "auto"
) -> npt.NDArray[np.float64]:
    """Compute the exact ``log p(h, x)`` of every row, unobserved visibles summed out.

    Parameters
    ----------
    network : the network.
    states : (n_rows, n_hidden) of 0/1, dense or sparse.
    X : observations of the same rows.
    engine : as in `explain`.

    Returns
    -------
    (n_rows,) float64.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> row = np.array([[1, 1, 0]])
    >>> nor.inference.log_joint(network, [[1, 0]], row).round(2)
    array([-2.63])
    """
    observations = network.rows_of(X)
    dense = _dense_states(states, network, observations.n_rows)
    evaluator, prepared = Runner(engine, network).on("log_joint")
    return evaluator.log_joint(prepared, Evidence.of(network, observations), dense)


def _dense_states(states: Any, network: Network, n_rows: int) -> npt.NDArray[np.uint8]:
    dense, shape = dense_of(states), (n_rows, network.n_hidden)
    if dense.shape != shape:
        raise InvalidDataError(f"states must have shape {shape}, got {dense.shape}")
    if not np.isin(dense, (0, 1)).all():
        raise InvalidDataError("states must be 0 or 1")
    return np.ascontiguousarray(dense, dtype=np.uint8)
