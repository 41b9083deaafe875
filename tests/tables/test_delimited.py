"""Matrices in CSV and TSV files, lists of items, and pairs."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import pytest
from table_examples import COLUMNS, EXPECTED, NAMES, X, rows_of, table, tags, written

import noisyor as nor
from noisyor.cli.common import as_flags
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables import ReadOptions
from noisyor.tables.table import read_table


@pytest.mark.parametrize(("name", "delimiter"), [("d.csv", ","), ("d.csv", ";"), ("d.csv", "|")])
def test_csv_with_names(name, delimiter):
    found = rows_of(written(name, table(delimiter)), id_column="animal")
    assert found.observations.fingerprint() == EXPECTED.fingerprint()
    assert found.observations.column_names == COLUMNS
    assert found.row_names == NAMES
    assert found.format == "csv"


def test_tsv():
    found = rows_of(written("d.tsv", table("\t", quote="")), id_column="0")
    assert found.observations.column_names == COLUMNS
    assert found.row_names == NAMES


def test_without_a_header():
    text = "\n".join(",".join(map(str, row)) for row in X)
    found = rows_of(written("d.csv", text))
    assert found.observations.fingerprint() == EXPECTED.fingerprint()
    assert found.observations.column_names is None
    text = "0,1\n1,1\n0,1\n"  # names that look like values
    assert rows_of(written("d.csv", text)).observations.n_rows == 3
    assert rows_of(written("d.csv", text), header=True).observations.column_names == ("0", "1")


def test_a_frame_written_with_its_labels():
    import pandas

    pandas.DataFrame(X, columns=list(COLUMNS), index=list(NAMES)).to_csv("d.csv")
    found = rows_of("d.csv")
    assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)
    pandas.DataFrame(X).to_csv("d.csv", index=False)  # names 0, 1, 2, 3
    assert rows_of("d.csv").observations.fingerprint() == EXPECTED.fingerprint()


def test_missing_entries_and_other_spellings():
    found = rows_of(written("d.csv", "a,b,c\n1, NA,?\n,0.0,True\nno,YES,nan\n"))
    dense = found.observations.to_dense()
    expected = [[1, np.nan, np.nan], [np.nan, 0, 1], [0, 1, np.nan]]
    np.testing.assert_array_equal(dense, expected)


def test_columns_can_be_dropped():
    found = rows_of(written("d.csv", table()), drop=("animal", "eggs"))
    assert found.observations.column_names == ("hair", "milk", "legs, four")


def test_a_threshold():
    found = rows_of(written("d.csv", "a,b\n0.2,3\n,-1\n"), above=0.5)
    np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1], [np.nan, 0]])


@pytest.mark.parametrize("packer", [gzip.compress, lzma.compress])
def test_compressed(packer):
    found = rows_of(written("d.csv.packed", packer(table().encode())), format="csv", drop=("0",))
    assert found.observations.fingerprint() == EXPECTED.fingerprint()


def test_rows_of_a_repository_without_a_header_are_no_header():
    text = "party,y,n,y,n,y\nother,n,n,y,?,y\nparty,y,y,n,n,n\n"
    path = written("votes.csv", text)
    with pytest.raises(InvalidDataError, match=r"column '0'.*ReadOptions\(id_column='0'\)"):
        rows_of(path)
    found = rows_of(path, id_column="0", truth="y/n").observations
    assert (found.n_rows, found.n_visible, found.n_missing) == (3, 5, 1)


def test_all_columns_that_are_not_binary_are_named_at_once():
    text = "animal,hair,class,legs\nbear,1,mammal,4\nbee,1,insect,6\nwren,0,bird,2\n"
    path = written("d.csv", text)
    with pytest.raises(InvalidDataError) as error:
        rows_of(path)
    message = as_flags(str(error.value))
    assert "line 2, column 'animal'" in message
    assert "--drop animal,class,legs" in message or "--drop animal,class" in message
    assert rows_of(path, drop=("animal,class,legs",)).observations.column_names == ("hair",)


def test_names_that_repeat_are_made_distinct():
    with pytest.warns(RuntimeWarning, match=r"a \(2\)"):
        found = rows_of(written("d.csv", "a,b,a,c,d\n1,0,1,0,1\n"))
    assert found.observations.column_names == ("a", "b", "a (2)", "c", "d")


def test_a_column_of_texts_makes_documents():
    text = 'title,text,label\none,"the cat sat",3\ntwo,"a dog sat down",4\nthree,"cat and dog",5\n'
    found = rows_of(written("d.csv", text))
    assert found.documents
    assert set(found.observations.column_names) == {"cat", "dog", "sat"}
    assert found.row_names == ("one", "two", "three")
    assert "sat" not in rows_of("d.csv", drop=("sat",)).observations.column_names
    # A 0/1 column of that name is data.
    assert not rows_of(written("d.csv", "text,image\n1,0\n0,1\n")).documents
    with pytest.raises(InvalidDataError, match="truth='y/n'"):
        rows_of(written("d.csv", "text,image\ny,n\nn,y\n"))


def test_options_by_keyword():
    path = written("d.csv", "a,b,c\n3,0,x\n0,2,y\n")
    found = read_table(path, above=0, drop="c").observations
    np.testing.assert_array_equal(found.to_dense(), [[1, 0], [0, 1]])
    with pytest.raises(InvalidSettingError, match="bove"):
        read_table(path, abov=0)


# ---- lists of items


def test_a_table_is_no_list_of_baskets():
    with pytest.raises(InvalidDataError, match="format='csv'"):
        rows_of(written("d.csv", "a,b\n1,0\n0,1\n"), format="baskets")
    assert rows_of(written("e.csv", "a,b\n\n0,1,2\n"), format="baskets").observations.n_visible == 5


def test_baskets():
    text = "\n".join(",".join(f'"{tag}"' for tag in row) for row in tags())
    found = rows_of(written("d.csv", text), format="baskets")
    order = [found.observations.column_names.index(name) for name in COLUMNS]
    np.testing.assert_array_equal(found.observations.to_dense()[:, order], X)
    assert found.observations.column_names[:2] == ("eggs", "hair")  # the most frequent


def test_the_most_frequent_items():
    found = rows_of(written("d.baskets", "a,b\na\na,b,c\n"), vocabulary=2)
    assert found.observations.column_names == ("a", "b")
    assert found.observations.n_active == 5


# ---- pairs

PAIRS = "ann,milk\nben,beer\nann,bread\nben,milk\nann,milk\n"


def read_pairs(text: str, **options):
    return read_table(written("d.csv", text), ReadOptions(format="pairs", **options))


@pytest.mark.parametrize("header", ["", "user,item\n"])
def test_rows_and_items(header):
    table = read_pairs(header + PAIRS)
    assert table.row_names == ("ann", "ben")
    assert table.observations.column_names == ("milk", "beer", "bread")
    assert table.observations.to_dense().tolist() == [[1, 0, 1], [1, 1, 0]]


def test_columns_of_pairs_by_name():
    text = "when;what;who\n1;A;u\n4;B;v\n"
    table = read_pairs(text, id_column="who", text_field="what")
    assert table.row_names == ("u", "v")
    assert table.observations.column_names == ("A", "B")
    assert table.observations.to_dense().tolist() == [[1, 0], [0, 1]]
    with pytest.raises(InvalidSettingError, match="threshold"):
        read_pairs(text, id_column="who", text_field="what", above=3)


def test_the_columns_of_a_model():
    network = nor.bipartite(2, 1, visible_names=["bread", "milk"])
    table = read_table(written("d.pairs", PAIRS), None, network)
    assert np.array_equal(table.observations.to_dense(), [[1, 1], [0, 1]])
    assert table.ignored == 1


def test_what_is_no_pair():
    with pytest.raises(InvalidDataError, match="pair"):
        read_pairs("milk\nbeer\n")
    with pytest.raises(InvalidDataError, match=r"ReadOptions\(format='pairs'\)"):
        read_table(written("e.csv", PAIRS))
