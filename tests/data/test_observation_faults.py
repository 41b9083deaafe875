"""Observations: every fault of an input is named, with its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from observation_checks import SAMPLE, active

from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, NoisyOrError, UnsupportedDataError

# ---- faults in values


@pytest.mark.parametrize("bad", [2, -1, 0.5, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_array, pd.DataFrame])
def test_bad_values_are_named(bad: float, form: Callable[[Any], Any], block_size: int) -> None:
    values = np.zeros((9, 4))
    values[3, 1] = 1
    values[3, 2] = values[7, 0] = bad
    message = rf"^row 3, column 2: .* got {bad:g} \(2 bad values in all, in 2 columns\); "
    with pytest.raises(InvalidDataError, match=message.replace("+", r"\+")) as error:
        Observations.of(form(values))
    assert ("is missing" if bad == -1 else "X > 0 turns counts") in str(error.value)
    values[7, 0] = 1
    with pytest.raises(InvalidDataError, match=r"\(1 bad value in all\)"):
        Observations.of(form(values))
    values[3, 2] = 0
    assert active(Observations.of(form(values))).tolist() == [1, 0]


def test_bad_values_name_the_column() -> None:
    values = np.zeros((4, 3), dtype=np.int16)
    values[3, 2] = 2
    names = ["cough", "rash", "fever"]
    message = r"row 3, column 'fever' \(2\): .* got 2 "
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
        ([[0, 1], [1, 0]], "np.asarray.*from_indices"),
        (([1], [0, 2]), "tuple"),
        ({"a": [1]}, "dict"),
        ("0101", "read_table"),
        (None, "NoneType"),
        (np.array([[None, 1]]), "object"),
        (np.array([["0", "1"]]), "<U1"),
        (np.zeros((1, 2), complex), "complex128"),
        (sp.csr_array(np.zeros((1, 2), complex)), "complex128"),
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
        (np.zeros(5), r"\(5,\): X.reshape\(1, -1\)"),
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
    with pytest.raises(InvalidDataError, match="4 columns, expected 5"):
        Observations.of(form(SAMPLE), n_visible=5)
    assert Observations.of(form(SAMPLE), n_visible=4).n_visible == 4


def test_malformed_sparse_matrix() -> None:
    csr = sp.csr_array(np.eye(3))
    csr.indices[1] = 3
    with pytest.raises(InvalidDataError, match="the sparse matrix"):
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
    with pytest.raises(InvalidDataError, match="missing, row 1: column 7"):
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
        ({"ptr": [0, 2, 1, 3]}, "pointers must not decrease"),
        ({"ptr": [0, 2, 2, 4]}, "pointers must not decrease, nor point outside"),
        ({"ptr": [-1, 2, 2, 3]}, "pointers must not decrease, nor point outside"),
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


def test_nulls_of_other_frames_are_missing() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [True, None, False], "b": [1, 0, None]})
    rows = Observations.of(frame)
    assert rows.column_names == ("a", "b")
    assert np.array_equal(rows.to_dense(), [[1, 1], [np.nan, 0], [0, np.nan]], equal_nan=True)
    with pytest.raises(UnsupportedDataError, match="column 'a' has type String"):
        Observations.of(polars.DataFrame({"a": ["y", None]}))


@pytest.mark.parametrize("weights", [["a", "b"], [1e308, 1e308], [9e14, 9e14], [1, np.nan], [1], 0])
def test_weights_are_positive_numbers_of_a_sensible_size(weights) -> None:
    rows = Observations.of(np.eye(2))
    with pytest.raises(NoisyOrError, match="weights"):
        rows.with_weights(weights)
