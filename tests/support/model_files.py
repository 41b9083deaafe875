"""Networks of every kind, and model files that are forged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from noisyor.errors import ModelFileError
from noisyor.io.model_file import _ENTRY, _canonical, _digest, _header, _seal, load_network
from noisyor.model.builders import bipartite, convolutional, from_edges
from noisyor.model.network import Network

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
