"""Max-product on one batch of rows, for timing."""

from __future__ import annotations

import noisyor as nor
from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import Evidence, GradientSum, MaxProductResult, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.model.network import Network


class BatchInference:
    """An engine with prepared network and rows; a call runs inference.

    A call passes messages, decodes the states and evaluates ``log p(h, x)`` of every row.
    """

    def __init__(
        self,
        network: Network,
        rows: Observations,
        method: nor.MaxProduct,
        *,
        n_threads: int = 1,
        step: int = 0,
    ) -> None:
        self.engine = get_engine("numba", n_threads=n_threads)
        self.prepared = self.engine.prepare(network)
        self.evidence = Evidence.of(network, rows)
        self.options, self.key = method._options(), NoiseKey(0, step)

    def __call__(self) -> tuple[MaxProductResult, FloatArray]:
        found = self.max_product()
        return found, self.engine.log_joint(self.prepared, self.evidence, found.states)

    def max_product(self, *, with_beliefs: bool = False) -> MaxProductResult:
        """Pass messages and decode the states."""
        return self.engine.max_product(
            self.prepared, self.evidence, self.options, self.key, with_beliefs=with_beliefs
        )

    def gradient(self, found: MaxProductResult) -> GradientSum:
        """Return the sum over rows of ``log p(h, x)``, and its gradient."""
        return self.engine.log_joint_gradient(self.prepared, self.evidence, found.states)
