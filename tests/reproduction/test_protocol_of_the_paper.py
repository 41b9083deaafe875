"""The paper's rates, batches and noise: that they are recorded, and that training has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noisyor.data.observations import Observations
from noisyor.engines.registry import get_engine
from noisyor.learning.initialize import SETTINGS, initialize
from noisyor.model.builders import bipartite
from reproduction import NAMES, experiment
from reproduction.layered import TEXT_PROTOCOL, TINY20_PROTOCOL, run_layered
from reproduction.one_layer import (
    BMF_PROTOCOL,
    DECONVOLUTION_PROTOCOL,
    NOISES,
    OVERPARAM_PROTOCOL,
    Scores,
    run_one_layer,
)
from reproduction.protocol import Choice, Context, RunSpec

# As printed: updates by max-product, rate, rows of a batch, share of rows to train on.
PAPER = {
    "tiny20": (1_000, 0.01, None, 0.7),
    "text": (None, 3e-4, 128, 1.0),
    "bmf": (40_000, 1e-3, 20, 1.0),
    "overparam": (45_000, 1e-3, 20, 0.9),
    "deconvolution": (3_000, 0.01, None, 0.8),
}
PROTOCOLS = {
    "tiny20": TINY20_PROTOCOL,
    "text": TEXT_PROTOCOL,
    "bmf": BMF_PROTOCOL,
    "overparam": OVERPARAM_PROTOCOL,
    "deconvolution": DECONVOLUTION_PROTOCOL,
}
ONE_LAYER = ("bmf", "overparam", "deconvolution")
X = (np.random.default_rng(0).random((300, 27)) < 0.3).astype(np.uint8)
ROWS, SOME = Observations.of(X), Observations.of(X[:20])


def context(tmp_path):
    return Context(get_engine(n_threads=1), tmp_path)


def specs(name, **changes):
    return experiment(name).specs((), Choice(), ("paper-3",), [5], 1, 0, **changes)


@pytest.mark.parametrize("name", NAMES)
def test_constants_are_those_of_the_paper(name):
    steps, rate, batch, share = PAPER[name]
    about = experiment(name)
    found = PROTOCOLS[name]
    assert (found.learning_rate, found.batch_size, found.train_share) == (rate, batch, share)
    if steps is not None:  # the paper does not say it of max-product on text
        assert about.steps("mp-two-stage") == steps
    assert about.methods[0] == "mp-two-stage"


def test_steps_of_the_other_methods():
    assert {m: experiment("tiny20").steps(m) for m in ("vi", "local-vi", "hybrid")} == {
        "vi": 1_500,
        "local-vi": 1_500,
        "hybrid": 1_500,
    }
    assert {experiment("text").steps(m) for m in ("mp", "local-vi", "hybrid")} == {4_000}
    assert experiment("bmf").steps("pmp") == experiment("deconvolution").steps("pmp") == 1_000


def test_starts_of_the_paper():
    assert {name: tuple(value) for name, value in SETTINGS.items()} == {
        "paper-1": (0.5, 0.5),
        "paper-2": (0.5, 0.1),
        "paper-3": (0.9, 0.1),
        "paper-4": (0.9, 0.5),
    }


@pytest.mark.parametrize("name", NAMES)
def test_noise_of_the_paper(name):
    expected = "gaussian" if name in ONE_LAYER else "none"
    assert {spec.noise for spec in specs(name)} == {expected}


@pytest.mark.parametrize("name", ONE_LAYER)
@pytest.mark.parametrize("noise", NOISES)
def test_one_layer_starts_with_its_noise_and_moves_by_its_rate(name, noise, tmp_path):
    """The first update of Adam moves every parameter that has a gradient by the rate."""
    spec = next(spec for spec in specs(name, noises=[noise]) if spec.experiment == name)
    network = bipartite(27, 4, noise_probability=0.01, fixed="noise")
    seen = []

    def score(learned):
        seen.append(learned)
        return Scores({}, {})

    rows = (ROWS, SOME)
    outcome = run_one_layer(spec, context(tmp_path), network, rows, PROTOCOLS[name], score)
    start = initialize(network, "paper-3", noise=noise, seed=5)
    moved = np.abs(seen[0].theta - start.theta)
    _, rate, batch, _ = PAPER[name]
    assert moved.max() == pytest.approx(rate, rel=1e-3)
    assert np.median(moved[network.free]) == pytest.approx(rate, rel=1e-3)
    protocol = outcome.settings["protocol"]
    assert (protocol["learning_rate"], protocol["batch_size"]) == (rate, batch)
    assert outcome.settings["mp"]["temperature"] == 1.0


@pytest.mark.parametrize("name", ["tiny20", "text"])
def test_layers_start_without_noise_and_move_by_the_rate(name, tmp_path):
    spec = RunSpec(name, "mp-two-stage", name, "paper-3", 5, 1)
    protocol = replace(PROTOCOLS[name], n_layers=3, keep_network=True)
    outcome = run_layered(spec, context(tmp_path), ROWS, SOME, protocol)
    edges, leaks = (outcome.arrays[part] for part in ("theta", "leak"))
    _, rate, batch, _ = PAPER[name]
    moved = np.abs(np.concatenate([edges, leaks]) + np.log(0.9))
    resolution = 2.0**-13  # of half precision next to 0.1
    assert moved.max() == pytest.approx(rate, abs=resolution)
    assert moved.max() > rate / 2
    recorded = outcome.settings["protocol"]
    assert (recorded["learning_rate"], recorded["batch_size"]) == (rate, batch)
    assert outcome.settings["mp"]["temperature"] == 0.0


@pytest.mark.parametrize("batch", [20, None])
def test_a_batch_has_as_many_rows_as_it_says(batch, tmp_path):
    """In another order the first batch has other rows, unless it has all of them."""
    network = bipartite(27, 4, noise_probability=0.01, fixed="noise")
    protocol = replace(BMF_PROTOCOL, batch_size=batch)
    spec = specs("bmf")[0]
    found = []

    def score(learned):
        found.append(learned.theta)
        return Scores({}, {})

    order = np.random.default_rng(1).permutation(len(X))
    for rows in (ROWS, Observations.of(X[order], row_ids=order)):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        run_one_layer(spec, context(folder), network, (rows, SOME), protocol, score)
    assert np.allclose(found[0], found[1], atol=1e-9) == (batch is None)


def test_other_settings_reach_the_methods(tmp_path):
    network = bipartite(27, 4, noise_probability=0.01, fixed="noise")
    for method, changes, expected in [
        ("mp-two-stage", {"tolerance": 0.0}, {"mp": {"tolerance": 0.0, "damping": 0.5}}),
        ("mp", {"damping": 0.7}, {"mp": {"damping": 0.7, "tolerance": 1e-3}}),
        ("vi", {"tolerance": 1e-4}, {"vi": {"tolerance": 1e-4}}),
        ("vi", {}, {"vi": {"tolerance": None}}),
    ]:
        spec = experiment("bmf").specs(
            (method,), Choice(sizes=["27,4"]), ("paper-3",), [0], 1, 0, **changes
        )[0]
        folder = tmp_path / spec.name
        folder.mkdir()
        outcome = run_one_layer(
            *(spec, context(folder), network, (ROWS, SOME), BMF_PROTOCOL),
            lambda learned: Scores({}, {}),
        )
        for phase, settings in expected.items():
            assert outcome.settings[phase].items() >= settings.items()
