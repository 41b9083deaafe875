from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from noisyor import layered
from noisyor.cli.main import main
from noisyor.errors import InvalidDataError, MissingExtraError
from noisyor.experiments.arrays import pack
from noisyor.experiments.layered import _stored
from noisyor.experiments.results.figures import write_figures


def run(experiment: str, method: str, case: str, seed: int, metrics: dict, arrays: dict) -> dict:
    return {
        "experiment": experiment,
        "part": "test",
        "case": case,
        "steps": 10,
        "seed": seed,
        "init": "paper-3",
        "method": method,
        "metrics": metrics,
        "arrays": arrays,
    }


@pytest.fixture
def runs() -> list[dict]:
    generator = np.random.default_rng(0)
    result = []
    for seed in range(2):
        for method in ("mp", "pmp"):
            features = generator.random((5, 6, 6)) * (1 if method == "mp" else 0) + (
                generator.random((5, 6, 6)) < 0.4
            )
            true = (generator.random((4, 5, 5)) < 0.5) | np.eye(5, dtype=bool)
            images = generator.random((20, 14, 14)) < 0.3
            arrays = {
                "features": pack(features),
                "true_features": pack(true),
                "test_images": pack(images),
                "reconstruction": pack(images[::-1]),
            }
            metrics = {"features_iou": 0.5 + seed / 10, "test_re_pct": 3.0 + seed}
            result.append(run("deconvolution", method, "BD", seed, metrics, arrays))
        for case in ("IMG,8", "IMG,16", "PLNT,8"):
            width = 70 if case.startswith("PLNT") else 64
            arrays = {
                "features": pack(generator.random((8, width))),
                "true_features": pack(generator.random((8, width))),
                "assigned": pack(np.array([1, 2, 3, 4, 5, 6, 7, 0])),
                "image_shape": [] if case.startswith("PLNT") else [8, 8],
            }
            metrics = {"recovered": 7.0 + seed, "full_recovery_pct": 100.0 * seed}
            result.append(run("overparam", "mp", case, seed, metrics, arrays))
    network = layered(
        generator.integers(0, 2, (50, 27)), 3, visible_names=[f"w{i}" for i in range(27)]
    )
    result.append(run("tiny20", "mp", "tiny20", 0, {"test_elbo": -14.5}, _stored(network)))
    return result


def test_every_figure_as_png_and_svg(runs, tmp_path):
    written = write_figures(runs, tmp_path / "figures")
    names = {
        "overparam_curves",
        "overparam_features",
        "deconvolution_features",
        "deconvolution_reconstructions",
        "network",
    }
    assert {path.name for path in written} == {
        f"{n}.{kind}" for n in names for kind in ("png", "svg")
    }
    for path in written:
        start = path.read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else start == b"<?xml ve"
        assert path.stat().st_size > 3000


def test_the_same_runs_give_the_same_svg(runs, tmp_path):
    some = [one for one in runs if one["experiment"] == "deconvolution"]
    for folder in ("a", "b"):
        write_figures(some, tmp_path / folder)
    for path in (tmp_path / "a").glob("*.svg"):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_runs_without_arrays(tmp_path):
    bare = [run("deconvolution", "mp", "BD", 0, {"features_iou": 1.0, "test_re_pct": 0.0}, {})]
    with pytest.raises(InvalidDataError, match="figure"):
        write_figures(bare, tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


def test_without_matplotlib(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="report"):
        write_figures(runs, tmp_path)


def test_command_without_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    assert main(["figures", "empty"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
