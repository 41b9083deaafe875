"""Training that is stopped goes on to the same bits, and a wrong checkpoint is refused."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError


@pytest.mark.parametrize("step_on", ["theta", "log"])
def test_resume_is_bit_identical(problem, tmp_path, step_on):
    network, x = problem
    options = {"seed": 2, "held_out": x[:20], "evaluate_every": 10, "step_on": step_on}
    whole = nor.train(network, x, steps=50, **options)
    file = tmp_path / "run.safetensors"
    nor.train(network, x, steps=23, checkpoint=file, **options)
    resumed = nor.train(
        network,
        x,
        steps=50,
        checkpoint=file,
        resume=True,
        engine=get_engine(n_threads=2),
        **options,
    )
    np.testing.assert_array_equal(resumed.network.theta, whole.network.theta)
    np.testing.assert_array_equal(resumed.history.elbo, whole.history.elbo)
    kept = [e for e in resumed.history.evaluations if e.step != 23]
    assert kept == list(whole.history.evaluations)
    finished = nor.train(network, x, steps=50, checkpoint=file, resume=True, **options)
    np.testing.assert_array_equal(finished.network.theta, whole.network.theta)


def test_an_interrupt_saves_the_last_whole_step(problem, tmp_path):
    network, x = problem
    file = tmp_path / "run.safetensors"

    def interrupt(info):
        if info.state.step == 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nor.train(network, x, steps=40, checkpoint=file, callbacks=[interrupt])
    resumed = nor.train(network, x, steps=40, checkpoint=file, resume=True)
    whole = nor.train(network, x, steps=40)
    np.testing.assert_array_equal(resumed.network.theta, whole.network.theta)
    assert len(resumed.history.elbo) == 40


KILLED = """
import sys, numpy as np, noisyor as nor
x = np.random.default_rng(0).integers(0, 2, (200, 30))
network = nor.initialize(nor.bipartite(30, 4), noise="uniform")
result = nor.train(network, x, steps=int(sys.argv[2]), checkpoint=sys.argv[1], resume=True,
                   checkpoint_every=0.0, progress=False)
np.save(sys.argv[3], result.network.theta)
"""


def test_killed_at_any_moment_training_goes_on_to_the_same_bits(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(KILLED)
    file, out = tmp_path / "run.safetensors", tmp_path / "theta.npy"

    def start(checkpoint, steps, result):
        return subprocess.Popen([sys.executable, script, checkpoint, str(steps), result])

    steps = 1500
    for pause in (0.05, 0.2):
        before = file.stat().st_mtime_ns if file.exists() else 0
        process = start(file, steps, out)
        while not (file.exists() and file.stat().st_mtime_ns > before):
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
        time.sleep(pause)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not out.exists()
    assert start(file, steps, out).wait() == 0
    assert start(tmp_path / "other.safetensors", steps, tmp_path / "whole.npy").wait() == 0
    np.testing.assert_array_equal(np.load(out), np.load(tmp_path / "whole.npy"))


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.5},
        {"seed": 9},
        {"batch_size": 7},
        {"method": nor.MaxProduct()},
        {"step_on": "log"},
        {"smoothing": 1.0},
        {"final_learning_rate": 1e-4},
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(problem, tmp_path, change):
    network, x = problem
    file = tmp_path / "run.safetensors"
    nor.train(network, x, steps=3, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(CheckpointError, match="belongs to another run"):
        nor.train(network, x, **{"steps": 5, "checkpoint": file, "resume": True, **change})
    assert file.read_bytes() == before


def test_a_checkpoint_of_other_data_is_refused(problem, tmp_path):
    network, x = problem
    file = tmp_path / "run.safetensors"
    nor.train(network, x, steps=3, checkpoint=file)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        nor.train(network, x[:100], steps=5, checkpoint=file, resume=True)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "garbage", "empty", "other"])
def test_a_damaged_checkpoint_is_refused_and_kept(problem, tmp_path, damage):
    network, x = problem
    file = tmp_path / "run.safetensors"
    nor.train(network, x, steps=3, checkpoint=file)
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    elif damage == "flipped":
        content[-3] ^= 1
    elif damage == "garbage":
        content = bytearray(b"not a checkpoint at all, whatever its name says")
    elif damage == "empty":
        content = bytearray()
    else:
        content = content.replace(b"noisyor-checkpoint-1", b"noisyor-checkpoint-9")
    file.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"run\.safetensors"):
        nor.train(network, x, steps=5, checkpoint=file, resume=True)
    assert file.read_bytes() == bytes(content)


def test_a_folder_that_does_not_exist_is_reported(problem, tmp_path):
    network, x = problem
    with pytest.raises(CheckpointError, match="cannot write the checkpoint"):
        nor.train(network, x, steps=1, checkpoint=tmp_path / "nowhere" / "run.safetensors")
