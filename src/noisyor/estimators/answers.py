"""What an estimator answers once it has learned: causes, predicted rows, probabilities, scores."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from noisyor._util.kinds import Kind
from noisyor._util.sparse import csr_of
from noisyor.data.observations import Observations
from noisyor.engines.contract import Engine
from noisyor.errors import InvalidDataError
from noisyor.estimators.rows import with_sample_weight
from noisyor.inference.evaluate import explain
from noisyor.inference.max_product import POLISH, MaxProduct, method_for
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method, Posterior
from noisyor.inference.sampling import log_probability, predict_visible
from noisyor.model.forward import visible_probability
from noisyor.model.names import hidden_names
from noisyor.model.network import Network

__all__ = ["Answers"]

_BLOCK_CELLS = 4_000_000


class Answers(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Methods of an estimator that has learned; `NoisyOrEstimator` has the rest."""

    _kind: ClassVar[Kind]

    network_: Network
    method: Method | None
    output: Literal["states", "probability"]
    progress: bool | None

    @abstractmethod
    def _fitted_rows(self, X: Any) -> Observations:
        """Rows as the model was learned from; refused before that."""

    @abstractmethod
    def _engine(self) -> Engine:
        """The engine of all answers."""

    def transform(self, X: Any) -> Any:
        """Causes of every row.

        Returns
        -------
        (n_rows, n_hidden): 0 and 1 as int8, or probabilities as float64, see ``output``. Sparse if
        X is sparse.
        """
        rows = self._fitted_rows(X)
        if self.output == "probability":
            causes = self._probabilities(rows)
        else:
            causes = self._posterior(rows, self._mode()).states.astype(np.int8)
        return causes if isinstance(X, Observations) or sp.issparse(X) else causes.toarray()

    def inverse_transform(self, X: Any) -> Any:
        """Rows that causes predict.

        Parameters
        ----------
        X : (n_rows, n_hidden) causes, on where at least 1/2.

        Returns
        -------
        (n_rows, n_features_in_): where a column is more likely 1 than 0, as int8 and sparse if X is
        sparse; with ``output="probability"`` its probability, always dense.
        """
        check_is_fitted(self, "network_")
        given = csr_of(X) if sp.issparse(X) else X
        states = sp.csr_array(check_array(given, accept_sparse="csr") >= 0.5)
        if states.shape[1] != self.network_.n_hidden:
            raise InvalidDataError(
                f"X has {states.shape[1]} causes, but {type(self).__name__} has "
                f"{self.network_.n_hidden}"
            )
        parts = []
        size = max(1, _BLOCK_CELLS // self.network_.n_visible)  # so that memory stays bounded
        for begin in range(0, states.shape[0], size):
            part = visible_probability(self.network_, states[begin : begin + size])
            if self.output == "states":
                part = (part >= 0.5).astype(np.int8)
                parts.append(sp.csr_array(part) if sp.issparse(X) else part)
            else:
                parts.append(part)
        if sp.issparse(parts[0]):
            return sp.csr_array(sp.vstack(parts, format="csr"))
        return np.concatenate(parts)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Probability of 1 for every entry, given all *other* observed entries of its row.

        An unobserved entry (NaN) gets its probability given the row; an observed one that which it
        would have if it alone were unobserved, so that it says how surprising the entry is, and
        zeros with a high probability answer what else would go with the row. Averaged over the
        causes: exact for few of them, otherwise by sampling, see `predict_visible`.

        Returns
        -------
        (n_rows, n_features_in_), dense, which is why a sparse X is refused; `Observations` are not.
        """
        if sp.issparse(X):
            raise InvalidDataError(
                "predict_proba returns a dense array and takes no sparse X; X.toarray() is dense"
            )
        rows = self._fitted_rows(X)
        return predict_visible(
            self.network_, rows, engine=self._engine(), progress=self.progress
        ).probability

    def score_samples(self, X: Any) -> npt.NDArray[np.float64]:
        """``log p(row)`` of every row, in nats, shape (n_rows,).

        Exact where the hidden states are few enough to be enumerated, otherwise an estimate that
        depends on the row alone, see `log_probability`. Unobserved entries are summed out. The
        bounds of the paper are `nor.evaluate(model.network_, X)`.
        """
        rows = self._fitted_rows(X)
        return log_probability(
            self.network_, rows, engine=self._engine(), progress=self.progress
        ).per_row

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean of `score_samples`: the larger, the better the model predicts the rows.

        ``sample_weight`` (n_rows,) says how often each row counts, see `fit`.
        """
        rows = with_sample_weight(self._fitted_rows(X), sample_weight)
        return rows.mean(self.score_samples(rows))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the causes: those of the network, or what they switch on if columns have names.

        Otherwise the name of the class and a number.
        """
        check_is_fitted(self, "network_")
        network = self.network_
        if network.hidden_names is not None:
            return np.array(network.hidden_names, dtype=object)
        if network.visible_names is not None:
            return np.array(hidden_names(network, self._kind), dtype=object)
        names: npt.NDArray[np.object_] = super().get_feature_names_out(input_features)
        return names

    @property
    def _n_features_out(self) -> int:
        return self.network_.n_hidden

    def _posterior(self, rows: Observations, method: Method) -> Posterior:
        return explain(self.network_, rows, method, engine=self._engine(), progress=self.progress)

    def _mode(self) -> Method:
        """The method for most likely causes: that of training, without noise and polished."""
        if self.method is None:
            return method_for(self.network_)
        if isinstance(self.method, MaxProduct):
            return replace(self.method.at_test_time(), polish=max(self.method.polish, POLISH))
        return self.method

    def _probabilities(self, rows: Observations) -> sp.csr_array:
        """Probability of every cause in every row, by mean-field."""
        return self._posterior(rows, self._mean_field()).marginals()

    def _mean_field(self) -> Method:
        if isinstance(self.method, MeanField):
            return replace(self.method, keep_q=True)
        like = self.method if isinstance(self.method, MaxProduct) else method_for(self.network_)
        return MeanField(local=like.ancestors_only, tolerance=1e-4)
