"""Base of all estimators: reading rows, fitting, predictions, model files."""

from __future__ import annotations

import os
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import narwhals as nw
import narwhals.selectors as ncs
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from noisyor._util.arrays import csr_of
from noisyor._util.files import plain
from noisyor._util.progress import warn
from noisyor._util.validation import (
    COUNT,
    FLAG,
    NUMBER,
    OPTIONS,
    WORKERS,
    Rule,
    check_settings,
    choice,
    is_whole,
    or_none,
)
from noisyor.data.chunks import RowSource
from noisyor.data.observations import Observations
from noisyor.engines.contract import Engine
from noisyor.engines.registry import get_engine
from noisyor.errors import (
    InvalidDataError,
    InvalidSettingError,
    ModelFileError,
    NotFittedError,
    UnsupportedDataError,
)
from noisyor.estimators.stability import Stability, assess_stability
from noisyor.inference.evaluate import explain
from noisyor.inference.max_product import ICM_SWEEPS, MaxProduct, method_for
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method, Posterior
from noisyor.inference.sampling import log_probability, predict_visible
from noisyor.io.model_file import (
    load_model,
    mapping_in,
    on_one_line,
    provenance,
    save_network,
    training_curve,
)
from noisyor.learning.recipes import FitResult
from noisyor.learning.state import Evaluation, History, TrainOptions
from noisyor.learning.stream import StreamState, learn_chunk, train_stream
from noisyor.learning.train import init
from noisyor.model.forward import edge_matrix, visible_probability
from noisyor.model.names import Kind, hidden_names
from noisyor.model.network import Network

# ---- rows


def read_rows(estimator: Any, X: Any, *, reset: bool, min_features: int = 1) -> Observations:
    """Return rows as observations, after scikit-learn's checks of shape and column names.

    ``n_features_in_`` and ``feature_names_in_`` of the estimator are set if ``reset``, else
    compared; its ``binarize`` is the threshold above which an entry counts as 1.
    """
    X = getattr(X, "observations", X)  # of a `Table`
    if isinstance(X, Observations):
        _check_observations(estimator, X, reset)
        return X
    if isinstance(X, RowSource):
        raise InvalidDataError("only fit takes all chunks at once: iterate over them here")
    if sp.issparse(X) and X.ndim == 2:  # before scikit-learn changes its layout
        X = csr_of(X)
    X = checked_array(
        estimator, X, reset=reset, accept_sparse="csr", ensure_min_features=min_features
    )
    if estimator.binarize is not None:
        X = _above(X, estimator.binarize)
    names = getattr(estimator, "feature_names_in_", None)
    rows = Observations.of(X, column_names=None if names is None else list(names))
    if reset and rows.n_missing == rows.n_rows * rows.n_visible:
        raise InvalidDataError("every entry of X is missing")
    if reset and not rows.n_active:
        warn("no entry of X is 1: there is nothing that causes could explain", UserWarning)
    elif reset and 0 < rows.n_missing == rows.n_rows * rows.n_visible - rows.n_active:
        warn("every entry of X is 1 or missing; put 0 where it means 0", UserWarning)
    return rows


def checked_array(estimator: Any, X: Any, **checks: Any) -> Any:
    """Return X as scikit-learn reads it, dense or sparse, with NaN where entries are missing."""
    if isinstance(X, str | os.PathLike):
        raise InvalidDataError(f"X is a path; nor.read_table({os.fspath(X)!r}) reads a file")
    if isinstance(X, list | tuple) and any(isinstance(row, str) for row in X):
        raise InvalidDataError("X holds texts; nor.data.vectorize(X) makes a 0/1 column of a word")
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    X = with_numbers(X)
    _check_kind(X)
    try:
        return validate_data(estimator, X, ensure_all_finite="allow-nan", **checks)
    except (ValueError, TypeError) as error:
        raise _data_error(error) from error


def _check_kind(X: Any) -> None:
    """Reject what is no matrix, where scikit-learn's message would advise to reshape it."""
    if not isinstance(X, list | tuple) and not any(hasattr(X, name) for name in _OF_ARRAYS):
        advice = ": collect() makes a frame" if hasattr(X, "collect") else ""
        raise UnsupportedDataError(
            f"expected a matrix or a frame, a row for each observation, got {type(X).__name__}"
            + advice
        )
    if getattr(getattr(X, "dtype", None), "kind", "") in ("U", "S"):
        values = np.asarray(X).ravel()[:1000].tolist()
        yes = next((value for value in values if str(value).lower() in _YES), "yes")
        raise InvalidDataError(
            f"expected 0, 1 or missing, got an array of texts; X == {yes!r} makes 0 and 1 of them"
        )


def _data_error(error: ValueError | TypeError) -> InvalidDataError:
    """Convert an error of scikit-learn to a `NoisyOrError` of one line without values of X."""
    lines = [
        line for line in str(error).splitlines() if not line.lstrip().startswith(("array=", "["))
    ]
    if "inhomogeneous" in lines[0]:
        lines = ["the rows of X have different lengths"]
    kind = UnsupportedDataError if isinstance(error, TypeError) else InvalidDataError
    return kind(" ".join(" ".join(lines).split()))


class _NotFittedError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """Raised by methods before `fit`; scikit-learn expects its own class."""


def check_fitted(estimator: Any, attribute: str = "network_") -> None:
    """Raise `NotFittedError` unless an estimator is fitted."""
    if not hasattr(estimator, attribute):
        raise _NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit first")


_OF_ARRAYS = ("shape", "__array__", "__array_interface__", "__dlpack__")

_YES = ("1", "1.0", "y", "yes", "t", "true", "x", "present")


def with_numbers(X: Any) -> Any:
    """Return a frame with Booleans converted to numbers; return anything else unchanged.

    scikit-learn converts Booleans with missing values to objects instead of 0, 1 and NaN. Columns
    of texts are rejected with a hint.
    """
    if not nw.dependencies.is_into_dataframe(X):
        return X
    try:
        frame = nw.from_native(X, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        found = on_one_line(error)
        raise InvalidDataError(f"columns of a frame need distinct names: {found}") from error
    texts = {}
    for name in frame.select(ncs.by_dtype(nw.String, nw.Categorical, nw.Enum, nw.Object)).columns:
        values = frame[name].drop_nulls().unique(maintain_order=True).to_list()
        if frame[name].dtype == nw.Object:  # numbers, perhaps with texts between them
            values = [value for value in values if isinstance(value, str)]
        if values:
            texts[name] = values
    dates = frame.select(ncs.by_dtype(nw.Date, nw.Datetime, nw.Duration, nw.Time)).columns
    if dates:
        raise InvalidDataError(
            f"expected 0, 1 or missing, got dates or times in {len(dates)} "
            f"column{'s' * (len(dates) > 1)}; X.drop(columns={dates}) leaves them out"
        )
    if texts:
        left_out = f"X.drop(columns={list(texts)}) leaves them out, "
        name, values = min(texts.items(), key=lambda item: len(item[1]))
        yes = next((value for value in values if str(value).lower() in _YES), values[0])
        raise InvalidDataError(
            f"expected 0, 1 or missing, got texts or categories in {len(texts)} "
            f"column{'s' * (len(texts) > 1)}; {left_out * (len(texts) < len(frame.columns))}"
            f"X[{name!r}] == {yes!r} makes 0 and 1 of a column"
        )
    if nw.dependencies.is_pandas_dataframe(X):
        return X  # its Booleans are read by scikit-learn as they should be
    return frame.with_columns(ncs.boolean().cast(nw.Float64)).to_native()


def with_sample_weight(rows: Observations, sample_weight: Any) -> Observations:
    """Return the rows with weights (n_rows,), None for one each; rows of weight 0 are left out."""
    if sample_weight is None:
        return rows
    if rows.weights is not None:
        raise InvalidDataError("sample_weight is given, but the rows have weights of their own")
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidDataError(
            f"sample_weight must be {rows.n_rows} numbers, got {reprlib.repr(sample_weight)}"
        ) from error
    if weights.shape != (rows.n_rows,):
        raise InvalidDataError(
            f"sample_weight must have shape ({rows.n_rows},), got {weights.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise InvalidDataError(
            f"sample_weight, row {bad[0]}: expected 0 or a positive number, got {weights[bad[0]]}"
        )
    counted = weights > 0
    if not counted.any():
        raise InvalidDataError("sample_weight is zero for all rows: none is left")
    if (weights[counted] == 1).all():
        return rows if counted.all() else rows.take(counted)
    return rows.take(counted).with_weights(weights[counted])


def _check_observations(estimator: Any, rows: Observations, reset: bool) -> None:
    names = None if rows.column_names is None else np.array(rows.column_names, dtype=object)
    if reset:
        estimator.n_features_in_ = rows.n_visible
        if names is not None:
            estimator.feature_names_in_ = names
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    if rows.n_visible != estimator.n_features_in_:
        raise InvalidDataError(
            f"X has {rows.n_visible} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    expected = getattr(estimator, "feature_names_in_", None)
    if names is not None and expected is not None and not np.array_equal(names, expected):
        raise InvalidDataError("the columns have other names, or another order, than in fit")


def _above(X: Any, threshold: float) -> Any:
    """Return 1 where X is larger than the threshold, NaN where it is NaN, else 0."""
    if sp.issparse(X):
        if threshold < 0:
            raise InvalidSettingError(
                f"binarize must not be negative for sparse data, got {threshold}: "
                "the entries that are not stored would become 1"
            )
        X = X.copy()
        X.data = _above(X.data, threshold)
        return X
    above = np.greater(X, threshold)
    return np.where(np.isnan(X), np.nan, above) if X.dtype.kind == "f" else above


def _binarized(chunk: Any, threshold: float) -> Any:
    """Return a chunk with entries above the threshold as 1 and the others as 0."""
    if isinstance(chunk, Observations):
        return chunk
    return _above(csr_of(chunk) if sp.issparse(chunk) else chunk, threshold)


class PreparedSource(RowSource):
    """The chunks of another source, each converted by a function."""

    def __init__(self, source: RowSource, prepare: Callable[[Any], Any]) -> None:
        self.source, self.prepare = source, prepare
        self.n_visible, self.sizes = source.n_visible, source.sizes
        self.column_names = source.column_names

    def read(self, number: int) -> Any:
        """Return one chunk."""
        return self.prepare(self.source.read(number))


# Model files neither hold these parameters nor may set them: no file decides where to write.
_OF_THE_RUN = (
    *("checkpoint", "checkpoint_every", "resume", "time_limit"),
    *("n_jobs", "engine", "progress", "callbacks"),
)
_METHODS: dict[str, type[MaxProduct] | type[MeanField]] = {
    "max-product": MaxProduct,
    "mean-field": MeanField,
}


def method_of(settings: Any) -> Method:
    """Return the method with these settings (see `Method.settings`).

    Settings that the method does not have, as in files of earlier versions, are ignored.
    """
    name = settings.get("method") if isinstance(settings, Mapping) else None
    if isinstance(name, str) and name in _METHODS:
        known = {field.name for field in fields(_METHODS[name])}
        return _METHODS[name](**{key: settings[key] for key in known & set(settings)})
    raise InvalidSettingError(
        f"no method has the settings {reprlib.repr(settings)}; give one as method="
    )


def history_of(metadata: Mapping[str, Any]) -> History:
    """Return the training curve of a model file, thinned to a few hundred points."""
    curve = training_curve(metadata)
    if curve is None:
        return History()
    pairs = zip(curve.held_out_step.tolist(), curve.held_out_elbo.tolist(), strict=True)
    evaluations = tuple(Evaluation(int(step), elbo) for step, elbo in pairs)
    return History(curve.elbo, np.empty(0), evaluations)


def _plain(value: Any) -> Any:
    """Return the value as plain JSON, or None if that is impossible."""
    if isinstance(value, (MaxProduct, MeanField)):
        return value.settings()
    try:
        return plain(value)
    except TypeError:
        return None


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        name = value.get("method")
        if isinstance(name, str) and name in _METHODS:
            return method_of(value)
        return {key: item for key, item in value.items() if key not in _OF_THE_RUN}
    return tuple(value) if isinstance(value, list) else value


_BLOCK_CELLS = 4_000_000
_PASSED_ON = ("steps", "learning_rate", "method", "progress", "time_limit")
_STREAM: dict[str, Any] = {"batch_size": 100, "learning_rate": 0.01, "parameterization": "theta"}
_OF_A_STREAM = ("callbacks", "checkpoint_every")
_KEPT_UPDATES = 10_000
_CLUSTER_BATCH, _CLUSTER_STEPS = 2**16, 200
_TRAINING = ("steps", "learning_rate", "checkpoint", "resume", "time_limit")
"""Parameters with the rules of the table of options; None stands for the default."""

_RULES = {name: or_none(OPTIONS[name].rule) for name in _TRAINING} | {
    "batch_size": or_none(
        Rule(lambda value: value == "all" or COUNT.valid(value), "1, 2, …, 'all'")
    ),
    "method": or_none(
        Rule(lambda value: hasattr(value, "posterior"), "a method such as MaxProduct()")
    ),
    "output": choice("states", "probability"),
    "binarize": or_none(NUMBER),
    "n_jobs": or_none(WORKERS),
    "progress": or_none(FLAG),
    "options": or_none(Rule(lambda value: isinstance(value, Mapping), "a mapping")),
}


@dataclass(kw_only=True, eq=False, repr=False)
class NoisyOrEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators; use one of its subclasses.

    Rows are 0, 1 and NaN or null, which means unobserved: arrays, SciPy sparse matrices, frames
    (pandas, Polars, Arrow) or `Observations`. A parameter that is None leaves the choice to the
    function of `noisyor.learning.recipes` that the estimator calls. The parameters are the fields
    of a dataclass; scikit-learn reads them from the generated ``__init__``.

    Parameters
    ----------
    steps : number of updates.
    batch_size : rows per update; ``"all"`` for all of them.
    learning_rate : learning rate of Adam.
    method : how hidden states are inferred in training, `MaxProduct` or `MeanField`; its settings
        also apply to `transform`, which takes the mode.
    output : what `transform` returns: ``"states"``, the most likely causes as 0 and 1, or
        ``"probability"``, the probability of each cause by mean-field.
    binarize : None expects 0 and 1; a number makes entries above it 1 and the others 0.
    random_state : seed of the start and of the training; None draws a new one in every fit.
    n_jobs : number of threads; None or -1 for all cores. No result depends on it.
    progress : True shows a progress bar, None on a terminal only.
    checkpoint, resume : file for the state of `fit`, and whether to continue from it, see `train`.
    time_limit : seconds after which `fit` ends with the best model so far; None for no limit.
    options : further keywords for the learning function, a mapping: more of `TrainOptions`, or
        keywords of the function itself. An unknown name is rejected before learning starts.

    Attributes
    ----------
    network_ : the learned `Network`.
    components_ : probability that a cause switches a column on.
    prior_ : probability of each cause (when the causes above it are off).
    noise_ : (n_features_in_,) probability of each column when no cause is on.
    history_ : bounds and times of all updates, see `noisyor.train`.
    settings_ : how the model was learned, with the defaults filled in.
    provenance_ : what `save` writes beside the network: data, settings, versions.
    n_features_in_, feature_names_in_ : number of columns, and their names if they had any.
    """

    _kind: ClassVar[Kind]
    _min_features: ClassVar[int] = 1

    steps: int | None = None
    batch_size: int | Literal["all"] | None = None
    learning_rate: float | None = None
    method: Method | None = None
    output: Literal["states", "probability"] = "states"
    binarize: float | None = None
    random_state: Any = 0
    n_jobs: int | None = None
    progress: bool | None = False
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False
    time_limit: float | None = None
    options: Mapping[str, Any] | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : (n_rows, n_features), or a `RowSource` from `noisyor.data.chunks.open_rows` for rows
            that do not fit into memory: one pass is made over it, or ``steps`` updates.
        y : ignored.
        sample_weight : (n_rows,) how many rows each one stands for, such as its number of
            occurrences in an aggregated table; 0 leaves a row out. None counts each once.
        client : a ``distributed.Client`` whose workers read the rows (see
            `noisyor.distributed.train`). Learning starts from a sample of the rows and continues
            with all rows: 200 updates (or ``steps``) of 65,536 rows (or ``batch_size``) each.
        """
        self._check_params()
        self.__dict__.pop("_stream", None)
        if client is not None or isinstance(X, RowSource):
            if sample_weight is not None:
                raise InvalidDataError("sample_weight is for rows in memory, not for chunks")
            return self._fit_source(X) if client is None else self._fit_cluster(client, X)
        rows = with_sample_weight(self._rows(X, reset=True), sample_weight)
        learned = self._learn(rows, **self._run_options(), **self._options())
        return self._keep(learned, rows)

    def stability(self, X: Any, n_resamples: int = 5, *, seed: int = 0) -> Stability:
        """Measure how often each cause recurs when the model is learned from resampled rows.

        As many rows as before are drawn with replacement, `n_resamples` times, and a model with the
        same settings, the same number of causes and another seed is learned from each. Causes are
        matched one to one by the cosine similarity of their rows of ``components_`` minus the
        frequencies of the columns. A cause recurs in a resample if the cosine is at least 0.8. The
        result is stored in ``provenance_["stability"]`` and in the file that `save` writes.

        Parameters
        ----------
        X : the rows that the model was learned from.
        n_resamples : number of models to learn; each takes as long as `fit`.
        seed : seed of the resamples.
        """
        found = assess_stability(self, self._fitted_rows(X), n_resamples, seed)
        self.provenance_["stability"] = found.record()
        return found

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one chunk of rows, continuing from the last call, `fit` or `load`.

        The first chunk of a new model also determines the starting parameters (and the graph of a
        topic model), so it should be a representative sample. ``steps``, ``checkpoint`` and
        ``resume`` do not apply. ``sample_weight`` (n_rows,) as in `fit`. ``history_`` keeps the
        last 10,000 updates, so that memory stays bounded.
        """
        self._check_params()
        new = not hasattr(self, "network_")
        rows = with_sample_weight(self._rows(X, reset=new), sample_weight)
        if new:
            self._start(rows)
        if not hasattr(self, "_stream"):
            self._stream = StreamState(init(self.network_))
        earlier = {} if new else mapping_in(self.provenance_, "data")
        before = [earlier.get("rows"), earlier.get("chunks", int(not new))]
        n_rows, n_chunks = (size if is_whole(size) else 0 for size in before)
        method, options = self._stream_settings()
        self._stream, history = learn_chunk(
            self._stream, self.network_, rows, method, options, engine=self._engine()
        )
        network = self.network_.with_theta(self._stream.training.theta)
        history = self.history_.followed_by(history).recent(_KEPT_UPDATES)
        return self._keep_streamed(network, history, rows, n_rows + rows.n_rows, n_chunks + 1)

    def transform(self, X: Any) -> Any:
        """Infer the causes of every row.

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
        """Predict rows from causes.

        Parameters
        ----------
        X : (n_rows, n_hidden) causes, on where at least 1/2.

        Returns
        -------
        (n_rows, n_features_in_): where a column is more likely 1 than 0, as int8 and sparse if X is
        sparse; with ``output="probability"`` its probability, always dense.
        """
        check_fitted(self)
        given = csr_of(X) if sp.issparse(X) else X
        try:
            states = sp.csr_array(check_array(given, accept_sparse="csr") >= 0.5)
        except (ValueError, TypeError) as error:
            raise _data_error(error) from error
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
                part = sp.csr_array(part) if sp.issparse(X) else part
            parts.append(part)
        return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of 1 for every entry, given all *other* entries of its row.

        An unobserved entry (NaN) gets its probability given the row. An observed entry gets its
        probability as if it alone were unobserved: a 1 with a low probability is surprising, and
        a 0 with a high probability would fit the row. Probabilities are averaged over the
        causes, exactly for few causes and otherwise by sampling; see `predict_visible`.

        Returns
        -------
        (n_rows, n_features_in_), dense. A sparse matrix X is rejected; `Observations` are accepted.
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
        """Return ``log p(row)`` of every row, in nats, shape (n_rows,).

        It is exact if the hidden states can be enumerated, otherwise an estimate that depends on
        the row alone, see `log_probability`. Unobserved entries are summed out. The bounds of the
        paper are `nor.evaluate(model.network_, X)`.
        """
        rows = self._fitted_rows(X)
        return log_probability(
            self.network_, rows, engine=self._engine(), progress=self.progress
        ).per_row

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean of `score_samples`: larger is better.

        ``sample_weight`` (n_rows,) is the number of times that each row counts, see `fit`.
        """
        rows = with_sample_weight(self._fitted_rows(X), sample_weight)
        return rows.mean(self.score_samples(rows))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return names of the causes: from the network, or from the columns they switch on.

        If the columns have no names, they are the name of the class and a number.
        """
        check_fitted(self)
        network = self.network_
        if network.hidden_names is not None:
            return np.array(network.hidden_names, dtype=object)
        if network.visible_names is not None:
            return np.array(hidden_names(network, self._kind), dtype=object)
        names: npt.NDArray[np.object_] = super().get_feature_names_out(input_features)
        return names

    def _fit_source(self, source: RowSource) -> Self:
        first = self._rows(source.read(0), reset=True)
        self._start(first)
        prepared = PreparedSource(source, lambda X: self._rows(X, reset=False))
        method, options = self._stream_settings()
        given = {name: value for name, value in self._given().items() if name in _OF_A_STREAM}
        given |= {"progress": self.progress, **self._run_options()}
        options = replace(options, steps=self.steps, **given)
        result = train_stream(self.network_, prepared, method, options, engine=self._engine())
        size = (source.n_rows, len(source))
        return self._keep_streamed(result.network, result.history, first, *size)

    def _fit_cluster(self, client: Any, X: Any) -> Self:
        from noisyor.distributed.chunks import reader_of
        from noisyor.distributed.training import fetch_sample, train

        X = reader_of(X).source
        if self.binarize is not None:
            X = PreparedSource(X, partial(_binarized, threshold=self.binarize))
        seed = self._options()["seed"]
        first = self._rows(fetch_sample(client, X, seed), reset=True)
        self._start(first)
        method, options = self._stream_settings()
        size = _CLUSTER_BATCH if self.batch_size is None else self._given()["batch_size"]
        steps = _CLUSTER_STEPS if self.steps is None else self.steps
        shown = {"progress": self.progress, **self._run_options()}
        options = replace(options, steps=steps, batch_size=size, **shown)
        result = train(client, self.network_, X, method, options)
        self.settings_.update(options.record())
        return self._keep_streamed(result.network, result.history, first, X.n_rows, len(X))

    def _keep_streamed(
        self, network: Network, history: History, rows: Observations, n_rows: int, n_chunks: int
    ) -> Self:
        """Store the result of learning from chunks; ``rows`` is one of the chunks."""
        settings = self.settings_ | {"steps": history.n_steps}
        self._keep(FitResult(network, history, settings), rows)
        size = {"rows": n_rows, "columns": rows.n_visible, "chunks": n_chunks}
        self.provenance_["data"] = {**size, "source": None}
        return self

    def _start(self, rows: Observations) -> None:
        """Set the parameters before the first update, and the settings of the recipe."""
        self._keep(self._learn(rows, **self._options() | {"steps": 0}), rows)

    @abstractmethod
    def _learn(self, rows: Observations, **options: Any) -> FitResult:
        """Call the learning function of this kind of model."""

    def _options(self) -> dict[str, Any]:
        """Return keywords for the recipe; each call draws one seed from a random state."""
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            try:
                seed = check_random_state(seed).randint(2**31 - 1)
            except (ValueError, TypeError) as error:
                raise InvalidSettingError(f"random_state: {error}") from error
        return {"seed": int(seed), **self._given()}

    def _given(self) -> dict[str, Any]:
        named = {name: getattr(self, name, None) for name in _PASSED_ON}
        given = {name: value for name, value in named.items() if value is not None}
        if self.batch_size is not None:
            given["batch_size"] = None if self.batch_size == "all" else self.batch_size
        return {**given, "engine": self._engine(), **(self.options or {})}

    def _engine(self) -> Engine:
        """Return the engine: all cores for ``n_jobs`` None or -1, else that many threads."""
        return get_engine(n_threads=None if self.n_jobs == -1 else self.n_jobs)

    def _run_options(self) -> dict[str, Any]:
        if self.checkpoint is None and not self.resume:
            return {}
        return {"checkpoint": self.checkpoint, "resume": self.resume}

    def _stream_settings(self) -> tuple[Method | None, TrainOptions]:
        """Return method and options for chunks: as given, else as the recipe chose them."""
        given = self._given()
        method = given.get("method")
        if method is None and "method" in self.settings_:
            method = method_of(self.settings_["method"])
        known = _STREAM | self.settings_ | given
        chosen = {name: known[name] for name in _STREAM}
        return method, TrainOptions(seed=self.settings_.get("seed", 0), **chosen)

    def _keep(self, learned: FitResult, rows: Observations) -> Self:
        """Store the learned network and the provenance of the rows."""
        self.history_, self.settings_ = learned.history, learned.settings
        self._describe(_with_names(learned.network, rows.column_names))
        metrics = {}
        if len(self.history_.elbo):
            tail = max(1, len(self.history_.elbo) // 10)
            metrics["training_elbo"] = float(self.history_.elbo[-tail:].mean())
        last = self.history_.evaluations[-1:]
        if last and last[0].step == self.history_.n_steps:  # of these parameters, not of earlier
            metrics["held_out_elbo"] = last[0].elbo
        self.provenance_ = provenance(
            self._kind, rows, settings=self.settings_, metrics=metrics, curve=self.history_.curve()
        )
        return self

    def _describe(self, network: Network) -> None:
        """Set the attributes that show the parameters of the network."""
        self.network_ = network
        self.prior_ = network.prior_probability
        self.noise_ = network.noise_probability
        self.components_ = self._components(network)

    def _components(self, network: Network) -> Any:
        """Return the edges to visible nodes as a sparse matrix (n_hidden, n_visible)."""
        edges = edge_matrix(network, probability=True)
        return sp.csr_array(edges[: network.n_visible].T)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a ``.safetensors`` file with its origin; nothing in it is executed.

        The state of the optimizer is not part of it, nor are parameters that JSON cannot hold.
        """
        check_fitted(self)
        params = self.get_params(deep=False).items()
        kept = {name: _plain(value) for name, value in params if name not in _OF_THE_RUN}
        kept = {name: value for name, value in kept.items() if value is not None}
        metadata = {**self.provenance_, "estimator": {"params": kept}}
        save_network(path, self.network_, metadata=metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` or the command line wrote. ``history_`` is thinned."""
        network, metadata = load_model(path)
        found = metadata.get("kind")
        if found != cls._kind and cls._kind != "network":
            raise ModelFileError(
                f"the model file {os.fspath(path)} holds a model of kind {found!r}, expected "
                f"{cls._kind!r}; NoisyOrNetwork.load reads any"
            )
        # Files of the command line have no parameters of an estimator; the defaults then apply.
        given = mapping_in(mapping_in(metadata, "estimator"), "params")
        known = set(cls._get_param_names()).difference(_OF_THE_RUN)
        params = {name: _revived(value) for name, value in given.items() if name in known}
        estimator = cls(**(cls._params_of(network) | params))
        try:
            estimator._check_params()
        except InvalidSettingError as error:
            raise ModelFileError(
                f"the model file {os.fspath(path)} holds invalid parameters: {error}"
            ) from error
        estimator.provenance_ = {
            name: value for name, value in metadata.items() if name != "estimator"
        }
        estimator.settings_ = dict(mapping_in(metadata, "settings"))
        estimator.history_ = history_of(metadata)
        estimator.n_features_in_ = network.n_visible
        if network.visible_names is not None:
            estimator.feature_names_in_ = np.array(network.visible_names, dtype=object)
        estimator._describe(network)
        return estimator

    @classmethod
    def _params_of(cls, network: Network) -> dict[str, Any]:
        """Return parameters derived from the network, for files that no estimator wrote."""
        return {}

    @property
    def _n_features_out(self) -> int:
        return self.network_.n_hidden

    def _posterior(self, rows: Observations, method: Method) -> Posterior:
        return explain(self.network_, rows, method, engine=self._engine(), progress=self.progress)

    def _mode(self) -> Method:
        """Return the training method without noise and with ICM, for the most likely causes."""
        if self.method is None:
            return method_for(self.network_)
        if isinstance(self.method, MaxProduct):
            return replace(self.method.at_test_time(), icm=max(self.method.icm, ICM_SWEEPS))
        return self.method

    def _probabilities(self, rows: Observations) -> sp.csr_array:
        """Return the probability of every cause in every row, by mean-field."""
        return self._posterior(rows, self._mean_field()).marginals()

    def _mean_field(self) -> Method:
        if isinstance(self.method, MeanField):
            return replace(self.method, keep_q=True)
        like = self.method if isinstance(self.method, MaxProduct) else method_for(self.network_)
        return MeanField(local=like.ancestors_only, tolerance=1e-4)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _rows(self, X: Any, reset: bool) -> Observations:
        return read_rows(self, X, reset=reset, min_features=self._min_features if reset else 1)

    def _fitted_rows(self, X: Any) -> Observations:
        check_fitted(self)
        self._check_params()
        return self._rows(X, reset=False)

    def _check_params(self) -> None:
        check_settings(self, _RULES)


def _with_names(network: Network, names: tuple[str, ...] | None) -> Network:
    if names is None or network.visible_names == names:
        return network
    return replace(network, visible_names=names)
