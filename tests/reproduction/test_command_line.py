"""The commands that reproduce the paper: wrong options, in the words of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.__main__ import main
from reproduction.runner import SweepError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nonsense"], "nonsense"),
        (["bmf", "--size", "100"], "n,r"),
        (["bmf", "--size", "0,3"], "n,r"),
        (["bmf", "--dataset", "IMG"], "takes --size, not --dataset"),
        (["bmf", "--seeds", "a"], "--seeds"),
        (["bmf", "--seeds", "5-2"], "--seeds"),
        (["bmf", "--seeds", ""], "--seeds"),
        (["bmf", "--init", "mine"], "mine"),
        (["bmf", "--method", "local-vi"], "local-vi"),
        (["overparam", "--dataset", "nonsense"], "IMG-FLIP"),
        (["overparam", "--components", "0"], "--components"),
        (["overparam", "--method", "vi"], "vi"),
        (["text", "--dataset", "nonsense"], "IMDB"),
        (["tiny20", "--size", "3,2"], "takes --dataset, not --size"),
        (["tiny20", "--dataset", "IMG"], "tiny20 has no data set 'IMG'"),
        (["deconvolution", "--components", "3"], "takes --dataset, not --components"),
        (["tiny20", "--steps", "0"], "--steps"),
        (["tiny20", "--jobs", "0"], "--jobs"),
        (["tiny20", "--noise", "uniform"], "tiny20 starts with noise none, got 'uniform'"),
        (["bmf", "--noise", "none"], "--noise"),
        (["bmf", "--damping", "1"], "--damping must be"),
        (["bmf", "--tolerance", "-1"], "--tolerance must be"),
        (["bmf", "--method", "vi", "--damping", "0.7"], "mean field has no --damping"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(capsys, arguments, word):
    assert main(["run", *arguments, "--out", "out"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert word in captured.err
    assert not list(Path().iterdir())


def test_out_is_a_file(capsys):
    Path("file").touch()
    assert main(["run", "bmf", "--size", "2,1", "--out", "file", "--quiet"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", ["figures", "page"])
def test_a_record_that_does_not_exist(capsys, command):
    assert main([command, "--record", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_process_that_died_is_one_line_with_the_flag(capsys, monkeypatch):
    def die(sweep):
        raise SweepError("a process ended unexpectedly; run the same sweep again with fewer jobs")

    monkeypatch.setattr("reproduction.runner.run_sweep", die)
    assert main(["run", "bmf", "--size", "2,1", "--seeds", "0", "--quiet", "--out", "out"]) == 2
    assert "again with fewer --jobs" in capsys.readouterr().err


def test_a_range_of_seeds_is_not_written_out(capsys):
    assert main(["run", "bmf", "--seeds", "0-999999999999", "--out", "out"]) == 2
    assert "--seeds: more than 10,000 seeds" in capsys.readouterr().err
