"""Max-product inference: the most likely causes of each row, or perturbed samples of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor.engines.numba import engine
from noisyor.engines.numba.max_product import UNOBSERVED, Options, Output
from noisyor.engines.threads import resolve_threads
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.method import Gradient
from noisyor.network import Network
from noisyor.observations import Observations
from noisyor.posterior import Posterior, concatenate
from noisyor.progress import progress_bar

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
    """

    temperature: float = 0.0
    max_iterations: int = 100
    damping: float = 0.5
    tolerance: float = 1e-3
    ancestors_only: bool = False
    polish: int = 0
    unobserved: Literal["marginalise", "maximise"] = "marginalise"
    n_samples: int = 1

    def __post_init__(self) -> None:
        for name, valid, expected in [
            ("temperature", _finite(self.temperature) and self.temperature >= 0, "at least 0"),
            ("max_iterations", _whole(self.max_iterations) and self.max_iterations >= 1, "1, 2, …"),
            ("damping", _finite(self.damping) and 0 <= self.damping < 1, "in [0, 1)"),
            ("tolerance", _finite(self.tolerance) and self.tolerance >= 0, "at least 0"),
            ("polish", _whole(self.polish) and self.polish >= 0, "0, 1, 2, …"),
            ("n_samples", _whole(self.n_samples) and self.n_samples >= 1, "1, 2, …"),
            (
                "unobserved",
                self.unobserved in ("marginalise", "maximise"),
                "'marginalise' or 'maximise'",
            ),
        ]:
            if not valid:
                raise InvalidSettingError(f"{name} must be {expected}, got {getattr(self, name)!r}")

    def at_test_time(self) -> MaxProduct:
        """The same settings for evaluation: the mode, one explanation per row."""
        return replace(self, temperature=0.0, n_samples=1)

    def settings(self) -> dict[str, object]:
        """Everything that determines the results."""
        return {"method": "max-product", **asdict(self)}

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
        return infer(network, observations, method, n_threads=n_threads).log_joint

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
        )


def infer(
    network: Network,
    observations: Observations,
    method: MaxProduct,
    *,
    seed: int = 0,
    clamp: npt.NDArray[np.uint8] | None = None,
    with_beliefs: bool = False,
    n_threads: int = 1,
    progress: bool | None = False,
) -> Posterior:
    """Max-product on validated observations, in blocks of rows so that memory stays bounded."""
    prepared = engine.PreparedNetwork(network)
    options = method._options(seed)
    line_bytes = network.n_hidden * method.n_samples * (5 if with_beliefs else 1)
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
                with_beliefs=with_beliefs,
                n_threads=n_threads,
            )
            parts.append(_posterior(output, method))
            bar.update(end - begin)
    return concatenate(parts)


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


def explain(
    network: Network,
    X: Any,
    method: MaxProduct | None = None,
    *,
    hidden: Mapping[str | int, int] | npt.ArrayLike | None = None,
    seed: int = 0,
    with_beliefs: bool = False,
    n_threads: int | None = None,
    progress: bool | None = False,
) -> Posterior:
    """Most likely causes of each row.

    Parameters
    ----------
    network : the network.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : settings; default `MaxProduct()`, the mode with polishing switched on.
    hidden : evidence on hidden nodes: a mapping from name or index to 0 or 1 that holds for all
        rows, or an array (n_rows, n_hidden) of 0, 1 and NaN for not observed.
    seed : key of the noise when the temperature is positive. The noise of a row depends on
        (seed, row id, node) alone, so results do not depend on the order or grouping of rows.
    with_beliefs : also return the log-odds of every hidden node.
    n_threads : default all cores.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    Posterior with one explanation per row and sample.
    """
    method = MaxProduct(polish=20) if method is None else method
    if not isinstance(method, MaxProduct):
        raise InvalidSettingError(f"method must be a MaxProduct, got {type(method).__name__}")
    observations = Observations.of(X, n_visible=network.n_visible)
    return infer(
        network,
        observations,
        method,
        seed=check_seed(seed),
        clamp=_clamp(network, hidden, observations.n_rows),
        with_beliefs=with_beliefs,
        n_threads=resolve_threads(n_threads),
        progress=progress,
    )


def check_seed(seed: int) -> int:
    """A seed as a plain integer of 0 .. 2**63 - 1."""
    if not _whole(seed) or not 0 <= seed < 2**63:
        raise InvalidSettingError(f"seed must be a whole number of 0 .. 2**63 - 1, got {seed!r}")
    return int(seed)


def _clamp(network: Network, hidden: Any, n_rows: int) -> npt.NDArray[np.uint8] | None:
    if hidden is None:
        return None
    if isinstance(hidden, Mapping):
        clamp = np.full((1, network.n_hidden), UNOBSERVED, dtype=np.uint8)
        for name, value in hidden.items():
            if value not in (0, 1):
                raise InvalidDataError(f"hidden node {name!r} can be set to 0 or 1, not {value!r}")
            clamp[0, network.hidden_index(name)] = value
        return clamp
    values = np.asarray(hidden, dtype=np.float64)
    if values.shape != (n_rows, network.n_hidden):
        raise InvalidDataError(
            f"evidence on hidden nodes must have shape ({n_rows}, {network.n_hidden}), "
            f"got {values.shape}"
        )
    unknown = np.isnan(values)
    bad = ~(unknown | (values == 0) | (values == 1))
    if bad.any():
        row, column = (int(place[0]) for place in np.nonzero(bad))
        raise InvalidDataError(
            f"evidence on hidden nodes, row {row}, node {column}: expected 0, 1 or NaN, "
            f"got {values[row, column]!r}"
        )
    return np.where(unknown, UNOBSERVED, np.nan_to_num(values)).astype(np.uint8)


def _finite(value: object) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
