"""Every experiment from end to end, on small data and with few steps."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from noisyor._util.files import _open_part, locked
from reproduction import experiment
from reproduction.__main__ import main
from reproduction.comparison import entries
from reproduction.protocol import RunSpec
from reproduction.record import Record
from reproduction.runner import Sweep, run_sweep

COMMAND = [sys.executable, "-m", "reproduction"]
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def reproduce(*arguments: str) -> list[dict]:
    """Run the command quietly and return the test runs that are recorded."""
    assert main(["run", *arguments, "--threads", "1", "--out", "record", "--quiet"]) == 0
    runs = Record(Path("record")).runs(arguments[0])
    return [run for run in runs if run["part"] == "test"]


def metrics_of(runs: list[dict]) -> dict:
    return {(r["method"], r["case"], r["init"], r["seed"]): r["metrics"] for r in runs}


def check_schema(runs: list[dict], names: set[str]) -> None:
    assert runs
    for run in runs:
        assert {"seed", "init", "method", "metrics", "seconds", "environment"} <= set(run)
        assert {"total", "update_median"} <= set(run["seconds"])
        assert run["seconds"]["total"] > 0
        assert names <= set(run["metrics"])
        assert all(np.isfinite(value) for value in run["metrics"].values())


@pytest.mark.usefixtures("small_data")
class TestEveryExperiment:
    def test_deconvolution(self, capsys):
        arguments = ["deconvolution", "--steps", "4", "--seeds", "0-1", "--init", "paper-3"]
        result = reproduce(*arguments)
        names = {"test_elbo", "test_elbo_mp", "test_re_pct", "features_iou"}
        check_schema(result, names | {"trivial_elbo", "trivial_re_pct", "validation_elbo"})
        # the same command again does nothing and prints the table
        before = Path("record/runs.jsonl").read_bytes()
        assert main(["run", *arguments, "--out", "record"]) == 0
        assert "test RE" in capsys.readouterr().out
        assert Path("record/runs.jsonl").read_bytes() == before

    def test_overparam(self):
        result = reproduce(
            *("overparam", "--dataset", "IMG", "--dataset", "PLNT", "--components", "8"),
            *("--steps", "3", "--seeds", "2", "--validation-seeds", "0"),
        )
        check_schema(result, {"recovered", "full_recovery_pct", "test_elbo", "trivial_recovered"})
        assert {run["init"] for run in result} == {"paper-3", "paper-4"}
        assert all("validation_elbo" not in run["metrics"] for run in result)

    def test_bmf(self):
        result = reproduce(
            "bmf", "--size", "12,3", "--steps", "3", "--seeds", "0", "--init=paper-1"
        )
        check_schema(result, {"test_elbo", "test_re_pct", "trivial_re_pct", "validation_elbo"})

    def test_bmf_learns(self):
        result = reproduce(
            *("bmf", "--size", "40,2", "--steps", "1500", "--seeds", "0", "--init=paper-3"),
            *("--validation-seeds", "0"),
        )
        metrics = result[0]["metrics"]
        assert metrics["test_elbo"] > metrics["trivial_elbo"]
        assert metrics["test_re_pct"] < metrics["trivial_re_pct"]

    @pytest.mark.parametrize(
        "arguments", [["bmf", "--size", "12,3", "--seeds", "0"], ["deconvolution", "--seeds", "0"]]
    )
    @pytest.mark.parametrize("method", ["pmp", "pmp-two-stage"])
    def test_joint_max_product(self, arguments, method):
        result = reproduce(*arguments, "--method", method, "--steps", "5")
        check_schema(result, {"test_re_pct", "test_re_pct_mode", "trivial_re_pct"})
        assert len(result) == (1 if arguments[0] == "bmf" else 2)
        assert all(run["seconds"]["update_median"] is None for run in result)

    def test_the_papers_order_of_messages(self):
        common = ("--size", "30,6", "--steps", "300", "--seeds", "0", "--init=paper-3")
        methods = ("--method", "mp", "--method", "mp-two-stage", "--validation-seeds", "0")
        result = reproduce("bmf", *common, *methods)
        ours = {run["method"]: run["metrics"]["test_elbo"] for run in result}
        assert ours["mp"] != ours["mp-two-stage"]
        runs = Record(Path("record")).lines()
        schedules = {run["settings"]["mp"]["schedule"] for run in runs}
        assert schedules == {"collapsed", "two-stage"}

    @pytest.mark.parametrize("method", ["mp", "vi", "local-vi", "hybrid", "hybrid-two-stage"])
    def test_tiny20(self, method):
        result = reproduce(
            *("tiny20", "--method", method, "--steps", "3", "--seeds", "0", "--init", "paper-2")
        )
        names = {"test_elbo", "test_elbo_mp", "test_elbo_vi", "validation_elbo", "trivial_elbo"}
        check_schema(result, names)
        metrics = result[0]["metrics"]
        assert metrics["test_elbo"] == max(metrics["test_elbo_mp"], metrics["test_elbo_vi"])
        assert ("mp_phase_test_elbo" in metrics) == method.startswith("hybrid")
        if method.startswith("hybrid"):
            first_phase = method.replace("hybrid", "mp")
            lines = entries(experiment("tiny20"), result)
            assert {line.group.method for line in lines} == {first_phase, method}

    @pytest.mark.parametrize("method", ["mp", "local-vi", "hybrid"])
    def test_text(self, method):
        result = reproduce(
            *("text", "--dataset", "IMDB", "--method", method, "--steps", "10", "--seeds", "0"),
            *("--init", "paper-2", "--validation-seeds", "0"),
        )
        check_schema(result, {"test_elbo", "test_elbo_mp", "test_elbo_vi", "trivial_elbo"})

    def test_variational_factorization_and_deconvolution(self):
        common = ("--method", "vi", "--steps", "2", "--seeds", "0", "--init", "paper-2")
        for arguments in (("bmf", "--size", "12,3"), ("deconvolution",)):
            result = reproduce(*arguments, *common)
            check_schema(result, {"test_elbo", "test_elbo_vi", "test_elbo_mp", "test_re_pct"})

    def test_the_same_seed_gives_the_same_numbers(self):
        arguments = ["overparam", "--dataset=CON8", "--components=9", "--steps=5", "--seeds=0"]
        first = reproduce(*arguments)
        again = reproduce(*arguments, "--no-resume")
        assert metrics_of(first) == metrics_of(again)

    def test_page_and_figures_from_the_runs(self, capsys, monkeypatch):
        short = replace(experiment("deconvolution"), steps=lambda method: 3)
        monkeypatch.setattr("reproduction.one_layer.DECONVOLUTION", short)
        reproduce("deconvolution", "--seeds", "0", "--init=paper-3")
        write = ["page", "--record", "record", "--out", "docs/page.md", "--runs", "runs.md"]
        assert main(write) == 0
        runs = Path("runs.md").read_text()
        assert "| BD | mp, 3 | two-stage, gaussian, stop 0.001 | paper-3 (1 of 4 run) | 0 |" in runs
        assert "run deconvolution --method mp-two-stage" in Path("docs/page.md").read_text()
        assert main(write) == 0
        assert main(["figures", "--record", "record", "--out", "pictures"]) == 0
        written = capsys.readouterr().out.split()
        assert len(written) == 10
        assert all(Path(path).stat().st_size for path in written)

    def test_files_of_others_are_not_replaced(self, capsys):
        Path("mine.md").write_text("# Mine")
        Path("empty").mkdir()
        assert main(["page", "--record", "empty", "--out", "mine.md"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert Path("mine.md").read_text() == "# Mine"


@pytest.mark.usefixtures("small_data")
class TestInterruption:
    SPEC = RunSpec("overparam", "mp", "IMG,8", "paper-3", 0, 60)

    def test_an_interrupted_run_goes_on_from_its_checkpoint(self, monkeypatch):
        run_sweep(Sweep([self.SPEC], Path("whole"), threads=1, progress=False))
        steps: list[int] = []

        def stop_at_forty(done, total):
            steps.append(done)
            if done == 40 and len(steps) == 40:
                raise KeyboardInterrupt

        from reproduction import runner

        execute = runner.execute
        monkeypatch.setattr(
            runner, "execute", lambda spec, out, n, _: execute(spec, out, n, stop_at_forty)
        )
        sweep = Sweep([self.SPEC], Path("broken"), threads=1, progress=False)
        with pytest.raises(KeyboardInterrupt):
            run_sweep(sweep)
        assert Record(Path("broken")).lines() == []
        assert len(list(Path("broken/checkpoints/overparam").iterdir())) == 1
        run_sweep(sweep)
        assert steps == [*range(1, 41), *range(41, 61)]
        assert not list(Path("broken/checkpoints").iterdir())
        (whole,), (broken,) = Record(Path("whole")).runs(), Record(Path("broken")).runs()
        assert whole["metrics"] == broken["metrics"]
        for name, array in whole["arrays"].items():
            np.testing.assert_array_equal(array, broken["arrays"][name])

    def test_a_damaged_checkpoint_only_costs_time(self):
        Path("out/checkpoints/overparam").mkdir(parents=True)
        path = Path(f"out/checkpoints/overparam/{self.SPEC.name}.mp")
        path.write_bytes(b"rubbish")
        run_sweep(Sweep([self.SPEC], Path("out"), threads=1, progress=False))
        assert len(Record(Path("out")).runs()) == 1

    def test_a_damaged_record_is_named(self, capsys):
        reproduce("overparam", "--dataset=IMG", "--components=8", "--steps=1", "--seeds=0")
        path = Path("record/runs.jsonl")
        path.write_text(path.read_text()[:50])
        arguments = ["overparam", "--dataset=IMG", "--components=8", "--steps=1", "--seeds=0"]
        assert main(["run", *arguments, "--quiet", "--out", "record"]) == 2
        error = capsys.readouterr().err
        assert str(path) in error
        assert error.count("\n") == 1


SWEEP = [
    "run",
    "bmf",
    "--size",
    "12,3",
    "--init",
    "paper-3",
    "--threads",
    "1",
    "--out",
    "out",
    "--validation-seeds",
    "0",
]


def sweep_process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *SWEEP, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def wait_for_a_record() -> None:
    for _ in range(2400):
        if Path("out/runs.jsonl").exists():
            return
        time.sleep(0.05)
    pytest.fail("no run was finished")


def children_of(process: int) -> list[int]:
    """Numbers of the processes that a process has started, none where the system does not tell."""
    try:
        return [
            int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()
        ]
    except OSError:
        return []


def wait_until_gone(processes: list[int]) -> None:
    for _ in range(600):
        if not any(Path(f"/proc/{number}").exists() for number in processes):
            return
        time.sleep(0.05)
    pytest.fail("processes live on without their parent")


@pytest.fixture(scope="module")
def _compiled(tmp_path_factory):
    """Kernels are in the cache, so that processes start at once."""
    out = tmp_path_factory.mktemp("compiled")
    spec = RunSpec("bmf", "mp", "12,3", "paper-3", 0, 1)
    run_sweep(Sweep([spec], out, threads=1, progress=False))


def test_two_sweeps_do_not_run_one_experiment(capsys):
    Path("out").mkdir()
    with locked(Path("out/bmf")):
        assert main(["run", "bmf", "--steps", "1", "--out", "out", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "out/bmf is in use" in error
    assert error.count("\n") == 1
    assert not list(Path("out").iterdir())


@pytest.mark.skipif(os.name == "nt", reason="files of other processes cannot be removed")
def test_files_of_a_run_that_was_killed_after_its_record_are_removed():
    spec = RunSpec("bmf", "mp", "12,3", "paper-3", 0, 1)
    sweep = Sweep([spec], Path("out"), threads=1, progress=False)
    run_sweep(sweep)
    folder = Path("out/checkpoints/bmf")
    folder.mkdir()
    handle, _ = _open_part(folder / f"{spec.name}.mp")
    os.close(handle)
    (folder / f"{spec.name}.mp").touch()
    run_sweep(sweep)
    assert not folder.exists()


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
@pytest.mark.usefixtures("_compiled")
class TestProcesses:
    @pytest.mark.long
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_stop_in_two_processes_and_go_on(self, number, capsys):
        arguments = ("--seeds", "0-2", "--steps", "700")
        process = sweep_process(*arguments, "--jobs", "2")
        try:
            wait_for_a_record()
            workers = children_of(process.pid)
            if number == signal.SIGTERM:  # as service managers do
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
        wait_until_gone(workers)
        before = Path("out/runs.jsonl").read_bytes()
        assert before
        if number != signal.SIGKILL and process.returncode != 0:
            assert process.returncode == 130
            assert "to continue" in errors
            assert "Traceback" not in errors
        assert main([*SWEEP, *arguments]) == 0  # here: starting processes takes most of the time
        assert "test Elbo" in capsys.readouterr().out
        assert len(Record(Path("out")).runs()) == 3
        assert Path("out/runs.jsonl").read_bytes().startswith(before)
        assert Record(Path("out")).faults() == []
        left = [path.name for path in Path("out/checkpoints").rglob("*")]
        assert not left

    def test_processes_and_threads_do_not_change_the_numbers(self):
        process = sweep_process("--seeds", "0-1", "--steps", "20", "--jobs", "2", "--quiet")
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0
        assert errors == ""
        here = reproduce(
            *("bmf", "--size", "12,3", "--init", "paper-3", "--seeds", "0-1", "--steps", "20"),
            *("--validation-seeds", "0"),
        )
        assert metrics_of(here) == metrics_of(Record(Path("out")).runs())

    def test_an_error_in_a_process_is_one_line(self):
        Path("data").mkdir()
        Path("data/ovpm_IMG.npz").write_bytes(b"rubbish")
        arguments = "overparam --dataset IMG --components 8 --seeds 0-1 --jobs 2 --steps 1 --quiet"
        done = subprocess.run(
            [*COMMAND, "run", *arguments.split(), "--out", "record"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**ENVIRONMENT, "NOISYOR_DATA": "data"},
        )
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "ovpm_IMG.npz" in done.stderr
        assert not Path("record/runs.jsonl").exists()


def test_a_kill_while_the_manifest_is_written(tmp_path, monkeypatch):
    """The run is recorded then, so that nothing is written again; the temporary file must go."""
    monkeypatch.chdir(tmp_path)
    line = [*SWEEP, "--seeds", "0", "--steps", "5", "--quiet", "--out", "record"]
    assert main(line) == 0
    prefix = hashlib.sha256(b"MANIFEST.sha256").hexdigest()[:16]
    left = tmp_path / "record" / f".{prefix}.abcd1234.noisyor-part"
    left.write_bytes(b"half")
    assert main(line) == 0
    assert not left.exists()
