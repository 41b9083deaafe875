"""How well a network predicts: the two bounds on the log-likelihood of test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.engines.threads import resolve_threads
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.objective import elbo_mp
from noisyor.network.graph import Network


@dataclass(frozen=True, eq=False)
class Score:
    """A bound on ``log p(x)``, in nats.

    ``per_row`` (n_rows,); ``mean`` over rows; ``standard_error`` of the mean, NaN for one row.
    """

    per_row: FloatArray

    @property
    def mean(self) -> float:
        """Mean over rows."""
        return float(self.per_row.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, from the spread of the rows."""
        n_rows = len(self.per_row)
        if n_rows < 2:
            return float("nan")
        return float(self.per_row.std(ddof=1) / np.sqrt(n_rows))

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.standard_error:.4f}"


@dataclass(frozen=True, eq=False)
class EvaluationResult:
    """Bounds on the log-likelihood of test rows.

    Attributes
    ----------
    elbo_mp : ``log p(h, x)`` at the mode: that of max-product if it was asked for, else the
        mean-field one.
    elbo_vi : the mean-field bound, or None if mean-field was not asked for.
    elbo_mp_of_mean_field : ``log p(h, x)`` at ``h = 1 [q >= 1/2]``, or None.
    """

    elbo_mp: Score
    elbo_vi: Score | None = None
    elbo_mp_of_mean_field: Score | None = None

    @property
    def better(self) -> Literal["elbo_mp", "elbo_vi"]:
        """The bound with the larger mean."""
        if self.elbo_vi is not None and self.elbo_vi.mean > self.elbo_mp.mean:
            return "elbo_vi"
        return "elbo_mp"

    @property
    def elbo(self) -> Score:
        """The paper's test Elbo: the bound with the larger mean, not the larger of each row."""
        score: Score = getattr(self, self.better)
        return score

    def __repr__(self) -> str:
        bounds = [("elbo_mp", self.elbo_mp), ("elbo_vi", self.elbo_vi)]
        shown = [f"{name}={score}" for name, score in bounds if score is not None]
        return f"EvaluationResult(rows={len(self.elbo_mp.per_row)}, {', '.join(shown)})"


def evaluate(
    network: Network,
    X: Any,
    methods: MaxProduct | MeanField | Sequence[MaxProduct | MeanField] | None = None,
    *,
    n_threads: int | None = None,
    progress: bool | None = False,
) -> EvaluationResult:
    """Both bounds on the log-likelihood of every row.

    Parameters
    ----------
    network : the network.
    X : test data in any form that `Observations.of` takes; unobserved visibles are summed out.
    methods : `MaxProduct`, `MeanField` or both, with the settings to use; default both, as in the
        paper: the mode by message passing at temperature zero, and full mean-field. For large
        sparse data take ``(MaxProduct(ancestors_only=True), MeanField(local=True))``. A
        `MaxProduct` with a temperature is used at temperature zero.
    n_threads : default all cores.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    EvaluationResult with the scores per row, their means and standard errors.
    """
    max_product, mean_field = _by_kind(methods)
    observations = Observations.of(X, n_visible=network.n_visible)
    threads = resolve_threads(n_threads)
    mp = vi = vi_mode = None
    if max_product is not None:
        posterior = max_product.at_test_time().posterior(
            network, observations, n_threads=threads, progress=progress
        )
        mp = Score(elbo_mp(posterior))
    if mean_field is not None:
        posterior = replace(mean_field, keep_q=False).posterior(
            network, observations, n_threads=threads, progress=progress
        )
        assert posterior.elbo_vi is not None
        vi, vi_mode = Score(posterior.elbo_vi), Score(elbo_mp(posterior))
    of_mode = mp if mp is not None else vi_mode
    assert of_mode is not None
    return EvaluationResult(of_mode, vi, vi_mode)


def _by_kind(
    methods: MaxProduct | MeanField | Sequence[MaxProduct | MeanField] | None,
) -> tuple[MaxProduct | None, MeanField | None]:
    if methods is None:
        return MaxProduct(), MeanField()
    given = list(methods) if isinstance(methods, Sequence) else [methods]
    found: dict[type, MaxProduct | MeanField] = {}
    for method in given:
        kind = type(method)
        if kind not in (MaxProduct, MeanField) or kind in found:
            raise InvalidSettingError(
                f"methods are one MaxProduct, one MeanField or both, got {methods!r}"
            )
        found[kind] = method
    if not found:
        raise InvalidSettingError("methods is empty: give MaxProduct(), MeanField() or both")
    max_product, mean_field = found.get(MaxProduct), found.get(MeanField)
    assert max_product is None or isinstance(max_product, MaxProduct)
    assert mean_field is None or isinstance(mean_field, MeanField)
    return max_product, mean_field
