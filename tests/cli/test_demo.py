from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noisyor import __version__
from noisyor.cli.main import main
from noisyor.demo.run import DEFAULT_STEPS


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Every test has a folder of its own, and the default folder is inside it."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_training(monkeypatch):
    """The errors that these tests are about must come before any work is done."""

    def refuse(*_, **__):
        pytest.fail("training started")

    for name in ("train", "learn_features"):
        monkeypatch.setattr(f"noisyor.demo.run.{name}", refuse)


SHORT = ["demo", "--algorithm", "paper", "--steps", "1"]

COMMAND = [sys.executable, "-c", "import sys; from noisyor.cli.main import main; sys.exit(main())"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def fails(capsys, arguments: list[str], *words: str) -> None:
    """The command ends with code 2 and one line that contains the words."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("noisyor: error: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err


class TestStart:
    def test_help_of_the_demo_names_every_option(self, capsys):
        assert main(["demo", "--help"]) == 0
        text = capsys.readouterr().out
        options = ("--out", "--seed", "--json", "--algorithm", "--steps", "--threads", "--quiet")
        for option in options:
            assert option in text
        for algorithm, steps in DEFAULT_STEPS.items():
            assert algorithm in text
            assert str(steps) in text


@pytest.mark.usefixtures("no_training")
class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            (["nonsense"], "nonsense"),
            (["--nonsense"], "--nonsense"),
            (["demo", "--nonsense"], "--nonsense"),
            (["demo", "extra"], "extra"),
            (["demo", "--out"], "--out"),
            (["demo", "--seed", "x"], "--seed"),
            (["demo", "--seed", "-1"], "seed"),
            (["demo", "--seed", str(2**63)], "seed"),
            (["demo", "--seed", "1.5"], "--seed"),
            (["demo", "--steps", "0"], "--steps"),
            (["demo", "--algorithm", "magic"], "--algorithm"),
            (["demo", "--threads", "0"], "--threads"),
        ],
    )
    def test_arguments(self, capsys, arguments, word):
        fails(capsys, arguments, word)
        assert not list(Path().iterdir())

    def test_number_of_threads_in_the_environment(self, capsys, monkeypatch):
        monkeypatch.setenv("NOISYOR_NUM_THREADS", "many")
        fails(capsys, ["demo"], "NOISYOR_NUM_THREADS")

    def test_out_is_a_file(self, capsys):
        Path("file").write_text("mine")
        fails(capsys, ["demo", "--out", "file"], "file", "Not a directory")
        fails(capsys, ["demo", "--out", "file/below"], "file/below", "Not a directory")
        assert Path("file").read_text() == "mine"

    @pytest.mark.parametrize("name", ["index.html", "model.safetensors"])
    def test_a_strange_file_in_out_is_not_replaced(self, capsys, name):
        Path("out").mkdir()
        (Path("out") / name).write_text("mine")
        fails(capsys, ["demo", "--out", "out"], name, "not written by the demo")
        assert (Path("out") / name).read_text() == "mine"

    def test_a_model_of_another_experiment_is_not_replaced(self, capsys):
        from noisyor import bipartite, save_network

        Path("out").mkdir()
        save_network("out/model.safetensors", bipartite(2, 1), metadata={"experiment": "mine"})
        fails(capsys, ["demo", "--out", "out"], "model.safetensors", "not written by the demo")

    @pytest.mark.parametrize(
        "content", ["mine", '{"experiment": "mine"}', "[1, 2]", "[" * 100_000, " " * 2_000_000]
    )
    def test_a_strange_json_file_is_not_replaced(self, capsys, content):
        Path("record.json").write_text(content)
        fails(capsys, ["demo", "--json", "record.json"], "record.json", "not written by the demo")
        assert Path("record.json").read_text() == content

    def test_a_folder_where_a_file_should_be(self, capsys):
        Path("out/index.html").mkdir(parents=True)
        fails(capsys, ["demo", "--out", "out"], "index.html", "not a regular file")
        fails(capsys, ["demo", "--json", "out"], "not a regular file")

    @pytest.mark.skipif(not Path("/dev/null").exists(), reason="no such device here")
    def test_a_device(self, capsys):
        fails(capsys, ["demo", "--json", "/dev/null"], "/dev/null", "not a regular file")
        assert Path("/dev/null").is_char_device()

    def test_json_is_the_page(self, capsys):
        fails(capsys, ["demo", "--json", "noisyor-demo/../noisyor-demo/index.html"], "another")

    def test_json_in_a_folder_that_is_a_file(self, capsys):
        Path("file").write_text("mine")
        fails(capsys, ["demo", "--json", "file/record.json"], "Not a directory")

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
    )
    def test_folder_without_permission(self, capsys):
        Path("locked").mkdir(mode=0o500)
        fails(capsys, ["demo", "--out", "locked/out"], "locked/out", "Permission denied")
        fails(capsys, ["demo", "--json", "locked/r.json"], "locked", "Permission denied")

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
    def test_a_disk_that_takes_nothing(self, capsys, monkeypatch, code):
        def fail(**_):
            raise OSError(code, os.strerror(code), "/some/temporary/name")

        monkeypatch.setattr("noisyor._util.paths.tempfile.TemporaryFile", fail)
        fails(capsys, ["demo"], f"noisyor-demo: {os.strerror(code)}")

    def test_missing_extra(self, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "jinja2", None)
        fails(capsys, ["demo"], 'pip install ".[report]"')

    def test_nothing_is_created_before_the_work_is_done(self, capsys):
        assert main(["demo", "--seed", "-1", "--out", "a/b", "--json", "c/d.json"]) == 2
        assert not list(Path().iterdir())


class TestWhileItRuns:
    def test_a_disk_that_fills_up_during_training(self, capsys, monkeypatch):
        def fail(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("noisyor._util.atomic.os.fsync", fail)
        fails(capsys, [*SHORT, "--quiet"], "noisyor-demo", "No space left")
        assert not list(Path("noisyor-demo").iterdir())

    @pytest.mark.parametrize(
        "where", ["noisyor.demo.run.learn_features", "noisyor.demo.run.generate_deconvolution"]
    )
    def test_interrupt(self, capsys, monkeypatch, where):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(where, interrupt)
        assert main(["demo", "--quiet"]) == 130
        assert capsys.readouterr().err.strip() == "noisyor: interrupted"
        assert not list(Path().iterdir())

    def test_out_of_memory(self, capsys, monkeypatch):
        def exhaust(*_, **__):
            raise MemoryError

        monkeypatch.setattr("noisyor.demo.run.learn_features", exhaust)
        fails(capsys, ["demo", "--quiet"], "out of memory")

    @pytest.mark.skipif(os.name == "nt", reason="signals differ")
    def test_control_c_in_the_middle_of_training(self):
        process = subprocess.Popen(
            [*COMMAND, "demo", "--algorithm", "paper", "--steps", "1000000", "--threads", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert "Looking" in process.stdout.readline()
            time.sleep(2.0)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert errors.strip() == "noisyor: interrupted"
        assert not list(Path().iterdir())


class TestResults:
    def test_files_and_what_is_printed(self, capsys):
        arguments = [*SHORT, "--out", "a/b", "--json", "c/r.json", "--seed", "3"]
        assert main(arguments) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        text = captured.out
        for word in ("square", "██", "IOU", "test RE", "test Elbo", "trivial", "active causes"):
            assert word in text
        for path in ("a/b/index.html", "a/b/model.safetensors", "c/r.json"):
            assert path in text
            assert Path(path).stat().st_size > 0
        assert max(map(len, text.splitlines())) <= 80
        assert sorted(path.name for path in Path("a/b").iterdir()) == [
            "index.html",
            "model.safetensors",
        ]

        record = json.loads(Path("c/r.json").read_text())
        assert set(record) == {
            "experiment",
            "settings",
            "seed",
            "metrics",
            "seconds",
            "environment",
        }
        assert record["experiment"] == "demo"
        assert record["seed"] == 3
        assert record["settings"]["steps"] == 1
        assert set(record["metrics"]) == {
            "features_iou",
            "test_re_pct",
            "test_elbo",
            "trivial_re_pct",
            "trivial_elbo",
        }
        assert set(record["seconds"]) == {"total", "training", "update_median"}
        assert record["seconds"]["total"] > record["seconds"]["training"] > 0
        assert record["environment"]["noisyor"] == __version__
        assert set(record["environment"]) == {"python", "numba", "numpy", "noisyor", "cpu_count"}

        # Again in the same place, quietly: its own files are replaced, the numbers are the same.
        assert main([*arguments, "--quiet", "--threads", "1"]) == 0
        assert capsys.readouterr() == ("", "")
        again = json.loads(Path("c/r.json").read_text())
        assert again["metrics"] == record["metrics"]
        assert again["settings"] | {"threads": 0} == record["settings"] | {"threads": 0}

    def test_an_empty_json_file_and_a_link_are_fine(self, capsys):
        Path("real.json").touch()
        Path("link.json").symlink_to("real.json")
        assert main([*SHORT, "--json", "link.json", "--quiet"]) == 0
        assert Path("link.json").is_symlink()
        assert json.loads(Path("real.json").read_text())["settings"]["steps"] == 1

    def test_a_terminal_without_blocks(self):
        done = run(*SHORT, PYTHONIOENCODING="ascii")
        assert done.returncode == 0
        assert "##" in done.stdout
        assert done.stderr == ""
