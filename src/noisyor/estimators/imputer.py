"""A scikit-learn transformer that fills in missing entries of binary tables by a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import COUNT_OR_AUTO, check_choice, is_finite
from noisyor.data.columns import find_one_hot
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.estimators.base import NoisyOrEstimator, check_fitted, checked_array, read_rows
from noisyor.estimators.models import BooleanMatrixFactorization
from noisyor.inference.sampling import predict_visible

_PARTS, _MANY = 5, 1000
"""Number of networks that are averaged, and number of rows above which there is only one."""

_LEAST = 1e-9


@dataclass(eq=False, repr=False)
class NoisyOrImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in missing entries of binary rows from the other entries of each row.

    A network is learned from all entries that are observed. A missing entry then has a probability
    given the observed ones of its row, averaged over the causes (`predict_visible`). Observed
    entries do not change. A column without any observed entry is kept.

    Neighboring columns of which exactly one is on in every row, as in one-hot encoding, are
    detected, and rows are filled in such that this holds. With few rows, several networks are
    learned, each from another part of the rows, and their log-odds averaged, which reduces
    overfitting.

    Parameters
    ----------
    estimator : the estimator that learns the network; None for
        ``BooleanMatrixFactorization("auto")``.
    missing_values : the value of a missing entry; NaN, or a number such as -1.
    output : what missing entries become: ``"states"``, the likelier of 0 and 1, or
        ``"probability"``, the probability of 1.
    binarize : None expects 0 and 1; a number makes entries above it 1 and the others 0.
    n_estimators : number of networks. If there are several, each is learned without a different
        part of the rows. ``"auto"``: five with the default estimator and fewer than 1,000 rows,
        else one.

    Attributes
    ----------
    estimators_ : the estimators that were fitted, each with its ``network_``.
    one_hot_ : groups of columns of which exactly one is on.
    n_features_in_, feature_names_in_ : number of columns, and their names if they had any.

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.estimators import NoisyOrImputer
    >>> X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 30, axis=0)
    >>> X[0, 1] = X[59, 2] = np.nan
    >>> filled = NoisyOrImputer().fit_transform(X)
    >>> filled[0], filled[59]
    (array([1., 1., 0., 0.]), array([0., 0., 1., 1.]))
    """

    estimator: NoisyOrEstimator | None = None
    _: KW_ONLY
    missing_values: float = np.nan
    output: Literal["states", "probability"] = "states"
    binarize: float | None = None
    n_estimators: int | Literal["auto"] = "auto"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from (n_rows, n_features) of 0, 1 and missing values; ``y`` is ignored."""
        self._check_params()
        rows, _ = self._rows(X, reset=True)
        estimator, n_parts = self.estimator, self.n_estimators
        if isinstance(n_parts, str):
            n_parts = _PARTS if estimator is None and rows.n_rows < _MANY else 1
        if estimator is None:
            estimator = BooleanMatrixFactorization("auto")
        self.one_hot_ = find_one_hot(rows)
        self.estimators_ = [clone(estimator).fit(part) for part in _parts(rows, n_parts)]
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Return filled-in rows (n_rows, n_features), float64."""
        check_fitted(self, "estimators_")
        self._check_params()
        rows, given = self._rows(X, reset=False)
        result = given.copy()
        incomplete = np.flatnonzero(np.isnan(given).any(axis=1))
        if len(incomplete):
            chance = self._chance(rows.take(incomplete))
            result[incomplete] = chance if self.output == "probability" else chance >= 0.5
        return result

    def _chance(self, rows: Observations) -> FloatArray:
        """Return the probability of every entry, (n_rows, n_features); 0 or 1 if observed."""
        groups = [group.columns for group in self.one_hot_]
        found = [
            predict_visible(
                one.network_, rows, observed="kept", one_hot=groups, engine=one._engine()
            ).probability
            for one in self.estimators_
        ]
        # Log-odds: one network that is nearly sure should not lose that to others that are not.
        inside = np.clip(found, _LEAST, 1.0 - _LEAST)
        chance = expit(logit(inside).mean(axis=0)) if len(found) > 1 else found[0]
        for group in self.one_hot_:
            # All rows so far had exactly one; the next need not.
            doubt = 1.0 / (group.n_rows + 2.0)
            chance[:, group.columns] = np.clip(chance[:, group.columns], doubt, 1.0 - doubt)
        given = rows.to_dense()
        return np.asarray(np.where(np.isnan(given), chance, given))

    def _check_params(self) -> None:
        check_choice("output", self.output, ("states", "probability"))
        COUNT_OR_AUTO.check("n_estimators", self.n_estimators)
        if self.estimator is not None and not isinstance(self.estimator, NoisyOrEstimator):
            raise InvalidSettingError(
                "estimator is one of noisyor's such as BooleanMatrixFactorization(), "
                f"got {type(self.estimator).__name__}"
            )
        if not _is_nan(self.missing_values) and not is_finite(self.missing_values):
            raise InvalidSettingError(
                f"missing_values is NaN or a number, got {self.missing_values!r}"
            )

    def _rows(self, X: Any, reset: bool) -> tuple[Observations, npt.NDArray[np.float64]]:
        """Return the rows, also as an array with NaN for missing entries."""
        if isinstance(getattr(X, "observations", X), Observations):  # also of a `Table`
            rows = read_rows(self, X, reset=reset)
            return rows, rows.to_dense().astype(np.float64)
        given = checked_array(self, X, reset=reset, dtype=np.float64).copy()
        if not _is_nan(self.missing_values):
            given[given == self.missing_values] = np.nan
        if self.binarize is not None:
            given = np.where(np.isnan(given), np.nan, given > self.binarize)
        names = getattr(self, "feature_names_in_", None)
        rows = Observations.of(given, column_names=None if names is None else list(names))
        return rows, given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = _is_nan(self.missing_values)
        tags.transformer_tags.preserves_dtype = []
        return tags


def _parts(rows: Observations, n_parts: int) -> Iterator[Observations]:
    """Yield all rows, or for each of several parts the rows outside it."""
    n_parts = min(n_parts, rows.n_rows)
    if n_parts == 1:
        yield rows
        return
    order = np.random.default_rng(0).permutation(rows.n_rows)
    for part in np.array_split(order, n_parts):
        yield rows.take(np.setdiff1d(order, part))


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
