"""Values in files that are well-formed and wrong: one error of the family, never a traceback."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import noisyor as nor
from noisyor.cli.main import main
from noisyor.io.model_file import training_curve
from noisyor.learning.state import Checkpoint, read_checkpoint, save_checkpoint

CURVES = {
    "both signs": {"step": [1, 2, 3], "elbo": [1e308, -1e308, 1e308]},
    "all the same": {"step": [1, 2], "elbo": [1e308, 1e308]},
    "held out": {"held_out_step": [1, 2], "held_out_elbo": [-1e308, 1e308]},
    "steps": {"step": [-1e308, 1e308], "elbo": [-1.0, -2.0]},
    "whole numbers": {"step": [10**400, 1], "elbo": [1, 2]},
}


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_out_of_range_in_a_model_file(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a,b,c\n" + "1,0,1\n0,1,1\n1,1,1\n" * 10)
    network = nor.bipartite(n_visible=3, n_hidden=2, visible_names=["a", "b", "c"])
    metrics = {"held_out_log_p": 1e308, "held_out_independent": -1e308, "held_out_elbo": 1e308}
    metadata = {"kind": "factors", "curve": CURVES[name], "metrics": metrics}
    nor.save_network("m.safetensors", network, metadata=metadata)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["report", "m.safetensors", "rows.csv", "--out", "report.html"]) == 0
        assert main(["info", "m.safetensors"]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_a_curve_keeps_what_is_in_range():
    curve = training_curve({"curve": {"step": [1, 2, 3], "elbo": [1e308, -4.0, -1e308]}})
    assert curve is not None
    assert (curve.step.tolist(), curve.elbo.tolist()) == ([2.0], [-4.0])


@pytest.mark.parametrize("weight", ["1e308", "1e16", "inf"])
def test_weights_out_of_range(tmp_path, capsys, weight):
    table = tmp_path / "rows.csv"
    table.write_text("a,b,w\n" + f"1,0,{weight}\n0,1,1\n1,1,1\n" * 10)
    assert main(["fit", str(table), "--weights", "w", "--out", str(tmp_path / "m")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# ---- forged states of a search


def rows() -> np.ndarray:
    random = np.random.default_rng(3)
    factors = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    found = ((random.random((60, 2)) < 0.5) @ factors > 0).astype(int)
    return np.where(random.random(found.shape) < 0.08, 1 - found, found)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Path, dict[str, np.ndarray]]:
    """The file beside a finished search, and its arrays."""
    path = tmp_path_factory.mktemp("kept") / "run"
    nor.learn_factors(
        rows(), "auto", objective="mdl", n_restarts=2, steps=2, checkpoint=path, progress=False
    )
    search = path.with_name("run.search")
    return search, dict(read_checkpoint(search).arrays)


def resume_with(folder: Path, kept: Path, arrays: dict[str, np.ndarray]) -> None:
    """Resume from a forged file with a right checksum."""
    forged = Checkpoint(read_checkpoint(kept).identity, 0, arrays)
    save_checkpoint(folder / "run.search", forged)
    nor.learn_factors(
        rows(),
        "auto",
        objective="mdl",
        n_restarts=2,
        steps=2,
        checkpoint=folder / "run",
        resume=True,
        progress=False,
    )


@pytest.mark.parametrize("value", [[1.0], [-1.0] * 17, [1e308] * 11, []])
def test_a_forged_start(tmp_path, kept, value):
    search, arrays = kept
    assert "chosen/theta" in arrays
    with pytest.raises(nor.NoisyOrError):
        resume_with(tmp_path, search, {**arrays, "chosen/theta": np.array(value)})


@pytest.mark.parametrize(
    "about",
    [
        b"",
        b"[" * 100_000,
        b"[true]",
        b"[1e308, {}]",
        b'[true, {"objective": "all"}]',
        b'[true, {"objective": ["mdl"]}]',
        b'["yes", {"objective": "mdl"}]',
        b'[true, {"objective": "mdl", "n_components_curve": {"chosen": 1e308}}]',
        b'[true, {"objective": "mdl", "n_components_curve": [1, 2]}]',
    ],
)
def test_a_forged_description_of_a_start(tmp_path, kept, about):
    search, arrays = kept
    assert "chosen/about" in arrays
    with pytest.raises(nor.errors.CheckpointError):
        resume_with(
            tmp_path, search, {**arrays, "chosen/about": np.frombuffer(about, dtype=np.uint8)}
        )


@pytest.mark.parametrize("size", [0.0, -1.0, 1e308, 0.5])
def test_a_forged_guess_ends(tmp_path, kept, size):
    search, arrays = kept
    searched = {name: array for name, array in arrays.items() if not name.startswith("chosen/")}
    assert "guess/size" in searched
    with pytest.raises(nor.errors.CheckpointError):
        resume_with(tmp_path, search, {**searched, "guess/size": np.array([size])})


def test_a_checkpoint_with_a_huge_header(tmp_path):
    path = tmp_path / "run"
    network = nor.bipartite(n_visible=2, n_hidden=1)
    nor.train(network, np.eye(2), steps=2, checkpoint=path, progress=False)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] |= {f"entry {index}": "" for index in range(600_000)}
    long = json.dumps(header).encode()
    path.write_bytes(len(long).to_bytes(8, "little") + long + content[8 + length :])
    with pytest.raises(nor.errors.CheckpointError, match="header"):
        nor.train(network, np.eye(2), steps=2, checkpoint=path, resume=True, progress=False)
