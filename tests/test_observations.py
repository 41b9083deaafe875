"""Observations: every accepted input gives the same object, and every fault is named."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import noisyor.ragged
from noisyor.errors import (
    InvalidDataError,
    InvalidSettingError,
    NoisyOrError,
    UnsupportedDataError,
)
from noisyor.observations import Observations

NAN = np.nan
SPARSE_FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
FIELDS = ("ptr", "columns", "missing_ptr", "missing_columns", "row_ids")

SAMPLE = np.array([[1, 0, NAN, 1], [0, 0, 0, 0], [NAN, NAN, 1, 0]])


def matrices(*values: float, max_side: int = 6) -> st.SearchStrategy[np.ndarray]:
    shape = hnp.array_shapes(min_dims=2, max_dims=2, max_side=max_side)
    return hnp.arrays(np.float64, shape, elements=st.sampled_from(values))


def assert_same(left: Observations, right: Observations, ids: bool = True) -> None:
    """Equal contents, down to dtypes, wherever the pointers start."""
    assert left.n_visible == right.n_visible
    for name in FIELDS if ids else FIELDS[:-1]:
        assert getattr(left, name).dtype == getattr(right, name).dtype, name
    np.testing.assert_array_equal(left.ptr - left.ptr[0], right.ptr - right.ptr[0])
    np.testing.assert_array_equal(active(left), active(right))
    np.testing.assert_array_equal(
        left.missing_ptr - left.missing_ptr[0], right.missing_ptr - right.missing_ptr[0]
    )
    np.testing.assert_array_equal(unobserved(left), unobserved(right))
    if ids:
        np.testing.assert_array_equal(left.row_ids, right.row_ids)


def active(data: Observations) -> np.ndarray:
    return data.columns[data.ptr[0] : data.ptr[-1]]


def unobserved(data: Observations) -> np.ndarray:
    return data.missing_columns[data.missing_ptr[0] : data.missing_ptr[-1]]


@pytest.fixture(params=[1, 5, 1 << 20], ids=lambda size: f"block{size}")
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of one row, of a few, and of everything must agree."""
    monkeypatch.setattr(noisyor.ragged, "BLOCK", request.param)
    return int(request.param)


# ---- the layout


def test_layout_of_a_known_matrix() -> None:
    data = Observations.of(SAMPLE)
    assert data.n_visible == 4
    assert data.ptr.tolist() == [0, 2, 2, 3]
    assert data.columns.tolist() == [0, 3, 2]
    assert data.missing_ptr.tolist() == [0, 1, 1, 3]
    assert data.missing_columns.tolist() == [2, 0, 1]
    assert data.row_ids.tolist() == [0, 1, 2]
    assert data.column_names is None
    assert data.shape == (4,)
    assert [getattr(data, name).dtype for name in FIELDS] == [
        np.int64,
        np.int32,
        np.int64,
        np.int32,
        np.int64,
    ]
    assert (data.n_rows, data.n_active, data.n_missing, len(data)) == (3, 3, 3, 3)
    assert repr(data) == "Observations(n_rows=3, n_visible=4, active=3, missing=3)"


def test_complete_data_have_no_missing_entries() -> None:
    data = Observations.of(np.eye(3))
    assert data.missing_ptr.tolist() == [0, 0, 0, 0]
    assert data.missing_columns.size == 0


def test_arrays_are_read_only_and_frozen() -> None:
    data = Observations.of(SAMPLE)
    parts = data, data.take(slice(1, 3)), data.take([2, 0])
    for part in parts:
        for name in FIELDS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(part, name)[:] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.n_visible = 3  # type: ignore[misc]


def test_input_is_neither_shared_nor_changed() -> None:
    unsorted = sp.csr_array((np.ones(3), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    columns = unsorted.indices.copy()
    data = Observations.of(unsorted)
    np.testing.assert_array_equal(unsorted.indices, columns)
    unsorted.indices[:] = 0
    assert data.columns.tolist() == [0, 2, 1]

    canonical = sp.csr_array(np.eye(3))
    data = Observations.of(canonical)
    canonical.indices[:] = 0
    assert data.columns.tolist() == [0, 1, 2]


# ---- equivalence of all forms


@pytest.mark.parametrize(
    "dtype",
    [bool, *"bBhHiIlLqQ", np.float16, np.float32, np.float64, np.longdouble, ">f8", ">i4"],
)
def test_every_dense_dtype(dtype: Any, block_size: int) -> None:
    values = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
    assert_same(
        Observations.of(values.astype(dtype)),
        Observations.from_indices([[0], [], [0, 1, 2], [2]], 3),
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_every_float_dtype_may_be_missing(dtype: Any, block_size: int) -> None:
    assert_same(Observations.of(SAMPLE.astype(dtype)), Observations.of(SAMPLE))


@settings(max_examples=60, deadline=None)
@given(values=matrices(0, 1, NAN))
def test_all_forms_with_missing_entries_agree(values: np.ndarray) -> None:
    reference = Observations.of(values)
    np.testing.assert_array_equal(reference.to_dense(), values)
    unknown = np.isnan(values)
    filled = np.where(unknown, 7, values)  # a value under the mask does not matter
    frame = pd.DataFrame(values, columns=[f"c{j}" for j in range(values.shape[1])])
    indices = [np.flatnonzero(row == 1) for row in values]
    forms = [
        Observations.of(np.asfortranarray(values)),
        Observations.of(np.repeat(values, 2, axis=1)[:, ::2]),
        Observations.of(np.ma.masked_array(filled.astype(int), mask=unknown)),
        Observations.of(np.ma.masked_invalid(values)),
        Observations.of(filled.astype(np.int8), missing=unknown),
        Observations.of(filled, missing=sp.coo_array(unknown)),
        Observations.of(sp.lil_array(filled), missing=unknown),
        Observations.of(sp.csc_array(filled), missing=sp.csc_array(unknown)),
        Observations.of(pd.DataFrame(filled), missing=pd.DataFrame(unknown)),
        Observations.of(frame),
        Observations.of(frame.astype("Float32")),
        Observations.of(frame.astype("Int8")),
        Observations.of(frame.astype("boolean")),
        Observations.of(frame.astype({"c0": "boolean"})),
        Observations.of(frame.astype(pd.SparseDtype(np.float64, 0))),
        Observations.of(frame.astype(pd.SparseDtype(np.float64, np.nan))),
        Observations.of(frame.astype({"c0": pd.SparseDtype(np.float64, 0)})),
        Observations.of(reference.to_csr(), missing=reference.missing_csr().astype(bool)),
        Observations.from_indices(
            [row[::-1] for row in indices],
            values.shape[1],
            missing=[set(np.flatnonzero(row).tolist()) for row in unknown],
        ),
        *(Observations.of(sp.coo_array(values).asformat(name)) for name in SPARSE_FORMATS),
        *(Observations.of(sp.coo_matrix(values).asformat(name)) for name in SPARSE_FORMATS),
    ]
    for form in forms:
        assert_same(form, reference)
        assert form.fingerprint() == reference.fingerprint()


@settings(max_examples=30, deadline=None)
@given(values=matrices(0, 1))
def test_all_forms_of_complete_data_agree(values: np.ndarray) -> None:
    reference = Observations.of(values)
    np.testing.assert_array_equal(reference.to_dense(), values)
    rows = [np.flatnonzero(row).tolist() for row in values]
    for form in (
        Observations.of(values.astype(bool)),
        Observations.of(values.astype(np.uint8)),
        Observations.of(sp.csr_array(values.astype(bool))),
        Observations.of(sp.coo_array(values.astype(np.int64))),
        Observations.of(pd.DataFrame(values.astype(bool))),
        Observations.of(pd.DataFrame(values.astype(np.uint8))),
        Observations.of(pd.DataFrame(values.astype(bool)).astype(pd.SparseDtype(bool))),
        Observations.of(pd.DataFrame(values.astype(int)).astype(pd.SparseDtype(np.int64, 0))),
        Observations.of(values, missing=np.zeros(values.shape, dtype=bool)),
        Observations.from_indices(rows, values.shape[1]),
        Observations.from_indices((iter(row) for row in rows), values.shape[1]),
        Observations.from_indices((np.array(row, np.uint8) for row in rows), values.shape[1]),
    ):
        assert_same(form, reference)
        assert form.fingerprint() == reference.fingerprint()


def test_blocks_hold_as_many_rows_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisyor.ragged, "BLOCK", 10)
    ptr = np.array([7, 11, 15, 17, 18, 40, 40, 40, 41])
    blocks = list(noisyor.ragged.row_blocks(ptr))
    assert blocks == [(0, 3), (3, 4), (4, 5), (5, 8)]


def test_blocks_do_not_matter(block_size: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.choice([0, 0, 0, 1, NAN], size=(23, 7))
    values[5:15] = 0  # a stretch without any entry
    hidden = rng.random(values.shape) < 0.2
    expected = np.where(hidden, NAN, values)
    for data in (
        Observations.of(values, missing=hidden),
        Observations.of(sp.csr_array(values), missing=sp.csr_array(hidden)),
        Observations.of(pd.DataFrame(values).astype("Float64"), missing=hidden),
        Observations.of(np.ma.masked_array(values, mask=hidden)),
        Observations.of(Observations.of(values), missing=hidden),
    ):
        np.testing.assert_array_equal(data.to_dense(), expected)


def test_objects_that_offer_an_array() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return SAMPLE

    assert_same(Observations.of(Tensor()), Observations.of(SAMPLE))


def test_negative_zero_is_zero() -> None:
    stored = sp.csr_array((np.array([-0.0, 1.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert Observations.of(np.array([[-0.0, 1.0]])).columns.tolist() == [1]
    assert Observations.of(stored).columns.tolist() == [1]


def test_stored_zeros_are_dropped_and_repeated_entries_add_up() -> None:
    rows, columns = np.array([0, 0, 0, 1]), np.array([1, 1, 2, 0])
    coo = sp.coo_array((np.array([2, -1, 0, 1]), (rows, columns)), shape=(2, 3))
    assert_same(Observations.of(coo), Observations.from_indices([[1], [0]], 3))
    csr = sp.csr_array((np.array([2, -1]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 3))
    assert_same(Observations.of(csr), Observations.from_indices([[1], []], 3))
    csr.data[:] = 1
    with pytest.raises(InvalidDataError, match=r"row 0, column 1: .* got 2 "):
        Observations.of(csr)


def test_a_sparse_mask_may_store_false() -> None:
    mask = sp.csr_array(np.array([[True, True]]))
    mask.data[0] = False
    assert unobserved(Observations.of(np.array([[1, 1]]), missing=mask)).tolist() == [1]


def test_int64_sparse_indices() -> None:
    csr = sp.csr_array(np.eye(3))
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    assert_same(Observations.of(csr), Observations.of(np.eye(3)))


# ---- images


@pytest.mark.parametrize("shape", [(3, 2, 4), (3, 1, 2, 4)])
def test_images_are_flattened(shape: tuple[int, ...], block_size: int) -> None:
    flat = np.random.default_rng(1).choice([0, 1, NAN], size=(3, 8))
    data = Observations.of(flat.reshape(shape))
    assert_same(data, Observations.of(flat))
    assert (data.n_visible, data.shape) == (8, (2, 4))
    assert "shape=(2, 4)" in repr(data)
    assert data.take([1]).shape == data.take(slice(1)).shape == (2, 4)
    hidden = flat == 0
    for mask in (hidden, hidden.reshape(3, 2, 4), hidden.reshape(shape), sp.csr_array(hidden)):
        masked = Observations.of(flat.reshape(shape), missing=mask)
        assert masked.n_missing == (hidden | np.isnan(flat)).sum()
        assert masked.shape == (2, 4)


def test_images_with_channels_are_refused() -> None:
    with pytest.raises(InvalidDataError, match=r"\(n, 1, height, width\), got \(2, 3, 4, 4\)"):
        Observations.of(np.zeros((2, 3, 4, 4)))


# ---- names and identities


def test_names_come_from_frames() -> None:
    frame = pd.DataFrame(SAMPLE, columns=["fever", "cough", "rash", 7])
    data = Observations.of(frame)
    assert data.column_names == ("fever", "cough", "rash", "7")
    assert data.take([0]).column_names == data.column_names
    assert Observations.of(pd.DataFrame(SAMPLE)).column_names is None
    assert Observations.of(frame, column_names="abcd").column_names == ("a", "b", "c", "d")
    sparse = frame.astype(pd.SparseDtype(float, 0))
    assert Observations.of(sparse).column_names == data.column_names
    by_index = Observations.from_indices([[0]], 2, column_names=["a", "b"])
    assert by_index.column_names == ("a", "b")


def test_given_row_ids_are_kept() -> None:
    data = Observations.of(SAMPLE, row_ids=[10, 30, 20])
    assert data.row_ids.tolist() == [10, 30, 20]
    assert data.take([2, 0]).row_ids.tolist() == [20, 10]
    assert data.take(slice(1, None)).row_ids.tolist() == [30, 20]
    assert Observations.from_indices([[], []], 2, row_ids=[5, 4]).row_ids.tolist() == [5, 4]


def test_observations_pass_through() -> None:
    data = Observations.of(SAMPLE, row_ids=[7, 8, 9], column_names="abcd")
    assert Observations.of(data) is data
    assert Observations.of(data, 4) is data
    with pytest.raises(InvalidDataError, match=r"have 4 columns, expected 5"):
        Observations.of(data, 5)
    renamed = Observations.of(data, column_names="wxyz")
    assert_same(renamed, data)
    assert renamed.column_names == ("w", "x", "y", "z")


def test_observations_can_be_hidden_further() -> None:
    images = Observations.of(SAMPLE.reshape(3, 2, 2), row_ids=[7, 8, 9], column_names="abcd")
    hidden = np.zeros((2, 4), dtype=bool)
    hidden[1, [0, 2]] = True
    data = Observations.of(images.take(slice(1, 3)), missing=hidden)
    np.testing.assert_array_equal(data.to_dense(), [[0, 0, 0, 0], [NAN, NAN, NAN, 0]])
    assert data.row_ids.tolist() == [8, 9]
    assert (data.shape, data.column_names) == ((2, 2), ("a", "b", "c", "d"))


# ---- evidence


def test_evidence_leaves_the_rest_unobserved() -> None:
    data = Observations.from_evidence(6, present=[4, 1], absent=(0,))
    np.testing.assert_array_equal(data.to_dense(), [[0, 1, NAN, NAN, 1, NAN]])
    assert Observations.from_evidence(3).n_missing == 3
    everything = Observations.from_evidence(2, present=[0], absent=[1])
    assert (everything.n_active, everything.n_missing) == (1, 0)


@pytest.mark.parametrize(
    ("present", "absent", "message"),
    [
        ([1, 3], [3], r"columns \[3\] are both present and absent"),
        ([9], [], r"present: column 9 does not exist, columns are 0\.\.4"),
        ([], [-1], "absent: column -1 does not exist"),
        ([2, 2], [], "present: column 2 occurs twice"),
        (["fever"], [], "present: expected a list of column indices"),
    ],
)
def test_evidence_faults(present: list[Any], absent: list[int], message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        Observations.from_evidence(5, present, absent)


# ---- faults in values


@pytest.mark.parametrize("bad", [2, -1, 0.5, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_array, pd.DataFrame])
def test_bad_values_are_named(bad: float, form: Callable[[Any], Any], block_size: int) -> None:
    values = np.zeros((9, 4))
    values[3, 1] = 1
    values[3, 2] = values[7, 0] = bad
    message = (
        rf"^row 3, column 2: expected 0, 1 or missing \(NaN\), got {bad:g} \(2 bad values in all\)$"
    )
    with pytest.raises(InvalidDataError, match=message.replace("+", r"\+")):
        Observations.of(form(values))
    values[7, 0] = 1
    with pytest.raises(InvalidDataError, match=r"\(1 bad value in all\)"):
        Observations.of(form(values))
    values[3, 2] = 0
    assert active(Observations.of(form(values))).tolist() == [1, 0]


def test_bad_values_name_the_column() -> None:
    values = np.zeros((4, 3), dtype=np.int16)
    values[3, 2] = 2
    names = ["cough", "rash", "fever"]
    message = r"row 3, column 'fever' \(2\): expected 0, 1 or missing \(NaN\), got 2 "
    frame = pd.DataFrame(values, columns=names)
    for X in (frame, frame.astype("Int8"), frame.astype(pd.SparseDtype(np.int64, 0))):
        with pytest.raises(InvalidDataError, match=message):
            Observations.of(X)
    with pytest.raises(InvalidDataError, match=message):
        Observations.of(values, column_names=names)


def test_a_bad_value_beside_the_mask_is_still_bad() -> None:
    values = np.array([[5, 0], [0, 6]])
    mask = values == 5
    for X in (values, sp.csr_array(values), np.ma.masked_array(values, mask)):
        with pytest.raises(InvalidDataError, match=r"row 1, column 1: .* got 6 \(1 bad"):
            Observations.of(X, missing=mask)


# ---- faults in form


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 1], [1, 0]], "np.asarray.* or use Observations.from_indices"),
        (([1], [0, 2]), "a tuple may hold values or column indices"),
        ({"a": [1]}, "cannot read binary data from dict"),
        ("0101", "cannot read binary data from str"),
        (None, "cannot read binary data from NoneType"),
        (np.array([[None, 1]]), "the array has dtype object"),
        (np.array([["0", "1"]]), "the array has dtype <U1"),
        (np.zeros((1, 2), complex), "the array has dtype complex128"),
        (sp.csr_array(np.zeros((1, 2), complex)), "the sparse matrix has dtype complex128"),
        (pd.DataFrame({"a": [1], "b": ["x"]}), r"column 'b' \(1\) has dtype"),
        (
            pd.DataFrame({"a": [1], "b": pd.Series([1], dtype=object)}),
            r"column 'b' \(1\) has dtype",
        ),
        (pd.DataFrame({"b": pd.Categorical([1])}), r"column 'b' \(0\) has dtype category"),
        (
            pd.DataFrame({"b": pd.to_datetime(["2020-01-01"])}),
            r"column 'b' \(0\) has dtype datetime",
        ),
    ],
)
def test_unsupported_types(X: Any, message: str) -> None:
    with pytest.raises(UnsupportedDataError, match=message) as caught:
        Observations.of(X)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, NoisyOrError)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(5), r"got shape \(5,\): X.reshape\(1, -1\) makes a vector one row"),
        (pd.Series([0, 1]), r"X.reshape\(1, -1\)"),
        (sp.coo_array(np.ones(5)), r"got shape \(5,\): X.reshape\(1, -1\)"),
        (np.array(1), r"got \(\)"),
        (np.zeros((0, 4)), "no rows"),
        (sp.csr_array((0, 4)), "no rows"),
        (pd.DataFrame({"a": np.zeros(0)}), "no rows"),
        (np.zeros((4, 0)), "number of columns .* got 0"),
        (np.zeros((4, 0, 3)), "number of columns .* got 0"),
        (np.zeros((2, 2, 2, 2, 2)), r"expected shape .* got \(2, 2, 2, 2, 2\)"),
        (pd.DataFrame(np.zeros((1, 3)), columns=["a", "b", "a"]), "distinct, 'a' occurs twice"),
    ],
)
def test_shapes_that_are_refused(X: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        Observations.of(X)


@pytest.mark.parametrize("form", [np.asarray, sp.csc_array, pd.DataFrame])
def test_width_mismatch_says_both(form: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidDataError, match=r"have 4 columns, expected 5 \(n_visible\)"):
        Observations.of(form(SAMPLE), n_visible=5)
    assert Observations.of(form(SAMPLE), n_visible=4).n_visible == 4


def test_malformed_sparse_matrix() -> None:
    csr = sp.csr_array(np.eye(3))
    csr.indices[1] = 3
    with pytest.raises(InvalidDataError, match="the sparse matrix is not well formed"):
        Observations.of(csr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": np.zeros((3, 4))}, "missing must be a boolean mask, got dtype float64"),
        ({"missing": sp.csr_array((3, 4))}, "missing must be a boolean mask, got dtype float64"),
        (
            {"missing": np.zeros((4, 3), bool)},
            r"missing has shape \(4, 3\), the data have 3 rows of 4",
        ),
        ({"missing": sp.csr_array((3, 5), dtype=bool)}, r"missing has shape \(3, 5\)"),
        ({"row_ids": [1, 2]}, "row_ids has 2 entries, expected 3"),
        ({"row_ids": [0.5, 1, 2]}, "row_ids must be a list of integers, got float64"),
        ({"row_ids": [[1], [2], [3]]}, r"row_ids must be .* shape \(3, 1\)"),
        (
            {"row_ids": np.array([1, 2, 2**63], np.uint64)},
            "row_ids has entries too large for int64",
        ),
        ({"column_names": ["a", "b"]}, "column_names has 2 entries, expected 4"),
        ({"column_names": ["a", "b", "c", "b"]}, "distinct, 'b' occurs twice"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        Observations.of(SAMPLE, **options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0], [1, 5]], r"^row 1: column 5 does not exist, columns are 0\.\.4$"),
        ([[0], [], [2, -1]], "^row 2: column -1 does not exist"),
        ([[], [3, 1, 3]], "^row 1: column 3 occurs twice"),
        ([[], [2**31]], "^row 1: column 2147483648 does not exist"),
        ([[], [2**32 + 1]], "^row 1: column 4294967297 does not exist"),
        ([[], [2**70]], "^row 1: expected a list of column indices"),
        (
            [[0], [0.0, 1.0]],
            r"^row 1: expected a list of column indices \(integers\), got \[0.0, 1.0\]",
        ),
        ([[0], [True, False]], "^row 1: expected a list of column indices"),
        ([[0], [[1], [2, 3]]], "^row 1: expected a list of column indices"),
        ([[0], ["a"]], "^row 1: expected a list of column indices"),
        ([0, 1], "^row 0: expected a list of column indices"),
        ([], "no rows"),
    ],
)
def test_index_lists_that_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        Observations.from_indices(rows, 5)


def test_missing_index_lists_that_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="missing has 1 rows, expected 2"):
        Observations.from_indices([[0], [1]], 5, missing=[[2]])
    with pytest.raises(InvalidDataError, match="missing, row 1: column 7 does not exist"):
        Observations.from_indices([[0], [1]], 5, missing=[[2], [7]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": [3, 0, 2]}, "row 0: column 0 occurs twice or is out of order"),
        ({"columns": [0, 0, 2]}, "row 0: column 0 occurs twice"),
        ({"columns": [0, 3, 4]}, "row 2: column 4 does not exist"),
        ({"columns": [0, 3, 2**32]}, "columns has entries too large for int32"),
        ({"columns": [0, 2, 2]}, "row 0: column 2 is both 1 and missing"),
        ({"missing_columns": [2, 1, 0]}, "missing, row 2: column 0 occurs twice or is out of"),
        ({"missing_columns": [2, 0, 2]}, "row 2: column 2 is both 1 and missing"),
        ({"ptr": [0, 2, 1, 3]}, "pointers must not fall"),
        ({"ptr": [0, 2, 2, 4]}, "pointers must not fall, nor point outside"),
        ({"ptr": [-1, 2, 2, 3]}, "pointers must not fall, nor point outside"),
        ({"ptr": [0, 3]}, "missing_ptr has 4 entries, expected 2"),
        ({"ptr": [0]}, "no rows"),
        ({"shape": (2, 3)}, "shape has 6 entries, expected 4"),
    ],
)
def test_the_layout_itself_is_checked(
    changes: dict[str, Any], message: str, block_size: int
) -> None:
    data = Observations.of(SAMPLE)
    with pytest.raises(InvalidDataError, match=message):
        dataclasses.replace(data, **changes)


def test_equal_columns_in_neighbouring_rows_are_no_repetition() -> None:
    data = Observations.from_indices([[2], [2], [], [2], []], 3)
    assert dataclasses.replace(data, shape=(3, 1)).columns.tolist() == [2, 2, 2]


# ---- selections


@settings(max_examples=60, deadline=None)
@given(values=matrices(0, 1, NAN, max_side=8), choice=st.data())
def test_take_agrees_with_indexing(values: np.ndarray, choice: st.DataObject) -> None:
    n_rows = len(values)
    whole = Observations.of(values, row_ids=np.arange(n_rows) + 100)
    start = choice.draw(st.integers(0, n_rows - 1))
    data, values = whole.take(slice(start, None)), values[start:]  # pointers not from 0
    n_rows -= start
    number = st.integers(-n_rows, n_rows - 1)
    rows = choice.draw(
        st.one_of(
            st.slices(n_rows),
            st.lists(number, min_size=1, max_size=10),
            hnp.arrays(bool, n_rows),
        )
    )
    expected = values[rows]
    if not len(expected):
        with pytest.raises(InvalidDataError, match="no rows: the selection is empty"):
            data.take(rows)
        return
    taken = data.take(rows)
    np.testing.assert_array_equal(taken.to_dense(), expected)
    np.testing.assert_array_equal(taken.row_ids, (np.arange(n_rows) + start + 100)[rows])
    fresh = Observations.of(expected)
    assert_same(taken, fresh, ids=False)
    assert taken.fingerprint() == fresh.fingerprint()
    np.testing.assert_array_equal(taken.column_counts(), np.nansum(expected, axis=0))
    assert (taken.to_csr() != sp.csr_array(expected == 1)).nnz == 0
    assert (taken.missing_csr() != sp.csr_array(np.isnan(expected))).nnz == 0
    dataclasses.replace(taken)  # the layout passes its own checks


def test_slices_share_the_columns() -> None:
    data = Observations.of(SAMPLE)
    part = data.take(slice(1, 3)).take(slice(1, None))
    assert part.columns is data.columns
    assert part.missing_columns is data.missing_columns
    assert np.shares_memory(part.ptr, data.ptr)
    assert np.shares_memory(part.row_ids, data.row_ids)
    assert part.ptr.tolist() == [2, 3]
    assert part.missing_ptr.tolist() == [1, 3]
    assert not np.shares_memory(data.take(slice(None, None, 2)).columns, data.columns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 3], "row 3 does not exist, there are 3 rows"),
        ([-4], "row -4 does not exist"),
        ([], "no rows"),
        (slice(2, 1), "no rows"),
        (slice(5, None), "no rows"),
        (slice(2, 2, 3), "no rows"),
        ([True, False], r"3 booleans .* got bool of shape \(2,\)"),
        ([0.0, 1.0], "got float64"),
        (1, r"shape \(\)"),
        ([[0]], r"shape \(1, 1\)"),
    ],
)
def test_selections_that_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        Observations.of(SAMPLE).take(rows)


@settings(max_examples=40, deadline=None)
@given(values=matrices(0, 1, NAN, max_side=8), choice=st.data())
def test_concatenation_undoes_slicing(values: np.ndarray, choice: st.DataObject) -> None:
    data = Observations.of(values, row_ids=np.arange(len(values))[::-1])
    cuts = sorted(choice.draw(st.sets(st.integers(1, len(values)))) | {0, len(values)})
    parts = [data.take(slice(*pair)) for pair in itertools.pairwise(cuts)]
    joined = Observations.concatenate(parts)
    assert_same(joined, data)
    assert joined.fingerprint() == data.fingerprint()


def test_concatenation_keeps_names_and_shape() -> None:
    images = SAMPLE.reshape(3, 2, 2)
    named = Observations.of(images, column_names="abcd")
    joined = Observations.concatenate([Observations.of(images), named], row_ids=np.arange(6))
    assert (joined.shape, joined.column_names) == ((2, 2), ("a", "b", "c", "d"))
    assert joined.row_ids.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(joined.to_dense(), np.vstack([SAMPLE, SAMPLE]))


def test_concatenation_faults() -> None:
    named = Observations.of(SAMPLE, column_names="abcd")
    with pytest.raises(InvalidDataError, match="nothing to concatenate"):
        Observations.concatenate([])
    with pytest.raises(InvalidDataError, match=r"part 1 has rows of shape \(3,\), expected \(4,\)"):
        Observations.concatenate([named, Observations.of(np.eye(3))])
    with pytest.raises(InvalidDataError, match="part 2 has other column names"):
        Observations.concatenate(
            [Observations.of(SAMPLE), named, Observations.of(named, column_names="wxyz")]
        )
    with pytest.raises(InvalidDataError, match="row_ids has 2 entries, expected 6"):
        Observations.concatenate([named, named], row_ids=[0, 1])


def test_split_is_a_seeded_partition() -> None:
    data = Observations.from_indices([[row % 7] for row in range(100)], 7)
    first, second = data.split(0.29, seed=3)
    assert (len(first), len(second)) == (29, 71)
    order = np.random.default_rng(3).permutation(100)
    np.testing.assert_array_equal(first.row_ids, order[:29])
    np.testing.assert_array_equal(second.row_ids, order[29:])
    np.testing.assert_array_equal(active(first), order[:29] % 7)
    assert data.split(0.29, seed=4)[0].row_ids.tolist() != first.row_ids.tolist()


def test_split_of_the_newsgroups_size() -> None:
    data = Observations.of(sp.csr_array((16242, 3), dtype=np.uint8))
    first, second = data.split(0.7, seed=0)
    assert (len(first), len(second)) == (11369, 4873)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 1.5, NAN, 0.3, np.inf])
def test_split_needs_two_parts(fraction: float) -> None:
    with pytest.raises(InvalidSettingError, match="leaves no row in one part of 3 rows"):
        Observations.of(SAMPLE).split(fraction, seed=0)


def test_shuffled_is_a_seeded_permutation() -> None:
    data = Observations.of(np.eye(20))
    mixed = data.shuffled(5)
    order = np.random.default_rng(5).permutation(20)
    np.testing.assert_array_equal(mixed.row_ids, order)
    np.testing.assert_array_equal(mixed.to_dense(), np.eye(20)[order])


# ---- other forms


def test_csr_is_independent_and_canonical() -> None:
    data = Observations.of(SAMPLE)
    csr = data.take(slice(0, 3)).to_csr()
    assert isinstance(csr, sp.csr_array)
    assert (csr.shape, csr.dtype, csr.has_canonical_format) == ((3, 4), np.uint8, True)
    assert csr.indices.dtype == csr.indptr.dtype == np.int32  # scikit-learn wants these
    csr.indices[:] = 0
    assert data.columns.tolist() == [0, 3, 2]
    assert data.missing_csr().toarray().tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert data.to_dense().dtype == np.float32


def test_column_counts() -> None:
    counts = Observations.of(SAMPLE).column_counts()
    assert counts.dtype == np.int64
    assert counts.tolist() == [1, 0, 1, 1]
    assert Observations.of(np.zeros((2, 3))).column_counts().tolist() == [0, 0, 0]


def test_fingerprint_tells_data_apart() -> None:
    variants = [
        SAMPLE,
        SAMPLE[::-1],
        SAMPLE[:2],
        np.nan_to_num(SAMPLE),
        np.where(np.isnan(SAMPLE), 1, SAMPLE),
        np.where(np.isnan(SAMPLE), SAMPLE, 1 - SAMPLE),
        np.hstack([SAMPLE, np.zeros((3, 1))]),
        np.vstack([SAMPLE, np.zeros((1, 4))]),
        np.array([[1, 0, NAN, 0], [0, 0, 0, 1], [NAN, NAN, 1, 0]]),
        np.array([[1, 0, 0, 1], [0, 0, NAN, 0], [NAN, NAN, 1, 0]]),
    ]
    prints = {Observations.of(values).fingerprint() for values in variants}
    assert len(prints) == len(variants)
    # The format is part of checkpoints: it must not change from one version to the next.
    assert (
        Observations.of(SAMPLE).fingerprint()
        == "40457bc73d894af608d88bda0423db1552fc8a52e61cb8f2e36f218018db262d"
    )


def test_fingerprint_ignores_names_identity_and_shape() -> None:
    labelled = Observations.of(SAMPLE.reshape(3, 2, 2), row_ids=[5, 6, 7], column_names="abcd")
    assert labelled.fingerprint() == Observations.of(SAMPLE).fingerprint()


def test_pickle_round_trip() -> None:
    data = Observations.of(SAMPLE, row_ids=[3, 2, 1]).take(slice(1, 3))
    assert_same(pickle.loads(pickle.dumps(data)), data)


# ---- memory


def peak_of(build: Callable[[], Observations]) -> tuple[Observations, int]:
    tracemalloc.start()
    try:
        data = build()
        return data, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", SPARSE_FORMATS[:5])
def test_sparse_input_is_never_dense(name: str) -> None:
    rng = np.random.default_rng(0)
    keys = rng.choice(2000 * 20000, size=10000, replace=False)
    coo = sp.coo_array((np.ones(10000, np.uint8), np.divmod(keys, 20000)), shape=(2000, 20000))
    X = coo.asformat(name)
    data, peak = peak_of(lambda: Observations.of(X, missing=sp.csr_array(X.shape, dtype=bool)))
    assert data.n_active == 10000
    assert peak < 4e6  # dense: 40 MB even as bytes


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float64])
def test_dense_input_is_read_in_blocks(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisyor.ragged, "BLOCK", 1 << 16)
    X = np.zeros((2000, 5000), dtype=dtype)
    X[::10, ::100] = 1
    data, peak = peak_of(lambda: Observations.of(X))
    assert data.n_active == 200 * 50
    assert peak < 2e6  # one full boolean copy: 10 MB


def test_a_slice_costs_nothing() -> None:
    data = Observations.of(np.ones((500, 1000), dtype=bool))
    part, peak = peak_of(lambda: data.take(slice(100, 400)))
    assert part.n_active == 300_000
    assert peak < 10_000
