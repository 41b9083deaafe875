"""Max-product, then mean-field: the hand-over, and resuming across it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError, InvalidSettingError
from noisyor.learning import Phase, train_phases

RUN = {"mp_steps": 12, "vi_steps": 9, "batch_size": 8, "learning_rate": 0.02, "progress": False}


def make_problem():
    generator = np.random.default_rng(0)
    features = generator.random((4, 20)) < 0.3
    truth = nor.bipartite(20, 4, failure_probability=np.where(features, 0.1, 1.0))
    x = nor.sample(truth, 30, seed=1).visible
    network = nor.initialize(nor.bipartite(20, 4, fixed=("noise",)), "paper-3", "uniform", seed=3)
    return network, x


@pytest.fixture
def problem():
    return make_problem()


def test_hand_over_passes_parameters_and_nothing_else(problem):
    network, x = problem
    hybrid = nor.learning.train_hybrid(network, x, **RUN)
    common = {key: RUN[key] for key in ("batch_size", "learning_rate", "progress")}
    first = nor.train(network, x, nor.MaxProduct(), steps=12, **common)
    second = nor.train(first.network, x, nor.MeanField(), steps=9, **common)
    assert (hybrid["mp"].network.theta == first.network.theta).all()
    assert (hybrid.network.theta == second.network.theta).all()
    assert (hybrid["vi"].history.elbo == second.history.elbo).all()
    assert hybrid["vi"].state.optimizer.updates == 9


def test_methods_can_be_chosen(problem):
    network, x = problem
    chosen = nor.learning.train_hybrid(
        network,
        x,
        max_product=nor.MaxProduct(temperature=1.0),
        mean_field=nor.MeanField(local=True, tolerance=1e-3),
        **RUN,
    )
    assert (
        chosen.network.theta != nor.learning.train_hybrid(network, x, **RUN).network.theta
    ).any()


class StoppedError(Exception):
    """Raised in the middle of a run."""


@pytest.mark.parametrize("stop_at", [1, 5, 12, 13, 17, 20])
def test_resuming_in_either_phase_changes_no_bit(problem, tmp_path, stop_at):
    network, x = problem
    whole = nor.learning.train_hybrid(network, x, held_out=x, evaluate_every=4, **RUN)
    steps = []

    def stop(info):
        steps.append(info.state.step)
        if len(steps) == stop_at:
            raise StoppedError

    path = tmp_path / "run"
    keywords = {**RUN, "held_out": x, "evaluate_every": 4, "checkpoint": path}
    with pytest.raises(StoppedError):
        nor.learning.train_hybrid(network, x, callbacks=[stop], **keywords)
    done = len(steps)
    resumed = nor.learning.train_hybrid(
        network, x, callbacks=[stop], resume=True, engine=get_engine(n_threads=1), **keywords
    )
    assert len(steps) == 21  # each step once, in one run or the other
    assert done == stop_at
    assert (resumed.network.theta == whole.network.theta).all()
    for name in ("mp", "vi"):
        one, other = resumed[name].history, whole[name].history
        assert (one.elbo == other.elbo).all()
        assert one.evaluations == other.evaluations


def test_a_finished_first_phase_is_not_run_again(problem, tmp_path):
    network, x = problem
    path = tmp_path / "run"
    nor.learning.train_hybrid(network, x, checkpoint=path, **{**RUN, "vi_steps": 0})
    seen = []
    nor.learning.train_hybrid(
        network, x, checkpoint=path, resume=True, callbacks=[lambda i: seen.append(i)], **RUN
    )
    assert [info.state.step for info in seen] == list(range(1, 10))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.mp", "run.vi"]


@pytest.mark.long
def test_a_kill_costs_nothing_but_time(problem, tmp_path):
    network, x = problem
    path, script = tmp_path / "run", tmp_path / "script.py"
    script.write_text(
        "import sys, time\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "import noisyor as nor\n"
        "from test_phases import RUN, make_problem\n"
        "network, x = make_problem()\n"
        "def slow(info):\n"
        "    print(info.state.step, flush=True)\n"
        "    time.sleep(0.05)\n"
        f"nor.learning.train_hybrid(network, x, checkpoint={str(path)!r}, checkpoint_every=0.0,\n"
        "    callbacks=[slow], **RUN)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(16)]  # into the second phase
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert lines[-1].strip() == "4"
    time.sleep(0.01)
    resumed = nor.learning.train_hybrid(network, x, checkpoint=path, resume=True, **RUN)
    whole = nor.learning.train_hybrid(network, x, **RUN)
    assert (resumed.network.theta == whole.network.theta).all()
    assert (resumed["vi"].history.elbo == whole["vi"].history.elbo).all()


def test_a_callback_can_stop_training_and_resume_goes_on(problem, tmp_path):
    network, x = problem
    path = tmp_path / "run"
    stopped = nor.learning.train_hybrid(
        network, x, checkpoint=path, callbacks=[lambda info: info.state.step == 5], **RUN
    )
    assert "vi" not in stopped
    assert (stopped.network.theta == stopped["mp"].network.theta).all()
    resumed = nor.learning.train_hybrid(network, x, checkpoint=path, resume=True, **RUN)
    assert (
        resumed.network.theta == nor.learning.train_hybrid(network, x, **RUN).network.theta
    ).all()


def test_checkpoints_of_another_run_are_refused(problem, tmp_path):
    network, x = problem
    path = tmp_path / "run"
    nor.learning.train_hybrid(network, x, checkpoint=path, **RUN)
    with pytest.raises(CheckpointError, match="another run"):
        nor.learning.train_hybrid(network, x[1:], checkpoint=path, resume=True, **RUN)
    with pytest.raises(CheckpointError, match="another run"):
        nor.learning.train_hybrid(
            network, x, checkpoint=path, resume=True, mean_field=nor.MeanField(outer=2), **RUN
        )


@pytest.mark.parametrize("wrong", [{"mp_steps": -1}, {"vi_steps": -2}, {"resume": True}])
def test_settings_that_make_no_sense_are_refused(problem, wrong):
    with pytest.raises(InvalidSettingError, match=r"steps|resume"):
        nor.learning.train_hybrid(*problem, **{**RUN, **wrong})


# ---- any phases

PHASES = [
    Phase("a", nor.MaxProduct(), 3),
    Phase("b", nor.MaxProduct(temperature=1.0), 4),
    Phase("c", nor.MeanField(outer=2), 2),
]


def test_callbacks_are_told_of_the_steps_before_their_phase(problem, tmp_path):
    seen = []
    run = train_phases(
        *problem,
        PHASES,
        callbacks=[lambda info: seen.append((info.earlier_steps, info.state.step))],
        checkpoint=tmp_path / "run",
        progress=False,
    )
    assert [before + step for before, step in seen] == list(range(1, 10))
    assert [len(result.history.seconds) for result in run.results] == [3, 4, 2]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.a", "run.b", "run.c"]


def test_the_times_of_an_earlier_attempt_are_known(problem, tmp_path):
    options = {"checkpoint": tmp_path / "run", "progress": False, "resume": True}
    stop = [lambda info: info.earlier_steps + info.state.step == 5]
    first = train_phases(*problem, PHASES, callbacks=stop, **options)
    assert [result.state.step for result in first.results] == [3, 2]
    second = train_phases(*problem, PHASES, **options)
    assert [result.resumed_at for result in second.results] == [3, 2, 0]
    for before, after in zip(first.results, second.results[:2], strict=True):
        assert (after.history.seconds[: after.resumed_at] == before.history.seconds).all()
    whole = train_phases(*problem, PHASES, progress=False)
    assert (second.network.theta == whole.network.theta).all()


def test_a_damaged_checkpoint_is_an_error(problem, tmp_path):
    options = {"checkpoint": tmp_path / "run", "progress": False, "resume": True}
    train_phases(*problem, PHASES, **options)
    (tmp_path / "run.b").write_bytes(b"damaged")
    with pytest.raises(CheckpointError):
        train_phases(*problem, PHASES, **options)


@pytest.mark.parametrize(
    ("phases", "options"),
    [([], {}), (PHASES, {"steps": 3}), ([Phase("a", nor.MaxProduct(), -1)], {})],
)
def test_phases_that_make_no_sense_are_refused(problem, phases, options):
    with pytest.raises(InvalidSettingError, match=r"phases|steps"):
        train_phases(*problem, phases, **options)
