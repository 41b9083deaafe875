"""The engine as a value: devices, threads, memory, and how it is used from above."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("warp", reason="Warp is not installed: pip install 'noisyor[gpu]'")

from engine_calls import MAX_PRODUCT, evidence_of

import noisyor as nor
from noisyor.engines.contract import NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.engines.warp import engine as module
from noisyor.engines.warp.engine import WarpEngine
from noisyor.errors import InvalidSettingError

NOISY = MAX_PRODUCT._replace(temperature=1.0, n_samples=3)


@pytest.fixture(scope="module")
def problem():
    """A dense network and rows of very different size."""
    generator = np.random.default_rng(0)
    network = nor.initialize(nor.bipartite(40, 9), "paper-2", noise="gaussian", seed=1)
    rows = generator.random((60, 40)) < generator.random((60, 1))
    return network, evidence_of(network, rows.astype(float))


def max_product(engine, problem):
    network, evidence = problem
    return engine.max_product(
        engine.prepare(network), evidence, NOISY, NoiseKey(5, 2), with_beliefs=True
    )


@pytest.mark.parametrize("two_stage", [False, True])
def test_every_row_and_iteration_is_that_of_numba(problem, two_stage):
    network, evidence = problem
    options = NOISY._replace(two_stage=two_stage)
    ours, theirs = (
        engine.max_product(engine.prepare(network), evidence, options, NoiseKey(5, 2))
        for engine in (WarpEngine(device="cpu"), get_engine("numba"))
    )
    np.testing.assert_array_equal(ours.states, theirs.states)
    np.testing.assert_array_equal(ours.iterations, theirs.iterations)


def test_the_size_of_a_launch_changes_nothing(problem, monkeypatch):
    whole = max_product(WarpEngine(1, "cpu"), problem)
    for memory in (1, 40_000):  # one line at a time, and a part of a row's samples
        monkeypatch.setitem(module._MEMORY, True, memory)
        for mine, theirs in zip(max_product(WarpEngine(1, "cpu"), problem), whole, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_devices():
    assert WarpEngine(device="cpu") == WarpEngine(None, "cpu")
    assert WarpEngine(2, "cpu").workers == 2
    with pytest.raises(InvalidSettingError, match=r"device must be one that Warp finds.*'abacus'"):
        WarpEngine(device="abacus")
    with pytest.raises(InvalidSettingError, match="n_threads must be a positive number"):
        WarpEngine(n_threads=0)


def test_a_graph_is_laid_out_once(problem):
    network, _ = problem
    engine = WarpEngine(device="cpu")
    one = engine.prepare(network).graph
    other = engine.prepare(network.with_theta(2.0 * network.theta)).graph
    assert one.parent is other.parent
    assert one.theta is not other.theta


def test_training_and_inference_fall_back_where_they_must():
    """Everything but message passing is done by numba, all within one call."""
    network = nor.initialize(nor.bipartite(12, 3), "paper-3", noise="uniform", seed=0)
    X = (np.random.default_rng(0).random((30, 12)) < 0.3).astype(float)
    how = {"steps": 3, "batch_size": 10, "seed": 0, "progress": False}
    ours, theirs = (
        nor.train(network, X, nor.MaxProduct(icm=2), engine=engine, **how).network
        for engine in ("warp", "numba")
    )
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-9)
    bounds = [
        nor.evaluate(network, X, [nor.MaxProduct(), nor.MeanField()], engine=engine)
        for engine in ("warp", "numba")
    ]
    assert repr(bounds[0]) == repr(bounds[1])


# ---- processes of their own


def in_a_new_process(code, **variables):
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_it_starts_without_a_word():
    found = in_a_new_process("import noisyor as nor; nor.engines.get_engine('warp')")
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_a_cache_that_cannot_be_written_is_refused():
    nowhere = os.path.join(os.devnull, "home")
    variables = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "WARP_CACHE_PATH"), nowhere)
    found = in_a_new_process("import noisyor as nor; nor.engines.get_engine('warp')", **variables)
    assert found.returncode == 1
    assert "InvalidSettingError" in found.stderr.splitlines()[-1]
    assert "WARP_CACHE_PATH" in found.stderr.splitlines()[-1]
