from __future__ import annotations

import errno
import json
import os
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

import noisyor._util.atomic
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.io.model_file import (
    _ENTRY,
    FORMAT,
    _canonical,
    _digest,
    _header,
    _seal,
    load_model,
    load_network,
    read_metadata,
    save_network,
)
from noisyor.network.builders import bipartite, convolutional, from_edges
from noisyor.network.graph import Network

RANDOM = np.random.default_rng(0)


def layered_network() -> Network:
    return from_edges(
        3,
        3,
        [(0, 0), (0, 1), (1, 1), (1, 2)],
        [(2, 0), (2, 1)],
        failure_probability=RANDOM.random(6),
    )


NETWORKS = {
    "bipartite": bipartite(5, 3, failure_probability=RANDOM.random((3, 5))),
    "convolutional": convolutional(
        (5, 4), 2, (3, 2), failure_probability=RANDOM.random((2, 3, 2)), fixed=("noise",)
    ),
    "border": convolutional((3, 4), 2, (2, 2), border=True, prior="shared"),
    "layered": layered_network(),
    "tied": from_edges(3, 2, [(0, 0), (0, 1), (1, 1), (1, 2)], param=[7, 7, 3, 3]),
    "named": bipartite(
        2, 2, visible_names=["fever", "Fieber °C\n\ud800"], hidden_names=["flu", '"'], fixed="prior"
    ),
    "without groups": Network(1, 1, [0, 1, 1], [0], [0], [1, 2], [0.5, 1.0, 2.0], [1, 0, 1]),
}


def assert_same(left: Network, right: Network) -> None:
    for name in (
        "n_visible",
        "n_hidden",
        "visible_names",
        "hidden_names",
        "visible_shape",
        "layout",
    ):
        assert getattr(left, name) == getattr(right, name)
    for name in ("child_ptr", "parent", "param", "leak_param", "theta", "free"):
        mine, other = getattr(left, name), getattr(right, name)
        assert mine.dtype == other.dtype
        assert mine.tobytes() == other.tobytes()
    assert set(left.groups) == set(right.groups)
    for name, index in left.groups.items():
        assert index.shape == right.groups[name].shape
        assert index.tobytes() == right.groups[name].tobytes()


@pytest.fixture
def model(tmp_path) -> Path:
    path = tmp_path / "model.safetensors"
    save_network(path, NETWORKS["convolutional"], metadata={"seed": 3})
    return path


def forge(path: Path, *, description=(), network=(), arrays=(), seal=True) -> None:
    """Rewrite a model file with other content; with a seal, all its checksums hold."""
    content = path.read_bytes()
    told = json.loads(_header(content)["__metadata__"][_ENTRY])
    tensors = load(content) | dict(arrays)
    tensors = {name: array for name, array in tensors.items() if array is not None}
    told |= dict(description)
    if network:
        told["network"] |= dict(network)
    if seal:
        told["tensors"] = {name: _digest(array) for name, array in tensors.items()}
        told["sha256"] = _seal(told)
    path.write_bytes(save(tensors, metadata={_ENTRY: _canonical(told)}))


def refused(path: Path, message: str) -> None:
    """The reader refuses in one line that names the file."""
    with pytest.raises(ModelFileError, match=message) as caught:
        load_network(path)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text


class TestRoundTrip:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_every_bit_comes_back(self, name, tmp_path):
        path = tmp_path / "model.safetensors"
        save_network(path, NETWORKS[name])
        assert_same(load_network(path), NETWORKS[name])
        assert read_metadata(path) == {}

    def test_extreme_parameters(self, tmp_path):
        network = bipartite(2, 2)
        theta = np.full(network.n_params, 1e-5)
        theta[:4] = [0.0, 5e-324, 1e308, 0.1 + 0.2]
        save_network(tmp_path / "m", network.with_theta(theta))
        assert load_network(tmp_path / "m").theta.tobytes() == theta.tobytes()

    def test_metadata_comes_back(self, model):
        metadata = {"seed": 1, "note": "ü\n", "nested": {"list": [1.5, None, True]}}
        save_network(str(model), NETWORKS["bipartite"], metadata=metadata)
        assert read_metadata(str(model)) == metadata

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

    def test_public_names(self):
        import noisyor

        assert noisyor.load_network is load_network
        assert noisyor.save_network is save_network

    @pytest.mark.parametrize(
        "metadata", [{"x": object()}, {"x": float("nan")}, {1: 2}, [1], {"x": np.zeros(2)}]
    )
    def test_metadata_that_json_cannot_hold(self, metadata, tmp_path):
        with pytest.raises(InvalidSettingError, match="metadata"):
            save_network(tmp_path / "m", NETWORKS["bipartite"], metadata=metadata)
        assert not list(tmp_path.iterdir())


class TestDamage:
    @given(data=st.data())
    @settings(deadline=None, max_examples=300)
    def test_flipping_any_byte_is_noticed_or_harmless(self, data, tmp_path_factory):
        path = tmp_path_factory.mktemp("flip") / "model.safetensors"
        name = data.draw(st.sampled_from(["convolutional", "named", "layered"]))
        save_network(path, NETWORKS[name], metadata={"seed": 3})
        content = bytearray(path.read_bytes())
        where = data.draw(st.integers(0, len(content) - 1))
        content[where] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        try:
            network, metadata = load_network(path), read_metadata(path)
        except ModelFileError:
            return
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
            ({"visible_shape": 20}, "malformed"),
            ({"visible_names": "abc"}, "list of strings"),
            ({"visible_names": ["a"] * 20}, "distinct"),
            ({"hidden_names": ["a", "b"]}, "hidden_names"),
            ({"groups": ["failure"]}, "its arrays are"),
            ({"groups": None}, "malformed"),
            ({"layout": 3}, "kind among"),
            ({"layout": {"kind": "bipartite", "n_visible": 20, "n_hidden": 18}}, "not those of"),
            ({"layout": {"kind": "layered", "layers": [20, 10**15]}}, "n_hidden=10"),
        ],
    )
    def test_descriptions_that_make_no_sense(self, model, network, message):
        forge(model, network=network)
        refused(model, message)

    @pytest.mark.parametrize("network", [None, [], "convolutional"])
    def test_descriptions_of_the_wrong_kind(self, model, network):
        forge(model, description={"network": network})
        refused(model, "malformed")

    def test_metadata_of_the_wrong_kind(self, model):
        forge(model, description={"user": 3})
        with pytest.raises(ModelFileError, match="no mapping"):
            read_metadata(model)


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
        monkeypatch.setattr(noisyor._util.atomic.os, "fsync", fail)
        with pytest.raises(ModelFileError, match=re.escape(os.strerror(code))) as caught:
            save_network(model, NETWORKS["bipartite"])
        assert str(model) in str(caught.value)
        assert model.read_bytes() == before
        assert [path.name for path in model.parent.iterdir()] == [model.name]


def corrupted(content: bytes, random: np.random.Generator) -> bytes:
    """One of the things that disks, transfers and careless programs do to a file."""
    raw = bytearray(content)
    where = int(random.integers(len(raw)))
    kind = random.integers(7)
    if kind == 0:
        return bytes(raw[:where])
    if kind == 1:
        for place in random.integers(len(raw), size=int(random.integers(1, 17))):
            raw[place] ^= 1 << int(random.integers(8))
    elif kind == 2:
        length = int(random.integers(1, 200))
        raw[where : where + length] = random.bytes(len(raw[where : where + length]))
    elif kind == 3:
        raw[where:where] = random.bytes(int(random.integers(1, 100)))
    elif kind == 4:
        del raw[where : where + int(random.integers(1, 100))]
    elif kind == 5:
        raw[:8] = int(random.integers(2**63 - 1) >> random.integers(63)).to_bytes(8, "little")
    else:
        digits = [k for k, byte in enumerate(raw) if chr(byte).isdigit()]
        for place in random.choice(digits, size=3):
            raw[place] = ord("0") + int(random.integers(10))
    return bytes(raw)


STRANGE = [None, True, -1, 0, 1, 2**31 - 1, 2**63, 1e300, "", "x" * 50, [], [1], {}, [[]], {"a": 1}]


def forged(path: Path, random: np.random.Generator) -> None:
    """Content that makes no sense, in a file whose checksums all hold."""
    told = json.loads(_header(path.read_bytes())["__metadata__"][_ENTRY])
    arrays = load(path.read_bytes())
    kind = random.integers(4)
    if kind == 0:
        place = random.choice(sorted(told["network"]))
        forge(path, network={place: STRANGE[int(random.integers(len(STRANGE)))]})
    elif kind == 1:
        place = random.choice(sorted(told))
        forge(path, description={place: STRANGE[int(random.integers(len(STRANGE)))]}, seal=False)
    else:
        name = random.choice(sorted(arrays))
        array = np.array(arrays[name])
        if kind == 2:
            extremes = [-1, 0, 1, 2, 3, 100, np.iinfo(np.int32).max]
            if array.dtype.kind == "f":
                extremes += [np.nan, np.inf, -np.inf, 1e308]
            places = random.integers(array.size, size=int(random.integers(1, 5)))
            array.reshape(-1)[places] = random.choice(extremes, size=len(places)).astype(
                array.dtype
            )
        else:
            array = np.resize(array, int(random.integers(0, 2 * array.size)))
        forge(path, arrays={name: array})


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_a_thousand_fuzzed_files(tmp_path):
    """Each is refused in one line by one class of error, or holds a network that is valid."""
    random = np.random.default_rng(20240607)
    originals = {}
    for name in ("convolutional", "named", "layered", "tied"):
        save_network(tmp_path / name, NETWORKS[name], metadata={"seed": 3, "words": ["a", "b"]})
        originals[name] = (tmp_path / name).read_bytes()
    path = tmp_path / "fuzzed.safetensors"
    messages: dict[str, list[str]] = {"corrupted": [], "forged": []}
    for number in range(1000):
        name = random.choice(sorted(originals))
        kind = "forged" if number % 3 == 0 else "corrupted"
        path.write_bytes(originals[name])
        if kind == "forged":
            forged(path, random)
        else:
            path.write_bytes(corrupted(originals[name], random))
        watched = number % 5 == 0  # watching memory takes time
        if watched:
            tracemalloc.start()
        try:
            network = load_network(path)
            read_metadata(path)
        except ModelFileError as error:
            messages[kind].append(str(error))
        else:
            assert np.isfinite(network.theta).all()
            assert (network.hidden_levels >= 0).all()
            if kind == "corrupted":
                assert_same(network, NETWORKS[name])
        finally:
            if watched:
                assert tracemalloc.get_traced_memory()[1] < 2**20
                tracemalloc.stop()
    assert len(messages["corrupted"]) > 600  # nearly all of the 667
    assert len(messages["forged"]) > 150
    for message in (*messages["corrupted"], *messages["forged"]):
        assert "\n" not in message
        assert str(path) in message
        assert len(message) < 1000


def test_a_header_that_announces_ten_gigabytes(tmp_path, model):
    content = bytearray(model.read_bytes())
    content[:8] = (10 * 2**30).to_bytes(8, "little")
    model.write_bytes(content)
    refused(model, "cut short")
    # And a tensor that does, in a header that is well formed.
    save_network(model, NETWORKS["convolutional"])
    header = _header(model.read_bytes())
    header["theta"]["shape"] = [10 * 2**30]
    header["theta"]["data_offsets"][1] = header["theta"]["data_offsets"][0] + 80 * 2**30
    text = json.dumps(header).encode()
    model.write_bytes(len(text).to_bytes(8, "little") + text + bytes(100))
    refused(model, "announces")


def test_ten_gigabytes_behind_a_good_model_are_not_read(model):
    with model.open("ab") as stream:
        stream.truncate(10 * 2**30)  # a hole: nothing is written
    tracemalloc.start()
    try:
        refused(model, "announces")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
