"""Words for 0 and 1, and hints that are right."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
from table_examples import written

from noisyor.cli.common import as_flags
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables import ReadOptions
from noisyor.tables.hints import cell_hint
from noisyor.tables.options import parse_truth
from noisyor.tables.table import read_table

NAN = np.nan


def dense(path, **options):
    return read_table(path, ReadOptions(**options)).observations.to_dense().tolist()


def refusal(path, **options) -> str:
    with pytest.raises(InvalidDataError) as error:
        read_table(path, ReadOptions(**options))
    return as_flags(str(error.value))


@pytest.mark.parametrize(
    ("truth", "text", "expected"),
    [
        ("y/n", "a,b\ny,n\nN,Y\n", [[1, 0], [0, 1]]),
        ("T/F", "t,f\nF,T\n", [[1, 0], [0, 1]]),
        ("x/", "a,b\nx,\n,X\n", [[1, 0], [0, 1]]),
        ("1/", "a,b\n1,\n,1\n", [[1, 0], [0, 1]]),
        ("2/1", "a,b\n2,1\n1.0,2\n", [[1, 0], [0, 1]]),
        ("y,yes/n,no", "a,b\nyes,n\nno,y\n", [[1, 0], [0, 1]]),
    ],
)
def test_words_of_a_file(truth, text, expected):
    assert dense(written("d.csv", text), truth=truth) == expected


def test_what_is_missing_stays_missing():
    found = dense(written("d.csv", "a,b,c\ny,?,n\nn,y,99\n"), truth="y/n/99")
    assert np.array_equal(found, [[1, NAN, 0], [0, 1, NAN]], equal_nan=True)
    ask = "expected 'y', 'n' or missing, got 'maybe'"
    assert ask in refusal(written("d.csv", "a,b\ny,n\nn,maybe\n"), truth="y/n")


def test_numbers_in_other_formats():
    content = np.array([[1.0, 0.0, -999.0], [0.0, NAN, 1.0]])
    np.save("d.npy", content)
    expected = [[1, 0, NAN], [0, NAN, 1]]
    assert np.array_equal(dense("d.npy", truth="1/0/-999"), expected, equal_nan=True)


@pytest.mark.parametrize("text", ["", "y", "/n", "y/n/?/x", "y,/n", "y/y", "a/b/a", "1/0/0"])
def test_words_that_make_no_sense(text):
    with pytest.raises(InvalidSettingError, match="truth is the words for 1"):
        parse_truth(text)
    with pytest.raises(InvalidSettingError, match="truth"):
        ReadOptions(truth=text)


def test_a_threshold_has_no_words():
    with pytest.raises(InvalidSettingError, match="exclude each other"):
        ReadOptions(truth="y/n", above=0)


def test_a_table_of_ones_and_blanks_is_asked_about():
    path = written("d.csv", "a,b\n1,\n,1\n")
    assert "--truth 1/ says that a blank is 0" in refusal(path)
    assert np.array_equal(dense(path, truth="1/0"), [[1, NAN], [NAN, 1]], equal_nan=True)
    np.save("d.npy", [[1.0, NAN]])
    assert "none is 0" in refusal("d.npy")
    # A model knows better: what is not stated of one more row is unknown.
    model = read_table(written("e.csv", "a,b\n1,0\n0,1\n")).observations
    assert read_table(path, None, network_of(model)).observations.n_missing == 2


def network_of(rows):
    import noisyor as nor

    return nor.bipartite(rows.n_visible, 1, visible_names=rows.column_names)


@pytest.mark.parametrize(
    ("cells", "hint"),
    [
        (["y", "n", "y"], "--truth y/n"),
        (["N", "Y"], "--truth Y/N"),
        (["x", "", "x"], "if x stands for 1 and a blank for 0, give --truth x/"),
        (["2", "1", "2", "1"], "--truth 2/1"),
        (["-999", "1", "0", "1"], "if -999 says that it is missing, give --truth 1/0/-999"),
        (["9", "1", "0", "1"], "--truth 1/0/9"),
        (["2", "3", "4", "5"], "names the rows, give --id-column c"),
        ([str(1000 + 7 * k % 31) for k in range(30)], "names the rows, give --id-column c"),
        ([str(20 + k * k % 47) for k in range(60)], "--above 41 makes"),
        (["3", "0", "1", "2", "0"], "--above 0 turns numbers"),
        (["anna", "ben", "cleo"], "names the rows, give --id-column c"),
        (["red", "blue", "green"] * 4, "it has 3 different words ('red', 'blue', 'green' ...)"),
        (["rep", "dem"] * 4, "if rep stands for 1 and dem for 0, give --truth rep/dem"),
    ],
)
def test_hints(cells, hint):
    text = "b,c\n" + "".join(f"1,{cell}\n" for cell in cells)
    message = refusal(written("d.csv", text))
    assert hint in message
    assert "column 'c'" in message


@pytest.mark.parametrize(("good", "truth"), [("yes,no", "f/m"), ("1,0", "f/m"), ("m,f", "m/f")])
def test_other_columns_keep_the_usual_words(good, truth):
    one, zero = good.split(",")
    path = written("d.csv", "a,b,c\n" + f"{one},{zero},f\n{zero},{one},m\n" * 4)
    assert f"--truth {truth}" in refusal(path)
    assert dense(path, truth=truth)[:2] in ([[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 1]])


def test_usual_words_may_be_given_another_meaning():
    assert dense(written("d.csv", "a,b\n0,1\n1,0\n"), truth="0/1") == [[1, 0], [0, 1]]
    assert "got '0'" in refusal(written("d.csv", "a,b\n2,1\n1,0\n"), truth="2/1")
    assert "got '0'" in refusal(written("d.csv", "a,b\n-1,1\n1,0\n"), truth="1/-1")


def test_numbers_that_came_after_good_rows():
    message = refusal(written("d.csv", "a,b\n1,0\n0,1\n1,-1\n"))
    assert "line 4, column 'b'" in message
    assert "--truth 1/0/-1" in message


@pytest.mark.parametrize(("value", "hint"), [(3, "--above 0"), (-9, "--truth 1/0/-9")])
def test_arrays_get_hints(value, hint):
    scipy.io.savemat("d.mat", {"X": np.array([[value, 0], [1, 1]])})
    assert hint in refusal("d.mat")


def test_a_hint_without_anything_to_go_by():
    assert "drop" in cell_hint("c", ["word"]).text
