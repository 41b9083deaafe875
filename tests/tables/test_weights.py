"""A column of weights: how many rows each one stands for."""

from __future__ import annotations

import numpy as np
import pytest
from table_examples import written

import noisyor as nor
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables import ReadOptions
from noisyor.tables.table import read_table

NAMES, ROWS, COUNTS = ("a", "b", "c"), [(1, 0, 1), (0, 1, 1), (0, 0, 0)], (3, 0, 2.5)


def csv(counts=COUNTS, header=True):
    lines = ["row,a,n,b,c"] if header else []
    lines += [
        f"r{k},{row[0]},{count},{row[1]},{row[2]}"
        for k, (row, count) in enumerate(zip(ROWS, counts, strict=True))
    ]
    return "\n".join(lines) + "\n"


def parquet(name):
    pa = pytest.importorskip("pyarrow")
    columns = dict(zip(NAMES, np.transpose(ROWS).tolist(), strict=True))
    columns |= {"n": list(COUNTS), "row": ["r0", "r1", "r2"]}
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), name)
    return name


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (lambda: written("d.csv", csv()), {"weights": "n", "id_column": "row"}),
        (lambda: written("d.csv", csv(header=False)), {"weights": "2", "id_column": "0"}),
        (lambda: written("d.tsv", csv().replace(",", "\t")), {"weights": "n", "id_column": "row"}),
        (lambda: parquet("d.parquet"), {"weights": "n", "id_column": "row"}),
    ],
)
def test_rows_have_the_weights_of_the_column_and_those_of_weight_zero_are_left_out(write, options):
    found = read_table(write(), ReadOptions(**options))
    assert found.row_names == ("r0", "r2")
    np.testing.assert_array_equal(found.observations.to_dense(), [ROWS[0], ROWS[2]])
    np.testing.assert_array_equal(found.observations.weights, [3, 2.5])


def test_weights_stay_with_the_rows_in_the_columns_of_a_model():
    network = nor.bipartite(2, 1, visible_names=["c", "a"])
    options = ReadOptions(weights="n", id_column="row")
    found = read_table(written("d.csv", csv()), options, network).observations
    np.testing.assert_array_equal(found.to_dense(), [[1, 1], [0, 0]])
    np.testing.assert_array_equal(found.weights, [3, 2.5])


@pytest.mark.parametrize("count", ["-1", "nan", "inf", "", "many", "x" * 90])
def test_a_weight_is_a_number_of_rows(count):
    path = written("d.csv", csv((3, count, 2)))
    message = "line 3: .*weight.*'"
    with pytest.raises(InvalidDataError, match=message) as error:
        read_table(path, ReadOptions(weights="n", id_column="row"))
    assert len(str(error.value)) < 200


def test_files_without_weights():
    plain = written("d.csv", "a,b\n1,0\n")
    with pytest.raises(InvalidDataError, match=r"weights.*'n'"):
        read_table(plain, ReadOptions(weights="n"))
    optional = ReadOptions(weights="n", weights_required=False)
    assert read_table(plain, optional).observations.weights is None
    with pytest.raises(InvalidDataError, match="weight 0"):
        read_table(written("d.csv", csv((0, 0, 0))), ReadOptions(weights="n", id_column="row"))
    with pytest.raises(InvalidSettingError, match=r"weights.*baskets"):
        read_table(written("d.baskets", "3,milk\n"), ReadOptions(weights="0"))
