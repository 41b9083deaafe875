"""Model files that are damaged at random, or announce more than they hold."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from model_files import NETWORKS, assert_same, forge, refused
from safetensors.numpy import load

from noisyor.errors import ModelFileError
from noisyor.io.model_file import _ENTRY, _header, load_model, save_network


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
@pytest.mark.long
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
            network = load_model(path).network
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
