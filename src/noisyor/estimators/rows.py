"""What estimators accept as rows, and the record of the rows that one has learned from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import narwhals as nw
import narwhals.selectors as ncs
import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from noisyor._util.sparse import csr_of
from noisyor._util.validation import is_finite, is_whole
from noisyor.data.chunks import RowSource
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError

__all__ = [
    "BinarizedSource",
    "PreparedSource",
    "Tally",
    "read_rows",
    "with_numbers",
    "with_sample_weight",
]


def read_rows(estimator: Any, X: Any, *, reset: bool, min_features: int = 1) -> Observations:
    """Rows as observations, after scikit-learn's own checks of shape, width and column names.

    Parameters
    ----------
    estimator : gets ``n_features_in_`` and ``feature_names_in_`` if ``reset``, else is asked for
        them; its ``binarize`` is the threshold above which an entry counts as 1.
    X : (n_rows, n_columns) array, SciPy sparse matrix or frame (pandas, Polars, Arrow) of 0, 1 and
        NaN or null, or `Observations`.
    """
    if isinstance(X, Observations):
        _check_observations(estimator, X, reset)
        return X
    if isinstance(X, RowSource):
        raise InvalidDataError("only fit takes all chunks at once: iterate over them here")
    if sp.issparse(X) and X.ndim == 2:  # before scikit-learn changes its layout
        X = csr_of(X)
    X = with_numbers(X)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        ensure_all_finite="allow-nan",
        ensure_min_features=min_features,
    )
    if estimator.binarize is not None:
        X = _above(X, estimator.binarize)
    names = getattr(estimator, "feature_names_in_", None)
    return Observations.of(X, column_names=None if names is None else list(names))


_YES = ("y", "yes", "t", "true", "x", "present")


def with_numbers(X: Any) -> Any:
    """A frame of Polars, Arrow or others with its Booleans as numbers; anything else as it is.

    scikit-learn makes objects of Booleans with gaps, which are no longer 0, 1 and NaN. Columns of
    texts are refused with a hint.
    """
    if not nw.dependencies.is_into_dataframe(X):
        return X
    frame = nw.from_native(X, eager_only=True)
    for name in frame.select(ncs.by_dtype(nw.String, nw.Categorical, nw.Enum)).columns:
        values = frame[name].drop_nulls().unique(maintain_order=True).to_list()
        if values:
            yes = next((value for value in values if value.lower() in _YES), values[0])
            raise InvalidDataError(
                f"column {name!r} holds texts such as {values[0]!r}, expected 0, 1 or missing; "
                f"X[{name!r}] == {yes!r} makes 0 and 1 of them"
            )
    if nw.dependencies.is_pandas_dataframe(X):
        return X  # its Booleans are read by scikit-learn as they should be
    return frame.with_columns(ncs.boolean().cast(nw.Float64)).to_native()


def with_sample_weight(rows: Observations, sample_weight: Any) -> Observations:
    """The rows, each counted so many times; those of weight 0 are left out.

    Parameters
    ----------
    sample_weight : (n_rows,) numbers that are not negative, or None for one each.
    """
    if sample_weight is None:
        return rows
    if rows.weights is not None:
        raise InvalidDataError("sample_weight is given, but the rows have weights of their own")
    weights = np.asarray(sample_weight)
    if weights.shape != (rows.n_rows,):
        raise InvalidDataError(
            f"sample_weight must have shape ({rows.n_rows},), got {weights.shape}"
        )
    try:
        weights = weights.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"sample_weight holds numbers, got {weights.dtype}") from error
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
    """1 where X is larger than the threshold, NaN where it is NaN, else 0."""
    if not is_finite(threshold):
        raise InvalidSettingError(f"binarize is a number or None, got {threshold!r}")
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


class _Counted(NamedTuple):
    """What is known of some chunks: numbers of rows, ones, missing entries and chunks."""

    rows: int
    ones: int
    missing: int
    sha256: str
    chunks: int = 1

    def with_next(self, later: _Counted) -> _Counted:
        """These chunks and those that came after them."""
        return _Counted(
            self.rows + later.rows,
            self.ones + later.ones,
            self.missing + later.missing,
            hashlib.sha256(f"{self.sha256}{later.sha256}".encode()).hexdigest(),
            self.chunks + later.chunks,
        )


@dataclass
class Tally:
    """Size and fingerprint of rows that came in chunks and were not kept."""

    columns: int = 0
    chunks: dict[int, _Counted] = field(default_factory=dict)

    @classmethod
    def after(cls, origin: Mapping[str, Any]) -> Tally:
        """A tally that goes on from the data that a model came from, if they are known."""
        tally, data = cls(), origin.get("data")
        if isinstance(data, Mapping):
            found: list[Any] = [data.get(name) for name in ("rows", "ones", "missing")]
            rows, ones, missing = (int(size) if is_whole(size) else 0 for size in found)
            tally.chunks[-1] = _Counted(rows, ones, missing, str(data.get("sha256", "")))
        return tally

    def add(self, number: int, rows: Observations) -> None:
        """Count a chunk; one that was counted before is not counted again."""
        self.columns = rows.n_visible
        if number not in self.chunks:
            self.chunks[number] = _Counted(
                rows.n_rows, rows.n_active, rows.n_missing, rows.fingerprint()
            )

    def add_counted(self, found: Mapping[int, tuple[int, int, int, str]], columns: int) -> None:
        """Count chunks that others have read: rows, ones, missing entries and fingerprint."""
        self.columns = columns
        self.chunks |= {number: _Counted(*counted) for number, counted in found.items()}

    def fold(self) -> None:
        """Keep one entry for all chunks so far: for those that never come again."""
        self.chunks = {-1: self._total()}

    def _total(self) -> _Counted:
        in_order = (self.chunks[number] for number in sorted(self.chunks))
        return reduce(_Counted.with_next, in_order)

    def describe(self) -> dict[str, Any]:
        """The ``data`` of a model file, see `noisyor.io.provenance`."""
        return {**self._total()._asdict(), "columns": self.columns, "source": None}


class BinarizedSource(RowSource):
    """The chunks of another source with entries above a threshold as 1 and the others as 0."""

    def __init__(self, source: RowSource, threshold: float) -> None:
        self.source, self.threshold = source, threshold
        self.n_visible, self.sizes = source.n_visible, source.sizes
        self.column_names = source.column_names

    def read(self, number: int) -> Any:
        """One chunk."""
        chunk = self.source.read(number)
        if sp.issparse(chunk):
            return _above(csr_of(chunk), self.threshold)
        return chunk if isinstance(chunk, Observations) else _above(chunk, self.threshold)


class PreparedSource(RowSource):
    """The chunks of another source as an estimator reads them, counted on the way."""

    def __init__(self, source: RowSource, prepare: Callable[[Any], Observations]) -> None:
        self.source, self.prepare, self.tally = source, prepare, Tally()
        self.n_visible, self.sizes = source.n_visible, source.sizes
        self.column_names = source.column_names

    def read(self, number: int) -> Observations:
        """One chunk."""
        rows = self.prepare(self.source.read(number))
        self.tally.add(number, rows)
        return rows
