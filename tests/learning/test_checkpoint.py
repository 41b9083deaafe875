"""Training that is stopped goes on to the same bits, and a wrong checkpoint is refused."""

import itertools
import os
import runpy
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError, InvalidSettingError
from noisyor.learning.state import Recorder, load_checkpoint, read_checkpoint, save_checkpoint
from noisyor.learning.train import Run


@pytest.mark.parametrize("parameterization", ["theta", "log"])
def test_resume_is_bit_identical(problem, tmp_path, parameterization):
    network, x = problem
    options = {
        "seed": 2,
        "held_out": x[:20],
        "evaluate_every": 10,
        "parameterization": parameterization,
    }
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


@pytest.mark.long
def test_killed_at_any_moment_training_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    script = tmp_path / "run.py"
    script.write_text(KILLED)
    file, out = tmp_path / "run.safetensors", tmp_path / "theta.npy"

    def start(checkpoint, steps, result):
        return subprocess.Popen([sys.executable, script, checkpoint, str(steps), result])

    def run_here(*arguments):
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script))

    steps = 300
    for pause in (0.02, 0.05):
        before = file.stat().st_mtime_ns if file.exists() else 0
        process = start(file, steps, out)
        while not (file.exists() and file.stat().st_mtime_ns > before):
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
        time.sleep(pause)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not out.exists()
    run_here(file, steps, out)
    run_here(tmp_path / "other.safetensors", steps, tmp_path / "whole.npy")
    np.testing.assert_array_equal(np.load(out), np.load(tmp_path / "whole.npy"))


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.5},
        {"seed": 9},
        {"batch_size": 7},
        {"method": nor.MaxProduct()},
        {"parameterization": "log"},
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
        content = content.replace(b"noisyor-checkpoint-4", b"noisyor-checkpoint-9")
    file.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"run\.safetensors"):
        nor.train(network, x, steps=5, checkpoint=file, resume=True)
    assert file.read_bytes() == bytes(content)


def test_a_folder_that_does_not_exist_is_reported(problem, tmp_path):
    network, x = problem
    with pytest.raises(CheckpointError, match="cannot write the checkpoint"):
        nor.train(network, x, steps=1, checkpoint=tmp_path / "nowhere" / "run.safetensors")


# ---- whatever is wrong with the file, it is a CheckpointError


@pytest.fixture
def kept(problem, tmp_path):
    """A checkpoint: its file, the run that it belongs to, and what is in it."""
    network, x = problem
    file = tmp_path / "run.safetensors"
    nor.train(network, x[:40], steps=4, checkpoint=file, held_out=x[:9], evaluate_every=2)
    return file, read_checkpoint(file).identity, nor.learning.init(network)


def same(found, checkpoint):
    return (found.step, found.identity) == (checkpoint.step, checkpoint.identity) and all(
        found.arrays[name].dtype == array.dtype and np.array_equal(found.arrays[name], array)
        for name, array in checkpoint.arrays.items()
    )


def refused(file, content, identity, start, checkpoint):
    """Whether changed content is refused; if it is not, it must say the same."""
    file.write_bytes(content)
    try:
        found = load_checkpoint(file, identity, start)
    except CheckpointError:
        return True
    assert same(found, checkpoint)
    return False


@pytest.mark.long
def test_no_single_bit_can_change_what_is_read(kept):
    file, identity, start = kept
    content, checkpoint = file.read_bytes(), load_checkpoint(file, identity, start)
    header = 8 + int.from_bytes(content[:8], "little")
    accepted = 0
    for place in [*range(header), *range(header, len(content), 97)]:
        for bit in (place % 8, (place + 3) % 8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            accepted += not refused(file, bytes(flipped), identity, start, checkpoint)
    assert accepted < 20  # spaces of the header that mean nothing


@pytest.mark.parametrize("seed", range(5))
def test_a_mutated_file_is_refused_or_says_the_same(kept, seed):
    file, identity, start = kept
    content, checkpoint = file.read_bytes(), load_checkpoint(file, identity, start)
    random = np.random.default_rng(seed)
    header = 8 + int.from_bytes(content[:8], "little")
    words = [
        b'"step":"4"',
        b'"F64"',
        b'"I64"',
        b"[4]",
        b'"dtype"',
        b"theta",
        b'"shape"',
        b":",
        b"[",
    ]
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(random.integers(1, 4)):
            begin = int(random.integers(header if random.random() < 0.8 else len(changed)))
            end = begin + int(random.integers(0, 9))
            kind = random.integers(5)
            if kind == 0:
                changed[begin:end] = random.bytes(end - begin)
            elif kind == 1:
                del changed[begin:end]
            elif kind == 2:
                changed[begin:begin] = changed[end : end + 20]
            elif kind == 3:
                changed[begin] = 0x30 + int(random.integers(10))
            else:
                word = words[random.integers(len(words))]
                other = words[random.integers(len(words))]
                changed = bytearray(bytes(changed).replace(word, other, 1))
        refused(file, bytes(changed), identity, start, checkpoint)


def sealed(checkpoint, **changes):
    """Content with a right checksum, as only somebody who means harm writes it."""
    arrays = {**checkpoint.arrays, **changes}
    return replace(checkpoint, arrays={k: v for k, v in arrays.items() if v is not None})


def test_arrays_that_no_run_has_written_are_refused(kept):
    file, identity, start = kept
    whole = load_checkpoint(file, identity, start)
    theta = whole.arrays["theta"]
    for wrong in (
        sealed(whole, theta=theta[:-1]),
        sealed(whole, theta=theta.astype(np.float32)),
        sealed(whole, theta=np.full_like(theta, np.nan)),
        sealed(whole, theta=-theta),
        sealed(whole, theta=theta.reshape(1, -1)),
        sealed(whole, optimizer_2=np.full_like(theta, np.inf)),
        sealed(whole, elbo=whole.arrays["elbo"][1:]),
        sealed(whole, seconds=None),
        sealed(whole, more=theta),
        sealed(whole, evaluation_step=whole.arrays["evaluation_step"][1:]),
        replace(whole, step=3),
        replace(whole, step=-1),
    ):
        save_checkpoint(file, wrong)
        with pytest.raises(CheckpointError, match="is not one of this network"):
            load_checkpoint(file, identity, start)


# ---- a place that does not do, and a disk that is full


def unusable(tmp_path):
    occupied = tmp_path / "folder"
    occupied.mkdir()
    foreign = tmp_path / "thesis.txt"
    foreign.write_text("years of work")
    return [tmp_path / "nowhere" / "run", occupied, foreign, tmp_path / ("n" * 300), "a\0b"]


def learn_in_phases(network, x, **options):
    options["checkpoint"] = os.fspath(options["checkpoint"]).removesuffix(".txt")
    phases = [nor.learning.Phase("mp", nor.MaxProduct(), 2)]
    phases += [nor.learning.Phase("txt", nor.MeanField(), 2)]
    return nor.learning.train_phases(network, x, phases, **options)


@pytest.mark.parametrize(
    "learn",
    [
        lambda network, x, **options: nor.train(network, x, steps=2, **options),
        lambda network, x, **options: nor.train_stream(network, [x], **options),
        lambda network, x, **options: nor.learn_factors(x, 2, **options),
        lambda network, x, **options: nor.learn_topics(x, **options),
    ],
    ids=["train", "train_stream", "learn_factors", "learn_topics"],
)
def test_an_unusable_place_is_refused_before_the_first_step(problem, tmp_path, learn):
    network, x = problem
    steps = []
    for place in unusable(tmp_path):
        with pytest.raises((CheckpointError, InvalidSettingError), match=r"checkpoint"):
            learn(network, x, checkpoint=place, callbacks=[steps.append], progress=False)
    assert steps == []
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_places_of_all_phases_are_looked_at_first(problem, tmp_path):
    network, x = problem
    unusable(tmp_path)
    steps = []
    with pytest.raises(CheckpointError, match="no checkpoint"):
        learn_in_phases(
            network, x, checkpoint=tmp_path / "thesis.txt", callbacks=[steps.append], progress=False
        )
    assert steps == []


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limits on the size of files here")
@pytest.mark.parametrize("fails_at", [1, 6])
def test_a_full_disk_never_costs_the_result(problem, tmp_path, fails_at):
    """A limit on the size of files stands for a disk that fills up during the run."""
    network, x = problem
    resource = pytest.importorskip("resource")
    file = tmp_path / "run.safetensors"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(info):
        if info.state.step == fails_at:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))

    try:
        with pytest.warns(RuntimeWarning, match="cannot write the checkpoint"):
            result = nor.train(
                network, x, steps=6, checkpoint=file, checkpoint_every=0.0, callbacks=[fill]
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    whole = nor.train(network, x, steps=6)
    np.testing.assert_array_equal(result.network.theta, whole.network.theta)
    assert [path.name for path in tmp_path.iterdir()] == [file.name] * (fails_at > 1)
    if fails_at > 1:
        resumed = nor.train(network, x, steps=6, checkpoint=file, resume=True)
        np.testing.assert_array_equal(resumed.network.theta, whole.network.theta)


# ---- an interrupt at any place


def test_an_interrupt_between_any_two_lines_leaves_the_same_record(problem, tmp_path):
    """Interrupts come at every line of a step in turn, as Ctrl-C may."""
    network, x = problem
    x, held_out = x[:40], x[40:50]
    options = {"steps": 4, "held_out": held_out, "evaluate_every": 1, "progress": False}
    whole = nor.train(network, x, **options)
    file, code = tmp_path / "run.safetensors", Run.advance.__code__
    lines = sorted({line for _, _, line in code.co_lines() if line and line > code.co_firstlineno})
    inside = {Run.advance.__code__, Run.evaluate.__code__, Recorder.add.__code__}
    places = [
        (each, line)
        for each in inside
        for line in {line for _, _, line in each.co_lines() if line and line > each.co_firstlineno}
    ]
    assert len(places) > len(lines)
    interrupted = 0
    for place in places:
        file.unlink(missing_ok=True)
        count = itertools.count()

        def trace(frame, event, argument, place=place, count=count):
            if frame.f_code not in inside:
                return None
            if event == "line" and (frame.f_code, frame.f_lineno) == place and next(count) == 2:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            nor.train(network, x, checkpoint=file, **options)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        resumed = nor.train(network, x, checkpoint=file, resume=True, **options)
        assert resumed.history.evaluations == whole.history.evaluations, place
        np.testing.assert_array_equal(resumed.history.elbo, whole.history.elbo)
        np.testing.assert_array_equal(resumed.network.theta, whole.network.theta)
    assert interrupted >= 10
