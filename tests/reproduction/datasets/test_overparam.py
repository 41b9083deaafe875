from __future__ import annotations

import tarfile

import numpy as np
import pytest

from noisyor.errors import DatasetNotFoundError, InvalidDataError, InvalidSettingError
from reproduction.datasets import OVPM_NAMES, load_ovpm
from reproduction.datasets.download import FILES, DataFile
from reproduction.datasets.tables import original_files


def layout(folder, name: str = "IMG", width: int = 64, n: int = 5):
    """A small data set in the original layout, with its quirks of white space."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n, width))
    weights, priors, noise = rng.random((8, width)), rng.random(8), rng.random(width)
    samples, *params = (folder / file for file in original_files(name))
    samples.parent.mkdir(parents=True)
    params[0].parent.mkdir(parents=True)
    samples.write_text("".join(" ".join(map(str, row)) + " \n" for row in X))
    params[0].write_text("".join("\t" + " \t".join(map(str, row)) + "\n" for row in weights))
    for file, values in ((params[1], priors), (params[2], noise)):
        file.write_text(f"{len(values)}\n" + "".join(f"{value}\n" for value in values))
    return X, weights, priors, noise


def assert_same(one, other):
    assert one.observations.fingerprint() == other.observations.fingerprint()
    assert one.image_shape == other.image_shape
    for field in ("failure", "prior", "noise_failure"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


class TestOriginalLayout:
    @pytest.mark.parametrize("deep", ["", "noisyor/datasets", "noisyor/datasets/IMG"])
    def test_folder(self, tmp_path, deep):
        X, weights, priors, noise = layout(tmp_path)
        data = load_ovpm("IMG", tmp_path / deep)
        assert data.name == "IMG"
        assert data.image_shape == data.observations.shape == (8, 8)
        np.testing.assert_array_equal(data.observations.to_dense(), X)
        np.testing.assert_array_equal(data.failure, weights)
        np.testing.assert_array_equal(data.prior, priors)
        np.testing.assert_array_equal(data.noise_failure, noise)

    def test_archive_and_arrays(self, tmp_path):
        X, weights, priors, noise = layout(tmp_path, "PLNT", width=70)
        with tarfile.open(tmp_path / "a.tar.xz", "w:xz") as archive:
            archive.add(tmp_path / "noisyor", "noisyor")
        arrays = {"samples": X, "weights": weights, "priors": priors, "noise": noise}
        np.savez(tmp_path / "a.npz", **arrays)
        data = load_ovpm("PLNT", tmp_path / "a.npz")
        assert data.image_shape is None
        assert_same(data, load_ovpm("PLNT", tmp_path / "a.tar.xz"))

    def test_downloaded_file_by_file(self, server, cache, monkeypatch):
        served, address = server
        layout(served, "IMG-FLIP")
        for name in original_files("IMG-FLIP"):
            file = DataFile(name, None, address + name, "https://example.org")
            monkeypatch.setitem(FILES, name, file)
        data = load_ovpm("IMG-FLIP")
        assert_same(data, load_ovpm("IMG-FLIP", served))
        assert_same(data, load_ovpm("IMG-FLIP", cache))

    def test_names_alike_are_told_apart(self, tmp_path):
        layout(tmp_path, "IMG-FLIP")
        with pytest.raises(InvalidDataError, match="no samples of IMG"):
            load_ovpm("IMG", tmp_path)


class TestReal:
    @pytest.mark.parametrize("name", OVPM_NAMES)
    def test_both_forms_are_the_same(self, real_data, name):
        data = load_ovpm(name)
        width = 70 if name == "PLNT" else 64
        assert (data.observations.n_rows, data.observations.n_visible) == (10_000, width)
        assert data.failure.shape == (8, width)
        assert_same(data, load_ovpm(name, real_data / "overparam_noisyor_datasets_raw.tar.xz"))

    @pytest.mark.parametrize("name", ["IMG", "PLNT", "UNIF", "CON8", "CON24"])
    def test_the_parameters_explain_the_samples(self, real_data, name):
        data = load_ovpm(name)
        off = data.noise_failure * np.prod(1 - data.prior[:, None] * (1 - data.failure), axis=0)
        share = data.observations.column_counts() / 10_000
        error = np.sqrt(off * (1 - off) / 10_000)
        assert np.abs((share - (1 - off)) / error).max() < 5


class TestFaults:
    def test_unknown_name(self):
        with pytest.raises(InvalidSettingError, match="IMG-FLIP"):
            load_ovpm("img")

    def test_nowhere(self, monkeypatch, tmp_path):
        name = original_files("UNIF")[0]
        file = DataFile(name, None, "http://127.0.0.1:9/unif", "https://example.org")
        monkeypatch.setitem(FILES, name, file)
        with pytest.raises(DatasetNotFoundError, match=r"http://127\.0\.0\.1:9/unif"):
            load_ovpm("UNIF")
        with pytest.raises(DatasetNotFoundError, match="does not exist"):
            load_ovpm("UNIF", tmp_path / "none")

    @pytest.mark.parametrize(
        ("file", "content", "message"),
        [
            (0, "1 0\n1\n", r"raw_samples_n10000_s0.* row 2"),
            (0, "1 0\n\n1 x\n", r"'x'"),
            (0, "", "is empty"),
            (0, "1 0\n", "weights has shape"),
            (0, " ".join(["2"] * 64), "2"),
            (1, "0.5\n" * 8, "weights has shape"),
            (1, ("1.5 " * 64 + "\n") * 8, "no probabilities"),
            (1, ("nan " * 64 + "\n") * 8, "no probabilities"),
            (2, "7\n" + "0.5\n" * 8, r"priors\.txt: line 1 is not the number"),
            (3, "0.5 0.5\n", "line 1 is not the number"),
        ],
    )
    def test_files(self, tmp_path, file, content, message):
        layout(tmp_path)
        (tmp_path / original_files("IMG")[file]).write_text(content)
        with pytest.raises(InvalidDataError, match=message) as caught:
            load_ovpm("IMG", tmp_path)
        assert "\n" not in str(caught.value)

    def test_missing_and_double_files(self, tmp_path):
        layout(tmp_path)
        samples, *_, noise = (tmp_path / file for file in original_files("IMG"))
        content = noise.read_text()
        noise.unlink()
        with pytest.raises(InvalidDataError, match="no noise of IMG"):
            load_ovpm("IMG", tmp_path)
        noise.write_text(content)
        samples.with_name("more").write_text(samples.read_text())
        with pytest.raises(InvalidDataError, match="a second file of samples"):
            load_ovpm("IMG", tmp_path)

    @pytest.mark.parametrize("kept", [0, 100, 400])
    def test_arrays_cut_short(self, tmp_path, kept):
        file = tmp_path / "a.npz"
        np.savez(file, samples=np.zeros((4, 64)), weights=np.zeros(3))
        with pytest.raises(InvalidDataError, match="no array 'priors'"):
            load_ovpm("IMG", file)
        file.write_bytes(file.read_bytes()[:kept])
        with pytest.raises(InvalidDataError, match="damaged or incomplete"):
            load_ovpm("IMG", file)

    def test_pixels_that_are_no_image(self, tmp_path):
        layout(tmp_path, width=70)
        with pytest.raises(InvalidDataError, match="no image"):
            load_ovpm("IMG", tmp_path)
