"""Explain rows by any method, and bound the log-likelihood of test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, standard_error_of_mean
from noisyor._util.validation import check_seed
from noisyor.engines.contract import FREE, EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct, method_for
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Bounds, Method, Posterior, check_method
from noisyor.model.network import FittedModel, Network, network_of

# ---- explanations


def explain(
    network: Network | FittedModel,
    X: Any,
    method: Method | None = None,
    *,
    hidden: Mapping[str | int, int] | npt.ArrayLike | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Posterior:
    """Find the most likely causes of each row.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : how to infer; default the mode by max-product, refined by iterated conditional modes.
        In networks of several layers only the ancestors of visibles that are on take part, all
        other causes are off.
    hidden : evidence on hidden nodes: a mapping from name or index to 0 or 1 that holds for all
        rows, or an array (n_rows, n_hidden) of 0, 1 and NaN for not observed.
    seed : key of the noise when the temperature is positive. The noise of a row depends on
        (seed, row id, node) alone, so results do not depend on the order or grouping of rows.
    engine : ``"auto"``, a name, or an engine such as ``NumbaEngine(n_threads=2)``.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    Posterior with one explanation per row and sample.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> posterior = nor.explain(network, rows)
    >>> posterior.states.toarray()
    array([[1, 0],
           [0, 1]], dtype=uint8)
    """
    network = network_of(network)
    method = method_for(network) if method is None else method
    check_method(method)
    observations = network.rows_of(X)
    return method.posterior(
        network,
        observations,
        seed=check_seed(seed),
        clamp=clamp_of(network, hidden, observations.n_rows),
        engine=engine,
        progress=progress,
    )


def clamp_of(network: Network, hidden: Any, n_rows: int) -> npt.NDArray[np.uint8] | None:
    """Return evidence on hidden nodes as 0, 1 or ``FREE``, (n_rows or 1, n_hidden), or None."""
    if hidden is None:
        return None
    if isinstance(hidden, Mapping):
        clamp = np.full((1, network.n_hidden), FREE, dtype=np.uint8)
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
        row, column = np.argwhere(bad)[0].tolist()
        raise InvalidDataError(
            f"evidence on hidden nodes, row {row}, node {column}: expected 0, 1 or NaN, "
            f"got {values[row, column]}"
        )
    return np.where(unknown, FREE, np.nan_to_num(values)).astype(np.uint8)


# ---- bounds on the log-likelihood


@dataclass(frozen=True, eq=False)
class Score:
    """A bound on ``log p(x)``, in nats.

    ``per_row`` (n_rows,); ``weights`` (n_rows,) of the rows, None if all are 1; ``mean`` over rows;
    ``standard_error`` of the mean, NaN for one row.
    """

    per_row: FloatArray
    weights: FloatArray | None = field(default=None, kw_only=True)

    @property
    def mean(self) -> float:
        """Mean over rows."""
        if self.weights is None:
            return float(self.per_row.mean())
        return float(self.weights @ self.per_row / self.weights.sum())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, from the spread of the rows."""
        return standard_error_of_mean(self.per_row, self.weights)

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.standard_error:.4f}"


@dataclass(frozen=True, eq=False)
class EvaluationResult:
    """Bounds on the log-likelihood of test rows.

    Attributes
    ----------
    elbo_mp : ``log p(h, x)`` at the mode found by max-product, or by the first method if
        max-product was not requested.
    elbo_vi : the bound of mean-field, or of another method that averages over causes; None without
        such a method.
    """

    elbo_mp: Score
    elbo_vi: Score | None = None

    @property
    def elbo(self) -> Score:
        """The paper's test Elbo: the bound with the larger mean, not the larger of each row."""
        if self.elbo_vi is not None and self.elbo_vi.mean > self.elbo_mp.mean:
            return self.elbo_vi
        return self.elbo_mp

    def __repr__(self) -> str:
        bounds = [("elbo_mp", self.elbo_mp), ("elbo_vi", self.elbo_vi)]
        shown = [f"{name}={score}" for name, score in bounds if score is not None]
        return f"EvaluationResult(rows={len(self.elbo_mp.per_row)}, {', '.join(shown)})"


def evaluate(
    network: Network | FittedModel,
    X: Any,
    methods: Method | Sequence[Method] | None = None,
    *,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> EvaluationResult:
    """Bound the log-likelihood of every row by one or several methods.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : test data in any form that `Observations.of` takes; unobserved visibles are summed out.
    methods : one `Method` or several with different names; default `MaxProduct` and `MeanField`, as
        in the paper: the mode by message passing at temperature zero, and full mean-field. For
        large sparse data take ``(MaxProduct(ancestors_only=True), MeanField(local=True))``. A
        `MaxProduct` with a temperature is used at temperature zero.
    engine, progress : as in `explain`.

    Returns
    -------
    EvaluationResult with the scores per row, their means and standard errors.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> nor.evaluate(network, rows)
    EvaluationResult(rows=2, elbo_mp=-2.57..., elbo_vi=-2.52...)
    """
    network = network_of(network)
    chosen = chosen_methods(methods)
    observations = network.rows_of(X)
    bounds = [
        method.bounds(network, observations, engine=engine, progress=progress) for method in chosen
    ]
    return evaluation_of(chosen, bounds, observations.weights)


def evaluation_of(
    methods: Sequence[Method], bounds: Sequence[Bounds], weights: FloatArray | None
) -> EvaluationResult:
    """Build the result from the bounds of each method and the weights of the rows."""
    names = [method.name for method in methods]
    mode = bounds[names.index("max-product") if "max-product" in names else 0].mode
    averages = [found.elbo for found in bounds if found.elbo is not found.mode]
    return EvaluationResult(
        Score(mode, weights=weights),
        Score(averages[0], weights=weights) if averages else None,
    )


def chosen_methods(methods: Method | Sequence[Method] | None) -> list[Method]:
    """Return the requested methods, or the default ones, after checking that their names differ."""
    if methods is None:
        return [MaxProduct(), MeanField()]
    given: list[Any] = list(methods) if isinstance(methods, list | tuple) else [methods]
    if not given:
        raise InvalidSettingError("methods is empty: give MaxProduct(), MeanField() or both")
    for method in given:
        check_method(method)
    names = [method.name for method in given]
    if len(set(names)) < len(names):
        raise InvalidSettingError(f"methods must have different names, got {names}")
    return given
