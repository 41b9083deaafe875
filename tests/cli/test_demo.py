"""The command ``noisyor demo``: it finds the shapes, and its errors come before the work."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from noisyor.cli.main import main
from noisyor.io.model_file import load_model

LEARN = "noisyor.estimators.models.learn_features"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Every test has a folder of its own, and the default folder is inside it."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_training(monkeypatch):
    """The errors of these tests must come before any work is done."""
    monkeypatch.setattr(LEARN, lambda *_, **__: pytest.fail("training started"))


def fails(capsys, arguments: list[str], *words: str) -> None:
    """The command ends with code 2 and one line that contains the words."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("noisyor: error: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err


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
            (["demo", "--threads", "0"], "--threads"),
        ],
    )
    def test_arguments(self, capsys, arguments, word):
        fails(capsys, arguments, word)
        assert not list(Path().iterdir())

    def test_out_is_a_file(self, capsys):
        Path("file").write_text("mine")
        fails(capsys, ["demo", "--out", "file", "--quiet"], "file", "Not a directory")
        fails(capsys, ["demo", "--out", "file/below", "--quiet"], "file/below")
        assert Path("file").read_text() == "mine"

    @pytest.mark.parametrize("name", ["index.html", "model.safetensors"])
    def test_a_foreign_file_is_not_replaced(self, capsys, name):
        Path("out").mkdir()
        (Path("out") / name).write_text("mine")
        fails(capsys, ["demo", "--out", "out", "--quiet"], name, "not written by")
        assert (Path("out") / name).read_text() == "mine"

    def test_a_folder_where_a_file_should_be(self, capsys):
        Path("out/index.html").mkdir(parents=True)
        fails(capsys, ["demo", "--out", "out", "--quiet"], "index.html", "not a regular file")

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
    def test_a_disk_that_takes_nothing(self, capsys, monkeypatch, code):
        def fail(**_):
            raise OSError(code, os.strerror(code), "/some/temporary/name")

        monkeypatch.setattr("noisyor._util.files.tempfile.TemporaryFile", fail)
        fails(capsys, ["demo", "--quiet"], f"noisyor-demo: {os.strerror(code)}")

    def test_missing_extra(self, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "jinja2", None)
        fails(capsys, ["demo", "--quiet"], 'pip install ".[report]"')


class TestWhileItRuns:
    def test_interrupt(self, capsys, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(LEARN, interrupt)
        assert main(["demo", "--quiet"]) == 130
        assert capsys.readouterr().err.strip() == "noisyor: interrupted"
        assert not list(Path().iterdir())

    def test_out_of_memory(self, capsys, monkeypatch):
        def exhaust(*_, **__):
            raise MemoryError

        monkeypatch.setattr(LEARN, exhaust)
        fails(capsys, ["demo", "--quiet"], "out of memory")


def test_the_four_shapes_are_found(capsys):
    """The promise of the demo: all shapes, and images it has not seen reconstructed with them."""
    assert main(["demo", "--out", "a/b"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    text = captured.out
    for word in ("4 of 4 shapes", "square 1.00", "diamond 1.00", "a/b/index.html"):
        assert word in text
    assert "reconstruct 100\u00a0% of the pixels in 20 images" in text
    assert max(map(len, text.splitlines())) <= 80
    assert {path.name for path in Path("a/b").iterdir()} == {"index.html", "model.safetensors"}
    assert "<h1>4 features reconstruct" in Path("a/b/index.html").read_text("utf-8")
    network, metadata = load_model(Path("a/b/model.safetensors"))
    assert metadata["kind"] == "features"
    assert network.visible_shape == (14, 14)
    # Again in the same folder, quietly: its own files are replaced.
    assert main(["demo", "--out", "a/b", "--quiet", "--threads", "1"]) == 0
    assert capsys.readouterr() == ("", "")
    assert load_model(Path("a/b/model.safetensors"))[0].theta.tolist() == network.theta.tolist()
