"""Arrays in NumPy and MATLAB files, Parquet columns, folders of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from table_examples import COLUMNS, EXPECTED, NAMES, X, rows_of, written

from noisyor.errors import InvalidDataError, MissingExtraError


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.float32, ">f8", np.int64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(dtype, order):
    np.save("d.npy", np.asarray(X, dtype=dtype, order=order))
    assert rows_of("d.npy").observations.fingerprint() == EXPECTED.fingerprint()


def test_npz_with_names():
    np.savez("d.npz", X=X, columns=COLUMNS, names=NAMES, weights=np.eye(2))
    found = rows_of("d.npz")
    assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)


def test_an_entry_of_an_array_that_is_not_binary_is_named():
    np.savez_compressed("d.npz", X * np.array([[1], [1], [2]]))
    with pytest.raises(InvalidDataError, match=r"row 2, column 1.*got 2"):
        rows_of("d.npz")


def test_one_of_several():
    np.savez("d.npz", a=X, b=X[:2])
    with pytest.raises(InvalidDataError, match=r"a \(3, 4\), b"):
        rows_of("d.npz")
    assert rows_of("d.npz", variable="b").observations.n_rows == 2
    with pytest.raises(InvalidDataError, match=r"'c'.*a, b"):
        rows_of("d.npz", variable="c")


@pytest.mark.parametrize("build", [sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_sparse(build):
    sp.save_npz("d.npz", build(X))
    assert rows_of("d.npz").observations.fingerprint() == EXPECTED.fingerprint()
    found = rows_of("d.npz", transpose=True)
    np.testing.assert_array_equal(found.observations.to_dense(), X.T)


def test_objects_are_not_unpickled():
    np.save("d.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(InvalidDataError, match=r"(?i)object"):
        rows_of("d.npy")


def test_a_stack_of_images():
    images = np.random.default_rng(0).integers(0, 2, (5, 3, 2))
    np.save("d.npy", images)
    found = rows_of("d.npy").observations
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(found.to_dense(), images.reshape(5, -1))


# ---- MATLAB


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "value", [X, X.astype(float), X.astype(bool), sp.csc_matrix(X.astype(float))]
)
def test_matlab(value, packed):
    words = np.empty((1, 4), dtype=object)
    words[0] = ["hair", "eggs", "milk", "grün"]
    scipy.io.savemat("d.mat", {"X": value, "words": words, "n": 3}, do_compression=packed)
    found = rows_of("d.mat")
    assert found.observations.fingerprint() == EXPECTED.fingerprint()
    assert found.observations.column_names == ("hair", "eggs", "milk", "grün")


def test_matlab_images_and_the_transpose():
    images = np.random.default_rng(0).integers(0, 2, (5, 3, 2)).astype(np.uint8)
    scipy.io.savemat("d.mat", {"images": images})
    found = rows_of("d.mat").observations
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(found.to_dense(), images.reshape(5, -1))
    scipy.io.savemat("d.mat", {"documents": X.T.astype(float)})
    found = rows_of("d.mat", transpose=True)
    assert found.observations.fingerprint() == EXPECTED.fingerprint()


def test_the_file_of_tiny20(data_dir):
    load_tiny20 = pytest.importorskip("reproduction.datasets").load_tiny20

    found = rows_of(data_dir / "20news_w100.mat", transpose=True).observations
    known = load_tiny20(data_dir / "20news_w100.mat").observations
    assert found.fingerprint() == known.fingerprint()
    assert found.column_names == known.column_names


# ---- Parquet


def test_parquet():
    import pandas

    frame = pandas.DataFrame(X, columns=list(COLUMNS))
    frame["milk"] = pandas.array([True, None, False], dtype="boolean")
    frame.insert(0, "animal", NAMES)
    frame.to_parquet("d.parquet")
    found = rows_of("d.parquet", id_column="animal")
    assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)
    assert np.isnan(found.observations.to_dense()[1, 2])
    with pytest.raises(InvalidDataError, match=r"'animal'.*ReadOptions\(id_column='animal'\)"):
        rows_of("d.parquet")


def test_parquet_without_its_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"noisyor\[parquet\]"):
        rows_of(written("d.parquet", "PAR1"))


def test_parquet_columns_that_are_not_numbers_are_named_at_once():
    import pandas

    pandas.DataFrame({"a": ["x", "y"], "b": [0, 1], "c": ["u", "v"]}).to_parquet("d.parquet")
    with pytest.raises(InvalidDataError, match=r"drop=\('a', 'c'\)"):
        rows_of("d.parquet")
    pandas.DataFrame({"a": [2, 3], "b": [0, 1], "c": [5, 0]}).to_parquet("d.parquet")
    with pytest.raises(InvalidDataError, match=r"row 0, column 'a'.*drop=\('a', 'c'\)"):
        rows_of("d.parquet")


def test_parquet_names_that_repeat():
    import pyarrow
    import pyarrow.parquet

    columns = [pyarrow.array([0, 1]), pyarrow.array([1, 1])]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, names=["a", "a"]), "d.parquet")
    with pytest.warns(RuntimeWarning, match=r"a \(2\)"):
        found = rows_of("d.parquet")
    assert found.observations.column_names == ("a", "a (2)")
    np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1], [1, 1]])


# ---- images


@pytest.mark.parametrize("mode", ["L", "1", "RGB", "I;16"])
def test_a_folder(mode):
    from PIL import Image

    images = np.random.default_rng(0).integers(0, 2, (4, 3, 5))
    Path("d").mkdir()
    for number, pixels in enumerate(images):
        if mode == "I;16":
            picture = Image.fromarray((pixels * 65535).astype(np.uint16))
        else:
            picture = Image.fromarray((pixels * 255).astype(np.uint8)).convert(mode)
        picture.save(f"d/{number}.png")
    found = rows_of("d")
    assert (found.format, found.row_names) == ("images", ("0.png", "1.png", "2.png", "3.png"))
    assert found.observations.shape == (3, 5)
    np.testing.assert_array_equal(found.observations.to_dense(), images.reshape(4, -1))
    inverted = rows_of("d", invert=True).observations
    np.testing.assert_array_equal(inverted.to_dense(), 1 - images.reshape(4, -1))
