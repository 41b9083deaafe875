"""Missing entries of binary tables, filled in by a network: a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted, validate_data

from noisyor._util.validation import FLAG, check_choice, is_finite
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.estimators.base import NoisyOrEstimator
from noisyor.estimators.models import BooleanMatrixFactorization
from noisyor.estimators.rows import read_rows, with_numbers
from noisyor.inference.predict import predict_visible

__all__ = ["NoisyOrImputer"]


class NoisyOrImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in missing entries of binary rows by what the other entries of the row say.

    A network is learned from all entries that are observed. A missing entry then has a probability
    given the observed ones of its row, averaged over the causes (`predict_visible`). Observed
    entries stay as they are. A column of which nothing was observed is kept.

    Parameters
    ----------
    estimator : what learns the network, any of the estimators; None for
        ``BooleanMatrixFactorization("auto", objective="probability")``.
    missing_values : what marks a missing entry; NaN, or a number such as -1.
    output : what missing entries become: ``"states"``, the likelier of 0 and 1, or
        ``"probability"``, the probability of 1.
    add_indicator : append columns that say where entries were missing, as in scikit-learn.
    binarize : None expects 0 and 1; a number makes entries above it 1 and the others 0.

    Attributes
    ----------
    estimator_ : the estimator that was fitted, with its ``network_``.
    indicator_ : `sklearn.impute.MissingIndicator`, None without ``add_indicator``.
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

    def __init__(
        self,
        estimator: NoisyOrEstimator | None = None,
        *,
        missing_values: float = np.nan,
        output: Literal["states", "probability"] = "states",
        add_indicator: bool = False,
        binarize: float | None = None,
    ) -> None:
        self.estimator = estimator
        self.missing_values = missing_values
        self.output = output
        self.add_indicator = add_indicator
        self.binarize = binarize

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from (n_rows, n_features) of 0, 1 and missing values; ``y`` is ignored."""
        self._check_params()
        rows, given = self._rows(X, reset=True)
        self.indicator_ = None
        if self.add_indicator:
            self.indicator_ = MissingIndicator(error_on_new=False).fit(given)
        estimator = self.estimator
        if estimator is None:
            estimator = BooleanMatrixFactorization("auto", objective="probability")
        self.estimator_ = clone(estimator).fit(rows)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Rows with nothing missing, (n_rows, n_features) float64, and the indicator's columns."""
        check_is_fitted(self, "estimator_")
        self._check_params()
        rows, given = self._rows(X, reset=False)
        result = given.copy()
        incomplete = np.flatnonzero(np.isnan(given).any(axis=1))
        if len(incomplete):
            network, engine = self.estimator_.network_, self.estimator_._engine()
            found = predict_visible(network, rows.take(incomplete), observed="kept", engine=engine)
            chance = found.probability
            result[incomplete] = chance if self.output == "probability" else chance >= 0.5
        if self.indicator_ is None:
            return result
        return np.hstack([result, self.indicator_.transform(given)])

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the columns, and of those of the indicator."""
        check_is_fitted(self, "estimator_")
        names: npt.NDArray[np.object_] = super().get_feature_names_out(input_features)
        if self.indicator_ is None:
            return names
        return np.concatenate([names, self.indicator_.get_feature_names_out(names)])

    def _check_params(self) -> None:
        check_choice("output", self.output, ("states", "probability"))
        FLAG.check("add_indicator", self.add_indicator)
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
        """The rows, and the same as an array with NaN where something is missing."""
        if isinstance(X, Observations):
            rows = read_rows(self, X, reset=reset)
            return rows, rows.to_dense().astype(np.float64)
        given = validate_data(
            self, with_numbers(X), reset=reset, ensure_all_finite="allow-nan", dtype=np.float64
        ).copy()
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


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
