from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from noisyor.errors import DatasetNotFoundError, InvalidDataError
from reproduction.datasets import load_tiny20


def content(n_groups: int = 3) -> dict[str, object]:
    words, groups = (np.array([names], dtype=object) for names in (["god", "nasa"], ["rec", "sci"]))
    X = sp.csc_matrix(np.array([[1, 0, 1], [0, 1, 1]], dtype=np.uint8))
    newsgroups = np.array([[1, 2, 2][:n_groups]])
    return {"documents": X, "wordlist": words, "groupnames": groups, "newsgroups": newsgroups}


def test_small_file(tmp_path):
    scipy.io.savemat(tmp_path / "t.mat", content())
    data = load_tiny20(tmp_path / "t.mat")
    assert data.words == data.observations.column_names == ("god", "nasa")
    assert data.observations.to_dense().tolist() == [[1, 0], [0, 1], [1, 1]]
    assert data.groups.tolist() == [0, 1, 1]
    assert data.group_names == ("rec", "sci")


def test_real(real_data):
    data = load_tiny20()
    assert (data.observations.n_rows, data.observations.n_visible) == (16_242, 100)
    assert data.observations.n_active == 65_451
    assert data.words[:2] == ("aids", "baseball")
    assert len(data.groups) == 16_242
    assert np.bincount(data.groups).tolist() == [4_605, 3_519, 2_657, 5_461]
    assert [name[:3] for name in data.group_names] == ["com", "rec", "sci", "tal"]
    # Words tell the groups apart: nasa belongs to sci.
    nasa = data.observations.to_csr().tocsc()[:, [data.words.index("nasa")]].indices
    assert np.bincount(data.groups[nasa]).argmax() == 2


@pytest.mark.parametrize("kept", [0, 40, 200, 500])
def test_cut_short(tmp_path, kept):
    scipy.io.savemat(tmp_path / "t.mat", content())
    whole = (tmp_path / "t.mat").read_bytes()
    (tmp_path / "t.mat").write_bytes(whole[:kept])
    with pytest.raises(InvalidDataError, match=r"t\.mat: not the tiny20 file") as caught:
        load_tiny20(tmp_path / "t.mat")
    assert "\n" not in str(caught.value)


def test_other_content(tmp_path):
    scipy.io.savemat(tmp_path / "t.mat", {"documents": np.eye(2)})
    with pytest.raises(InvalidDataError, match="wordlist"):
        load_tiny20(tmp_path / "t.mat")
    scipy.io.savemat(tmp_path / "t.mat", content(n_groups=2))
    with pytest.raises(InvalidDataError, match="2 groups of 3 documents"):
        load_tiny20(tmp_path / "t.mat")


def test_no_file(tmp_path):
    with pytest.raises(DatasetNotFoundError):
        load_tiny20(tmp_path / "none.mat")
