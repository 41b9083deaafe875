"""Runs that are stopped, go on, or meet another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patients_table import FIT, run

import noisyor as nor
from noisyor._util.files import locked
from noisyor.cli.main import main

pytestmark = pytest.mark.usefixtures("patients_folder")


class TestStops:
    def test_a_stopped_run_goes_on_to_the_same_bits(self, capsys, monkeypatch):
        import noisyor.learning.train as training

        whole = Path("patients.safetensors").read_bytes()
        theta = nor.load_network("patients.safetensors").theta
        step, done = training.update, []

        def interrupted(state, *arguments, **options):
            done.append(state.step)
            if state.step == 100:
                raise KeyboardInterrupt
            return step(state, *arguments, **options)

        monkeypatch.setattr(training, "update", interrupted)
        assert main([*FIT, "--out", "m.safetensors", "--quiet"]) == 130
        captured = capsys.readouterr()
        assert "--resume continues" in captured.err
        assert captured.err.endswith("noisyor: interrupted\n")
        assert not Path("m.safetensors").exists()
        assert Path("m.safetensors.checkpoint").exists()

        # Another fit does not throw the kept run away.
        assert main([*FIT, "--out", "m.safetensors"]) == 2
        assert "--resume continues" in capsys.readouterr().err

        monkeypatch.setattr(training, "update", step)
        run(capsys, *FIT, "--out", "m.safetensors", "--resume", "--quiet")
        assert nor.load_network("m.safetensors").theta.tobytes() == theta.tobytes()
        assert not list(Path().glob("*.checkpoint*"))
        assert Path("patients.safetensors").read_bytes() == whole

    def test_before_anything_is_learned(self, capsys, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("noisyor.tables.table.read_table", interrupt)
        assert main([*FIT, "--out", "m.safetensors"]) == 130
        assert capsys.readouterr().err.strip() == "noisyor: interrupted"
        assert not list(Path().glob("m.*"))

    @pytest.mark.skipif(os.name == "nt", reason="signals differ")
    def test_control_c(self):
        code = "import sys; from noisyor.cli.main import main; sys.exit(main(sys.argv[1:]))"
        arguments = [*FIT[:-1], "1000000", "--out", "m.safetensors", "--threads", "1"]
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            kept = Path("m.safetensors.checkpoint.search")
            deadline = time.monotonic() + 60
            while not kept.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert "--resume continues" in errors
        assert "Traceback" not in errors
        assert kept.exists()

    def test_a_search_that_is_stopped_goes_on_to_the_same_bits(self, capsys, monkeypatch):
        import noisyor.search.factors as factors

        theta = nor.load_network("patients.safetensors").theta
        start = factors.FactorSearch.start

        def interrupted(search, kind, number, size):
            if number == 1:
                raise KeyboardInterrupt
            return start(search, kind, number, size)

        monkeypatch.setattr(factors.FactorSearch, "start", interrupted)
        assert main([*FIT, "--out", "m.safetensors", "--quiet"]) == 130
        assert "--resume continues" in capsys.readouterr().err
        assert Path("m.safetensors.checkpoint.search").exists()

        # Other settings are another run.
        assert main([*FIT, "--out", "m.safetensors", "--resume", "--seed", "9"]) == 2
        assert "belongs to another run" in capsys.readouterr().err

        # The best so far can also be had at once.
        for path in Path().glob("m.safetensors.checkpoint*"):
            path.with_name("n" + path.name[1:]).write_bytes(path.read_bytes())
        again = [*FIT, "--out", "n.safetensors", "--resume", "--quiet"]
        assert main([*again, "--time-limit", "1e-3"]) == 0
        assert nor.load_network("n.safetensors").n_hidden == 3

        monkeypatch.setattr(factors.FactorSearch, "start", start)
        run(capsys, *FIT, "--out", "m.safetensors", "--resume", "--quiet")
        assert nor.load_network("m.safetensors").theta.tobytes() == theta.tobytes()
        assert not list(Path().glob("*.checkpoint*"))

    def test_a_limit_of_time(self, capsys):
        # a thousandth of a second is enough for a model, if not for a good one
        assert main([*FIT, "--out", "m.safetensors", "--quiet", "--time-limit", "1e-3"]) in (0, 1)
        network = nor.load_network("m.safetensors")
        assert (network.n_visible, network.n_hidden) == (12, 3)
        assert not list(Path().glob("*.checkpoint*"))

    def test_a_foreign_file_in_the_place_of_the_search_stays(self, capsys):
        Path("m.safetensors.checkpoint.search").write_text("precious")
        assert main([*FIT, "--out", "m.safetensors", "--force"]) == 2
        assert "was not written by a run" in capsys.readouterr().err
        assert Path("m.safetensors.checkpoint.search").read_text() == "precious"


class TestTwoAtOnce:
    def test_the_second_fit_names_the_first(self, capsys):
        before = Path("patients.safetensors").read_bytes()
        with locked(Path("patients.safetensors")):
            assert main([*FIT, "--force", "--quiet"]) == 2
        error = capsys.readouterr().err
        assert "patients.safetensors is in use" in error
        assert error.count("\n") == 1
        assert Path("patients.safetensors").read_bytes() == before

    def test_no_lock_is_left(self, capsys):
        run(capsys, *FIT, "--out", "m.safetensors", "--steps", "1")
        assert not list(Path().glob(".*"))


def test_the_first_checkpoint_is_announced_once(capsys):
    from noisyor._util.progress import LOG
    from noisyor.cli.fit import _announce_first_checkpoint
    from noisyor.learning.state import SAVED

    level = LOG.level
    _announce_first_checkpoint()
    try:
        LOG.info("something else")
        assert capsys.readouterr().err == ""
        for _ in range(2):
            LOG.info(SAVED, "zoo")
        assert capsys.readouterr().err.count("--resume --time-limit 1") == 1
    finally:
        LOG.setLevel(level)


@pytest.mark.parametrize("n_removed", [0, 1])
def test_a_kill_while_files_are_removed_leaves_a_run_that_resumes(tmp_path, monkeypatch, n_removed):
    table = tmp_path / "table.csv"
    table.write_text("a,b,c\n" + "1,1,0\n0,0,1\n" * 10)
    model, unlink, left = tmp_path / "m.safetensors", Path.unlink, [n_removed]

    def removed(path, missing_ok=False):
        if ".checkpoint" in path.name and path.exists():
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", removed)
    fit = ["fit", str(table), "--components", "2", "--steps", "5", "--quiet", "--out", str(model)]
    assert main(fit) == 130
    monkeypatch.undo()
    assert main([*fit, "--force", "--resume"]) == 0
    assert [path.name for path in tmp_path.glob("*.checkpoint*")] == []
