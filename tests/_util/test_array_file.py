from __future__ import annotations

import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from noisyor._util.array_file import open_npy, open_npz, read_arrays, read_sparse
from noisyor.errors import InvalidDataError

X = np.arange(12.0).reshape(3, 4)


def edited(path, old: bytes, new: bytes):
    """The file with some bytes of its header replaced by as many others."""
    assert len(old) == len(new)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    return path


@pytest.fixture
def npy(tmp_path):
    np.save(tmp_path / "a.npy", X)
    return tmp_path / "a.npy"


class TestNpy:
    def test_is_mapped_into_memory(self, npy):
        array = open_npy(npy)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, X)

    def test_nothing_to_map(self, tmp_path):
        np.save(tmp_path / "a.npy", np.zeros((0, 4)))
        assert open_npy(tmp_path / "a.npy").shape == (0, 4)

    def test_a_size_that_is_not_there(self, npy):
        with pytest.raises(InvalidDataError, match=r"announces 3,168 bytes of data, there are 96"):
            open_npy(edited(npy, b"(3, 4), ", b"(99, 4),"))

    def test_cut_short_and_too_long(self, npy):
        content = npy.read_bytes()
        for wrong in (content[:-1], content + b"more", content[:40], content[:3]):
            npy.write_bytes(wrong)
            with pytest.raises(InvalidDataError, match=r"a\.npy: damaged or incomplete"):
                open_npy(npy)

    def test_a_header_that_is_no_dictionary(self, npy):
        with pytest.raises(InvalidDataError, match=r"a\.npy: damaged or incomplete"):
            open_npy(edited(npy, b"{'descr'", b"{{{desc'"))

    def test_a_negative_size(self, npy):
        with pytest.raises(InvalidDataError, match=r"damaged, its shape is \(-3, -4\)"):
            open_npy(edited(npy, b"(3, 4), }  ", b"(-3, -4), }"))

    def test_objects(self, npy):
        np.save(npy, np.array([{}], dtype=object))
        with pytest.raises(InvalidDataError, match="Python objects"):
            open_npy(npy)


class TestNpz:
    def test_shapes_and_content(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", x=X, y=["a"], z=np.array([{}], dtype=object))
        with open_npz(tmp_path / "a.npz") as arrays:
            assert arrays.shapes == {"x": (3, 4), "y": (1,)}
            np.testing.assert_array_equal(arrays.read("x"), X)
            with pytest.raises(InvalidDataError, match="no array 'z'; there are x, y"):
                arrays.read("z")

    def test_optional_arrays(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=X)
        assert set(read_arrays(tmp_path / "a.npz", ("x",), ("y",))) == {"x"}

    @pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    def test_an_array_that_announces_more_than_the_archive_holds(self, npy, tmp_path, compression):
        edited(npy, b"(3, 4), ", b"(99, 4),")
        with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
            archive.write(npy, "x.npy")
        message = r"a\.npz, array 'x': damaged .* 3,168 bytes, the archive has room for 96\)"
        with pytest.raises(InvalidDataError, match=message):
            read_arrays(tmp_path / "a.npz", ("x",))

    def test_an_archive_of_something_else(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("[Content_Types].xml", "")
        with pytest.raises(InvalidDataError, match="office document"):
            read_arrays(tmp_path / "a.npz", ("x",))


class TestSparse:
    @pytest.mark.parametrize("build", [sp.csr_array, sp.csc_array, sp.csc_matrix])
    def test_comes_back(self, tmp_path, build):
        sp.save_npz(tmp_path / "a.npz", build(X))
        np.testing.assert_array_equal(read_sparse(tmp_path / "a.npz").toarray(), X)

    def test_other_layouts(self, tmp_path):
        sp.save_npz(tmp_path / "a.npz", sp.coo_array(X))
        with pytest.raises(InvalidDataError, match=r"a\.npz: no array 'ind"):
            read_sparse(tmp_path / "a.npz")
        sp.save_npz(tmp_path / "a.npz", sp.bsr_array(X))
        with pytest.raises(InvalidDataError, match=r"layout 'bsr'; save it with \.tocsr"):
            read_sparse(tmp_path / "a.npz")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"shape": [9, 4]}, "indptr has 4 entries, expected 10"),
            ({"shape": [3, 10**12]}, "3 rows and 1000000000000 columns for 11 entries"),
            ({"indices": np.full(11, 7)}, "damaged or incomplete"),
            ({"indptr": [0, 4, 2, 11]}, "damaged or incomplete"),
            ({"shape": [3]}, "damaged|layout"),
        ],
    )
    def test_arrays_that_do_not_fit(self, tmp_path, change, message):
        csr = sp.csr_array(X)
        arrays = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        arrays |= {"shape": csr.shape, "format": "csr"} | change
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(InvalidDataError, match=message) as caught:
            read_sparse(tmp_path / "a.npz")
        assert "a.npz" in str(caught.value)
