"""Max-product inference: the most likely causes of each row, or perturbed samples of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.progress import progress_bar
from noisyor._util.validation import is_finite, is_whole
from noisyor.data.observations import Observations
from noisyor.engines.numba import engine
from noisyor.engines.numba.max_product.rows import Options, Output
from noisyor.errors import InvalidSettingError
from noisyor.inference.method import Gradient
from noisyor.inference.posterior import Posterior, concatenate
from noisyor.network.graph import Network

_BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class MaxProduct:
    """Settings of max-product message passing.

    Parameters
    ----------
    temperature : 0 for the mode; 1 for perturb-and-max-product samples: logistic noise of this
        scale on the unary of every hidden node.
    max_iterations : rounds of parallel message updates at most.
    damping : weight of the old message, 0 <= damping < 1.
    tolerance : a row stops once no message asks for a larger change; 0 forces all rounds.
    ancestors_only : restrict each row to the ancestors of its active visibles, all other causes
        off. Far less work for sparse data in deep networks.
    polish : sweeps of single flips on the exact ``log p(h, x)`` after decoding, at most; 0 for
        none. Never lowers it.
    unobserved : ``"marginalise"`` sums unobserved visibles out exactly, ``"maximise"`` infers the
        jointly most likely values of causes and unobserved visibles.
    n_samples : explanations per row; more than one makes sense with a temperature.
    keep_beliefs : also return the log-odds of every hidden node.
    schedule : order of the messages. ``"collapsed"`` computes those inside a noisy-OR factor from
        one another. ``"two-stage"`` stores and damps each of them as the authors' software does:
        slower, and with loops it often settles elsewhere.
    """

    temperature: float = 0.0
    max_iterations: int = 100
    damping: float = 0.5
    tolerance: float = 1e-3
    ancestors_only: bool = False
    polish: int = 0
    unobserved: Literal["marginalise", "maximise"] = "marginalise"
    n_samples: int = 1
    keep_beliefs: bool = False
    schedule: Literal["collapsed", "two-stage"] = "collapsed"

    def __post_init__(self) -> None:
        for name, valid, expected in [
            ("temperature", is_finite(self.temperature) and self.temperature >= 0, "at least 0"),
            (
                "max_iterations",
                is_whole(self.max_iterations) and self.max_iterations >= 1,
                "1, 2, …",
            ),
            ("damping", is_finite(self.damping) and 0 <= self.damping < 1, "in [0, 1)"),
            ("tolerance", is_finite(self.tolerance) and self.tolerance >= 0, "at least 0"),
            ("polish", is_whole(self.polish) and self.polish >= 0, "0, 1, 2, …"),
            ("n_samples", is_whole(self.n_samples) and self.n_samples >= 1, "1, 2, …"),
            (
                "unobserved",
                self.unobserved in ("marginalise", "maximise"),
                "'marginalise' or 'maximise'",
            ),
            (
                "schedule",
                self.schedule in ("collapsed", "two-stage"),
                "'collapsed' or 'two-stage'",
            ),
        ]:
            if not valid:
                raise InvalidSettingError(f"{name} must be {expected}, got {getattr(self, name)!r}")

    def at_test_time(self) -> MaxProduct:
        """The same settings for evaluation: the mode, one explanation per row."""
        return replace(self, temperature=0.0, n_samples=1, keep_beliefs=False)

    def settings(self) -> dict[str, object]:
        """Everything that determines the results."""
        settings = asdict(self)
        del settings["keep_beliefs"]
        return {"method": "max-product", **settings}

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
        """Explanations of every row, in blocks of rows so that memory stays bounded.

        ``clamp`` (n_rows or 1, n_hidden) of 0, 1 and ``UNOBSERVED``.
        """
        prepared = engine.PreparedNetwork(network)
        options = self._options(seed)
        line_bytes = network.n_hidden * self.n_samples * (5 if self.keep_beliefs else 1)
        block = max(1, _BLOCK_BYTES // line_bytes)
        parts = []
        with progress_bar(observations.n_rows, "explain", "rows", progress) as bar:
            for begin in range(0, observations.n_rows, block):
                end = min(begin + block, observations.n_rows)
                output = engine.infer(
                    prepared,
                    observations.take(slice(begin, end)),
                    options,
                    clamp=clamp if clamp is None or len(clamp) == 1 else clamp[begin:end],
                    with_beliefs=self.keep_beliefs,
                    n_threads=n_threads,
                )
                parts.append(_posterior(output, self))
                bar.update(end - begin)
        return concatenate(parts)

    def gradient(
        self, network: Network, observations: Observations, *, seed: int, step: int, n_threads: int
    ) -> Gradient:
        """Mean over rows of ``log p(h, x)`` at the inferred h, and its gradient."""
        prepared = engine.PreparedNetwork(network)
        output = engine.infer(
            prepared, observations, self._options(seed, step), n_threads=n_threads
        )
        total, gradient = engine.gradient(prepared, observations, output.states, n_threads)
        return Gradient(total / observations.n_rows, gradient / observations.n_rows)

    def bound(
        self, network: Network, observations: Observations, *, n_threads: int
    ) -> npt.NDArray[np.float64]:
        """Elbo^MP of every row at the mode, shape (n_rows,)."""
        method = self.at_test_time()
        return method.posterior(network, observations, n_threads=n_threads).log_joint

    def _options(self, seed: int, step: int = 0) -> Options:
        return Options(
            float(self.temperature),
            int(self.max_iterations),
            1.0 - float(self.damping),
            float(self.tolerance),
            int(seed),
            int(step),
            int(self.n_samples),
            bool(self.ancestors_only),
            self.unobserved == "maximise",
            int(self.polish),
            self.schedule == "two-stage",
        )


def _posterior(output: Output, method: MaxProduct) -> Posterior:
    return Posterior(
        states=sp.csr_array(output.states),
        log_joint=output.log_joint,
        iterations=output.iterations,
        residual=output.residual,
        converged=output.residual < max(method.tolerance, 1e-6),
        n_samples=method.n_samples,
        beliefs=output.beliefs if len(output.beliefs) else None,
    )
