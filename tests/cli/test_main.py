"""The start of the command line: help and version, at once."""

from __future__ import annotations

import subprocess
import sys

from noisyor import __version__
from noisyor.cli.main import main

COMMAND = [sys.executable, "-c", "import sys; from noisyor.cli.main import main; sys.exit(main())"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_help():
    for arguments in (["--help"], ["-h"], []):
        done = run(*arguments)
        assert done.returncode == 0
        assert "demo" in done.stdout
        assert done.stderr == ""


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"noisyor {__version__}\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from noisyor.cli.main import main; main(['--help']);"
        "print([name for name in ('numpy', 'scipy', 'numba', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("[]\n")
