"""Observations: every accepted input gives the same object."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from observation_checks import (
    FIELDS,
    NAN,
    SAMPLE,
    SPARSE_FORMATS,
    assert_same,
    matrices,
    unobserved,
)

import noisyor._util.arrays
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError

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


@settings(max_examples=25, deadline=None)
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
    monkeypatch.setattr(noisyor._util.arrays, "BLOCK", 10)
    ptr = np.array([7, 11, 15, 17, 18, 40, 40, 40, 41])
    blocks = list(noisyor._util.arrays.row_blocks(ptr))
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
