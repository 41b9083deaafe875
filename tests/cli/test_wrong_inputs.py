"""Wrong inputs through the real entry: one line, code 2, and the user's files as they were."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from wrong_inputs import CASES, FIT, GOOD

import noisyor as nor
from noisyor.cli.main import main


@pytest.fixture(scope="module")
def clinic(tmp_path_factory) -> bytes:
    """A small model of known parameters."""
    path = tmp_path_factory.mktemp("clinic") / "clinic.safetensors"
    network = nor.from_edges(
        3,
        2,
        [(0, 0), (0, 1), (1, 0), (1, 2)],
        failure_probability=[0.1, 0.2, 0.3, 0.1],
        visible_names=["fever", "cough", "rash"],
        hidden_names=["flu", "measles"],
    )
    nor.save_network(path, network, metadata={"kind": "network"})
    return path.read_bytes()


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch, clinic):
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text(GOOD)
    Path("clinic.safetensors").write_bytes(clinic)


def snapshot() -> dict[str, str]:
    """Every file below the folder with its content, and every folder."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(Path().rglob("*"))
    }


@pytest.mark.parametrize("name", CASES)
def test_wrong_input(name, capsys):
    prepare, arguments, words = CASES[name]
    prepare()
    before = snapshot()
    code = main(arguments)
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, ""), captured.err
    assert captured.err.startswith("noisyor: error: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    for word in words:
        assert word in captured.err
    assert snapshot() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_on_a_full_disk(unbuffered):
    import subprocess
    import sys

    command = ["info", "clinic.safetensors"]
    code = f"import sys; from noisyor.cli.main import main; sys.exit(main({command!r}))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "the output cannot be written: No space left" in done.stderr


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_folder_that_is_read_only(capsys):
    Path("locked").mkdir(mode=0o500)
    assert main([*FIT, "--out", "locked/m.safetensors"]) == 2
    assert "Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize("code", ["ENOSPC", "EROFS", "EACCES"])
def test_a_disk_that_takes_nothing(capsys, monkeypatch, code):
    import errno

    number = getattr(errno, code)

    def fail(**_):
        raise OSError(number, os.strerror(number), "/some/temporary/name")

    monkeypatch.setattr("noisyor._util.files.tempfile.TemporaryFile", fail)
    before = snapshot()
    assert main(FIT) == 2
    captured = capsys.readouterr()
    assert captured.err == f"noisyor: error: .: {os.strerror(number)}\n"
    assert snapshot() == before


class TestOddButRight:
    """Inputs that look wrong and are not."""

    @pytest.mark.parametrize(
        ("text", "extra"),
        [
            ("a,b\n1,0\n", []),  # one row
            ("a,b\n1,0\n1,0\n", []),  # a column of zeros, one of ones
            ("a,b\n1,1\n", ["--components", "2"]),  # more causes than rows
            ("a,b\n1,NA\n?,1\n,0\n", []),  # missing entries
            ("1,0\n0,1\n", []),  # no header
            ("a;b\n1;0\n0;1\n", []),  # another delimiter
            ("\ufeffa,b\r\n1,0\r\n0,1\r\n", []),  # from Windows
            ("a,b\n1.0,0.0\nTrue,false\n", []),
            ("a,b\n3,0\n0,7\n", ["--above", "0"]),  # counts
        ],
    )
    def test_it_works(self, text, extra, capsys):
        Path("data.csv").write_text(text, newline="")
        code = main([*FIT, *extra])
        assert code in (0, 1), capsys.readouterr().err  # two steps may well find nothing
        assert nor.load_network("data.safetensors").n_visible == 2
        assert not list(Path().glob("*.checkpoint*"))
