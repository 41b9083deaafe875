"""What tests of observations share: small matrices, and equality of everything that counts."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noisyor.data.observations import Observations

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
