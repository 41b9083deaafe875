"""Work that is interrupted, killed or limited goes on to the same bits: the campaign, in short.

And Ctrl-C while the command is still being imported.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import noisyor as nor

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "interruptions.py"


def campaign(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )
    print(done.stdout)  # has the seed, and on a failure the command that repeats it
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
class TestCampaign:
    def test_many_stops(self):
        assert "60 runs, 0 failures" in campaign("--seed", "1", "--runs", "60")

    def test_a_new_seed(self):
        campaign("--runs", "10")

    def test_real_signals(self):
        campaign("--runs", "0", "--processes", "2")


IMPORT = """
import builtins, os, signal, sys
module, how, *sys.argv[1:] = sys.argv[1:]
plain = builtins.__import__

def interrupting(name, *arguments, **options):
    if name.partition(".")[0] == module or name == module:
        builtins.__import__ = plain
        if how == "swallowed":  # as extension modules do
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise SystemError("initialization failed") from None
        signal.raise_signal(signal.SIGINT)
    return plain(name, *arguments, **options)

from noisyor.__main__ import main
builtins.__import__ = interrupting
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "how"),
    [("click", "raised"), ("noisyor.cli.fit", "raised"), ("numpy", "swallowed")],
)
def test_an_interrupt_while_importing(tmp_path, module, how):
    nor.save_network(tmp_path / "m.safetensors", nor.bipartite(n_visible=2, n_hidden=1))
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, module, how, "info", str(tmp_path / "m.safetensors")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "noisyor: interrupted\n"


def test_the_command_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "noisyor", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"noisyor {nor.__version__}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_limits_at_the_end_of_training():
    """Whatever a recipe does after its last step must not exceed its time limit."""
    script = (
        "import sys, tempfile; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; import interruptions as program\n"
        "work = program.works()['topics']\n"
        "ticks = program.Runs(['topics']).expected('topics')[1]\n"
        "for at in range(ticks - 30, ticks + 1):\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        program.start(work, Path(folder), program.Trap('limit', at))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(SCRIPT.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
