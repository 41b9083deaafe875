"""Observations: choosing, splitting and joining rows, other forms, and memory."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from observation_checks import NAN, SAMPLE, SPARSE_FORMATS, active, assert_same, matrices

import noisyor._util.arrays
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError

# ---- rows that repeat


@settings(max_examples=80, deadline=None)
@given(values=matrices(0, 1, NAN, max_side=6), choice=st.data())
def test_merged_rows_are_those_of_numpy(values: np.ndarray, choice: st.DataObject) -> None:
    n_rows = len(values)
    values = values[choice.draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=20))]
    weights = choice.draw(st.none() | hnp.arrays(float, len(values), elements=st.floats(0.5, 9)))
    whole = Observations.of(values, row_ids=np.arange(len(values)) + 100).with_weights(weights)
    whole = whole.take(slice(len(values) // 3, None))  # pointers not from 0
    distinct, index = whole.unique_rows()

    dense = whole.to_dense()
    codes = np.where(np.isnan(dense), 2, dense)
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(distinct.row_ids, whole.row_ids[np.sort(first)])
    np.testing.assert_array_equal(distinct.to_dense()[index], dense)
    summed = np.bincount(inverse.ravel(), whole.row_weights)[np.argsort(first)]
    np.testing.assert_allclose(distinct.row_weights, summed, rtol=1e-12)


def test_distinct_rows_are_not_copied() -> None:
    rows = Observations.of(np.eye(3))
    same, index = rows.unique_rows()
    assert same is rows
    np.testing.assert_array_equal(index, [0, 1, 2])


# ---- selections


@settings(max_examples=60, deadline=None)
@given(values=matrices(0, 1, NAN, max_side=8), choice=st.data())
def test_take_agrees_with_indexing(values: np.ndarray, choice: st.DataObject) -> None:
    n_rows = len(values)
    whole = Observations.of(values, row_ids=np.arange(n_rows) + 100)
    start = choice.draw(st.integers(0, n_rows - 1))
    data, values = whole.take(slice(start, None)), values[start:]  # pointers not from 0
    n_rows -= start
    index = st.integers(-n_rows, n_rows - 1)
    rows = choice.draw(
        st.one_of(
            st.slices(n_rows),
            st.lists(index, min_size=1, max_size=10),
            hnp.arrays(bool, n_rows),
        )
    )
    expected = values[rows]
    if not len(expected):
        with pytest.raises(InvalidDataError, match="empty"):
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
    with pytest.raises(InvalidDataError, match=r"part 1 .*\(3,\), expected \(4,\)"):
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


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 1.5, NAN, 0.3, np.inf])
def test_split_needs_two_parts(fraction: float) -> None:
    with pytest.raises(InvalidSettingError, match=r"no row.* 3 rows"):
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
    monkeypatch.setattr(noisyor._util.arrays, "BLOCK", 1 << 16)
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
