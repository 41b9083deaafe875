from __future__ import annotations

import errno
import json
import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from model_files import NETWORKS, assert_same, forge, refused
from safetensors.numpy import save

import noisyor as nor
import noisyor._util.files
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.io.model_file import (
    FORMAT,
    _seal,
    is_sealed,
    load_model,
    load_network,
    save_network,
)
from noisyor.model.builders import bipartite, from_edges

DATA = Path(__file__).parent / "data"


class TestRoundTrip:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_every_bit_comes_back(self, name, tmp_path):
        path = tmp_path / "model.safetensors"
        save_network(path, NETWORKS[name])
        assert_same(load_network(path), NETWORKS[name])
        assert load_model(path).metadata == {}

    def test_extreme_parameters(self, tmp_path):
        network = bipartite(2, 2)
        theta = np.full(network.n_params, 1e-5)
        theta[:4] = [0.0, 5e-324, 1e6, 0.1 + 0.2]
        save_network(tmp_path / "m", network.with_theta(theta))
        assert load_network(tmp_path / "m").theta.tobytes() == theta.tobytes()

    def test_metadata_comes_back(self, model):
        metadata = {"seed": 1, "note": "ü\n", "nested": {"list": [1.5, None, True]}}
        save_network(str(model), NETWORKS["bipartite"], metadata=metadata)
        assert load_model(str(model)).metadata == metadata

    def test_network_and_metadata_in_one_read(self, model, monkeypatch):
        hashed = []
        monkeypatch.setattr(
            "noisyor.io.model_file._seal", lambda told: hashed.append(1) or _seal(told)
        )
        network, metadata = load_model(model)
        assert_same(network, NETWORKS["convolutional"])
        assert metadata == {"seed": 3}
        assert len(hashed) == 1

    def test_same_content_same_bytes(self, tmp_path):
        for name in ("a", "b"):
            save_network(tmp_path / name, NETWORKS["named"], metadata={"x": 1, "a": 2, "m": 3})
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_the_loaded_network_works(self, model):
        from noisyor import explain

        posterior = explain(load_network(model), np.zeros((2, 20)))
        assert posterior.states.shape == (2, NETWORKS["convolutional"].n_hidden)

    @pytest.mark.parametrize(
        "metadata", [{"x": object()}, {"x": float("nan")}, {1: 2}, [1], {"x": np.zeros(2)}]
    )
    def test_metadata_that_json_cannot_hold(self, metadata, tmp_path):
        with pytest.raises(InvalidSettingError, match="metadata"):
            save_network(tmp_path / "m", NETWORKS["bipartite"], metadata=metadata)
        assert not list(tmp_path.iterdir())


class TestFormat2:
    """Files that version 0.1.0 wrote."""

    def test_an_estimator(self):
        found = nor.BooleanMatrixFactorization.load(DATA / "format_2.safetensors")
        assert (found.objective, found.method.icm) == ("mdl", 2)
        assert found.options == {"parameterization": "theta"}
        rows = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]])
        assert found.transform(rows).tolist() == [[0, 0, 1], [1, 1, 0]]
        log_p = nor.inference.log_probability(found.network_, rows).per_row
        np.testing.assert_allclose(log_p, [-2.1762340661077473, -2.4092818559406854])

    def test_sets_of_alternatives(self):
        refused(DATA / "format_2_alternatives.safetensors", "alternatives")

    def test_damage(self, tmp_path):
        content = (DATA / "format_2.safetensors").read_bytes()
        for offset in np.random.default_rng(1).choice(len(content), size=30, replace=False):
            changed = bytearray(content)
            changed[offset] ^= 1
            (tmp_path / "m").write_bytes(changed)
            with suppress(ModelFileError):
                assert load_model(tmp_path / "m").network.n_hidden == 3

    @pytest.mark.parametrize("user", [[], 3, {"objective": [{}]}, {"settings": {"polish": []}}])
    def test_strange_metadata(self, user, model):
        forge(model, description={"format": "noisyor-model-2", "user": user})
        if isinstance(user, dict):
            assert isinstance(load_model(model).metadata, dict)
        else:
            refused(model, "mapping")


class TestDamage:
    @pytest.mark.parametrize("name", ["convolutional", "named", "layered"])
    def test_a_changed_byte_is_noticed_or_harmless(self, name, tmp_path):
        path = tmp_path / "model.safetensors"
        save_network(path, NETWORKS[name], metadata={"seed": 3})
        content = path.read_bytes()
        random = np.random.default_rng(0)
        for offset in random.choice(len(content), size=40, replace=False):
            changed = bytearray(content)
            changed[offset] ^= int(random.integers(1, 256))
            path.write_bytes(changed)
            try:
                network, metadata = load_model(path)
            except ModelFileError:
                continue
            assert_same(network, NETWORKS[name])
            assert metadata == {"seed": 3}

    def test_truncation_anywhere(self, model):
        content = model.read_bytes()
        for length in {*range(0, len(content), 37), 0, 7, 8, 9, len(content) - 1}:
            model.write_bytes(content[:length])
            refused(model, "damaged|cut short")

    def test_appended_bytes(self, model):
        model.write_bytes(model.read_bytes() + b"more")
        refused(model, "announces")

    @pytest.mark.parametrize(
        "content",
        [
            b"\xff" * 8,
            b"\xff" * 4096,
            (2**40).to_bytes(8, "little") + b"{}",
            (2).to_bytes(8, "little") + b"{}",
            (2).to_bytes(8, "little") + b"[]",
            (50_000).to_bytes(8, "little") + b"[" * 50_000,
            b"PK\x03\x04 this is another kind of file altogether",
        ],
    )
    def test_other_files(self, content, tmp_path):
        path = tmp_path / "other.bin"
        path.write_bytes(content)
        refused(path, "not a model file")

    def test_a_safetensors_file_of_something_else(self, tmp_path):
        path = tmp_path / "weights.safetensors"
        path.write_bytes(save({"weight": np.zeros(3)}, metadata={"format": "pt"}))
        refused(path, "not a model file of noisyor")

    def test_another_version(self, model):
        forge(model, description={"format": "noisyor-model-1"})
        refused(model, f"'noisyor-model-1'.*{FORMAT}")

    @pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
    def test_impossible_parameters(self, model, value):
        theta = np.array(NETWORKS["convolutional"].theta)
        theta[2] = value
        forge(model, arrays={"theta": theta})
        refused(model, r"theta\[2\]")

    def test_a_parameter_changed_behind_the_checksum(self, model):
        forge(model, arrays={"theta": NETWORKS["convolutional"].theta * 2}, seal=False)
        refused(model, "checksum of theta")

    def test_a_description_changed_behind_the_checksum(self, model):
        forge(model, description={"user": {"seed": 4}}, seal=False)
        refused(model, "checksum of its description")

    def test_a_cycle(self, tmp_path):
        path = tmp_path / "model.safetensors"
        network = from_edges(1, 2, [(0, 0), (1, 0)], [(0, 1)])
        save_network(path, network)
        # Edges: visible 0 <- hidden 0, 1; hidden 0 <- hidden 1; hidden 1 <- hidden 0.
        forge(
            path,
            arrays={
                "child_ptr": np.array([0, 2, 3, 4]),
                "parent": np.array([0, 1, 1, 0], dtype=np.int32),
                "param": np.array([0, 1, 2, 2], dtype=np.int32),
            },
        )
        refused(path, "cycle")

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"theta": np.zeros(3, dtype=np.float32)}, "theta is float32"),
            ({"parent": np.zeros(3, dtype=np.int64)}, "parent is int64"),
            ({"free": np.zeros((3, 1), dtype=np.bool_)}, r"free is bool of shape \(3, 1\)"),
            ({"free": None}, "its arrays are"),
            ({"extra": np.zeros(1)}, "its arrays are"),
            ({"group.prior": np.array([10**6], dtype=np.int32)}, "outside theta"),
            ({"parent": np.zeros(3, dtype=np.int32)}, "child_ptr"),
            ({"child_ptr": np.array([0, 2**63 - 1, -(2**63), -1, 2])}, "child_ptr"),
        ],
    )
    def test_arrays_of_the_wrong_kind(self, model, arrays, message):
        forge(model, arrays=arrays)
        refused(model, message)

    @pytest.mark.parametrize(
        ("network", "message"),
        [
            ({"n_visible": 10**12}, "size"),
            ({"n_visible": 2**31 - 1}, "child_ptr"),
            ({"n_hidden": "20"}, "size"),
            ({"n_hidden": True}, "size"),
            ({"visible_shape": [5, 5]}, "visible_shape"),
            ({"visible_shape": 20}, "damaged"),
            ({"visible_names": "abc"}, "list of strings"),
            ({"visible_names": ["a"] * 20}, "distinct"),
            ({"hidden_names": ["a", "b"]}, "hidden_names"),
            ({"groups": ["failure"]}, "its arrays are"),
            ({"groups": None}, "damaged"),
            ({"layout": 3}, "kind of a layout"),
            (
                {
                    "layout": {
                        "kind": "convolutional",
                        "image_shape": [4, 5],
                        "feature_shape": [1, 1],
                        "n_components": 10**15,
                    }
                },
                "n_hidden=2",
            ),
        ],
    )
    def test_descriptions_that_make_no_sense(self, model, network, message):
        forge(model, network=network)
        refused(model, message)

    @pytest.mark.parametrize("network", [None, [], "convolutional"])
    def test_descriptions_of_the_wrong_kind(self, model, network):
        forge(model, description={"network": network})
        refused(model, "damaged")

    def test_metadata_of_the_wrong_kind(self, model):
        forge(model, description={"user": 3})
        with pytest.raises(ModelFileError, match="mapping"):
            load_model(model)


class TestFiles:
    def test_no_such_file(self, tmp_path):
        refused(tmp_path / "missing.safetensors", "No such file")

    def test_a_folder(self, tmp_path):
        refused(tmp_path, "directory")
        with pytest.raises(ModelFileError, match="cannot write the model file"):
            save_network(tmp_path, NETWORKS["bipartite"])

    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
    def test_a_device_is_not_read_without_end(self):
        refused(Path("/dev/zero"), "not a regular file")

    def test_no_such_folder(self, tmp_path):
        with pytest.raises(ModelFileError, match=r"cannot write .*nowhere.*: No such file"):
            save_network(tmp_path / "nowhere" / "m", NETWORKS["bipartite"])

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
    )
    def test_a_folder_without_permission(self, tmp_path):
        tmp_path.chmod(0o500)
        with pytest.raises(ModelFileError, match="Permission denied"):
            save_network(tmp_path / "m", NETWORKS["bipartite"])

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
    def test_a_failed_write_leaves_the_old_file(self, model, monkeypatch, code):
        def fail(descriptor):
            raise OSError(code, os.strerror(code))

        before = model.read_bytes()
        monkeypatch.setattr(noisyor._util.files.os, "fsync", fail)
        with pytest.raises(ModelFileError, match=re.escape(os.strerror(code))) as caught:
            save_network(model, NETWORKS["bipartite"])
        assert str(model) in str(caught.value)
        assert model.read_bytes() == before
        assert [path.name for path in model.parent.iterdir()] == [model.name]


def test_a_file_of_holes(tmp_path):
    path = tmp_path / "m"
    n_bytes = 800 * 2**20
    header = {"theta": {"dtype": "F64", "shape": [n_bytes // 8], "data_offsets": [0, n_bytes]}}
    start = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(len(start).to_bytes(8, "little") + start)
        stream.truncate(8 + len(start) + n_bytes)
    if path.stat().st_blocks * 512 > n_bytes // 100:
        pytest.skip("the file system keeps no holes")
    with pytest.raises(ModelFileError, match="most were never written"):
        load_model(path)


class TestHeaderLimit:
    def test_every_reader_refuses_a_long_header_without_parsing_it(self, tmp_path, monkeypatch):
        """A header of 66 MB took 107 seconds to parse."""
        monkeypatch.setattr("noisyor.io.model_file._header", lambda content: pytest.fail("parsed"))
        path, length = tmp_path / "m", 66 * 2**20
        content = b'{"__metadata__":{"noisyor":"{\\"format\\":\\"noisyor-model-3\\"}"}}'
        path.write_bytes(length.to_bytes(8, "little") + content.ljust(length))
        refused(path, f"{length:,} bytes")
        assert not is_sealed(path)

    def test_no_file_is_written_that_could_not_be_read(self, tmp_path):
        with pytest.raises(ModelFileError, match="8 MB"):
            save_network(tmp_path / "m", NETWORKS["named"], metadata={"text": "x" * 9 * 2**20})
        assert not (tmp_path / "m").exists()
