"""A row and one of its items on each line."""

from __future__ import annotations

import numpy as np
import pytest
from table_examples import written

import noisyor as nor
from noisyor.errors import InvalidDataError
from noisyor.tables import ReadOptions
from noisyor.tables.read import read_table

PAIRS = "ann,milk\nben,beer\nann,bread\nben,milk\nann,milk\n"


def read(text: str, **options):
    return read_table(written("d.csv", text), ReadOptions(format="pairs", **options))


@pytest.mark.parametrize("header", ["", "user,item\n"])
def test_rows_and_items(header):
    table = read(header + PAIRS)
    assert table.row_names == ("ann", "ben")
    assert table.observations.column_names == ("milk", "beer", "bread")
    assert table.observations.to_dense().tolist() == [[1, 0, 1], [1, 1, 0]]


def test_columns_by_name_and_a_threshold():
    text = "when;what;who;stars\n1;A;u;5\n2;B;u;2\n3;A;v;1\n4;B;v;4\n"
    table = read(text, id_column="who", text_field="what", above=3, drop=("when",))
    assert table.row_names == ("u", "v")
    assert table.observations.column_names == ("A", "B")
    assert table.observations.to_dense().tolist() == [[1, 0], [0, 1]]
    with pytest.raises(InvalidDataError, match="one more column, of numbers, got 2"):
        read(text, id_column="who", text_field="what", above=3)
    with pytest.raises(InvalidDataError, match="line 2: expected a number, got 'many'"):
        read("u,i,n\nu,i,many\n", above=0, header=True)


def test_the_columns_of_a_model():
    network = nor.bipartite(2, 1, visible_names=["bread", "milk"])
    table = read_table(written("d.pairs", PAIRS), None, network)
    assert np.array_equal(table.observations.to_dense(), [[1, 1], [0, 1]])
    assert table.ignored == 1


def test_what_is_no_pair():
    with pytest.raises(InvalidDataError, match="got lines of one field"):
        read("milk\nbeer\n")
    with pytest.raises(InvalidDataError, match=r"ReadOptions\(format='pairs'\)"):
        read_table(written("e.csv", PAIRS))
