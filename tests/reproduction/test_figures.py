from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from run_records import SETTINGS

from noisyor import layered
from noisyor.datasets.synthetic import true_features
from noisyor.errors import InvalidDataError, MissingExtraError
from reproduction.__main__ import main
from reproduction.figures import (
    FIGURES,
    deconvolution_spare,
    median_run,
    picture,
    spare_features,
    write_figures,
)
from reproduction.layered import network_arrays


def run(experiment: str, method: str, case: str, seed: int, metrics: dict, arrays: dict) -> dict:
    return {
        "experiment": experiment,
        "part": "test",
        "case": case,
        "steps": 10,
        "seed": seed,
        "init": "paper-3",
        "noise": "none" if method == "pmp" else "gaussian",
        "tolerance": None,
        "damping": None,
        "method": method,
        "settings": SETTINGS[method],
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
                "features": features,
                **({"prior": np.linspace(0.1, 0.5, 5)} if method == "mp" else {}),
                "true_features": true,
                "test_images": images,
                "reconstruction": images[::-1],
            }
            metrics = {"features_iou": 0.5 + seed / 10, "test_re_pct": 3.0 + seed}
            result.append(run("deconvolution", method, "BD", seed, metrics, arrays))
        for case in ("IMG,8", "IMG,16", "PLNT,8"):
            width = 70 if case.startswith("PLNT") else 64
            arrays = {
                "features": generator.random((8, width)),
                "true_features": generator.random((8, width)),
                "assigned": np.array([1, 2, 3, 4, 5, 6, 7, 0]),
                "image_shape": [] if case.startswith("PLNT") else [8, 8],
            }
            metrics = {"recovered": 7.0 + seed, "full_recovery_pct": 100.0 * seed}
            result.append(run("overparam", "mp", case, seed, metrics, arrays))
    network = layered(
        generator.integers(0, 2, (50, 27)), 3, visible_names=[f"w{i}" for i in range(27)]
    )
    result.append(run("tiny20", "mp", "tiny20", 0, {"test_elbo": -14.5}, network_arrays(network)))
    return result


@pytest.mark.long
def test_every_figure_as_png_and_svg(runs, tmp_path):
    written = write_figures(runs, tmp_path / "figures")
    assert {path.name for path in written} == {
        f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")
    }
    for path in written:
        start = path.read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else start == b"<?xml ve"
        assert path.stat().st_size > 3000


def test_the_run_in_the_middle_is_shown():
    runs = [run("deconvolution", "mp", "BD", s, {"iou": x}, {}) for s, x in enumerate([3, 1, 2, 2])]
    assert median_run(runs, "iou")["seed"] == 2  # of two that are equal, the smaller seed
    assert median_run(runs[:3], "iou")["seed"] == 2
    assert median_run(runs[:2], "iou")["seed"] == 1  # the lower of two in the middle


@pytest.mark.parametrize(("prior", "lowest"), [(0.005, True), (0.015, False)])
def test_the_spare_feature_is_the_one_that_matches_nothing(prior, lowest):
    true = true_features()
    learned = np.zeros((5, 6, 6))
    learned[[4, 0, 3, 1], 1:, :5] = 5.0 * true  # out of order; the third is spare
    learned[2, 0, 0] = 5.0
    priors = np.full(5, 0.01)
    priors[2] = prior
    arrays = {"features": learned, "true_features": true, "prior": priors}
    (spare,) = spare_features([run("deconvolution", "mp", "BD", 0, {}, arrays)])
    assert spare.prior == pytest.approx(prior, rel=1e-3)
    assert spare.others == pytest.approx(0.01, rel=1e-3)
    assert spare.is_lowest == lowest


def test_the_same_runs_give_the_same_svg(runs):
    some = [one for one in runs if one["experiment"] == "deconvolution"]
    once, again = (picture(deconvolution_spare(some), "svg") for _ in range(2))
    assert once == again


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
    assert main(["figures", "--record", "empty"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
