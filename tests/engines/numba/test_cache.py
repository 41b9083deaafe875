"""Stale and damaged kernels on disk are forgotten, valid ones stay, and no place is no obstacle."""

import math
import os
import pickle
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import noisyor
import noisyor.engines.numba.cache as cache


@pytest.fixture(autouse=True)
def caches_beside_sources(monkeypatch):
    """Ignore a cache folder that the user has set: these tests look beside their own sources."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")


class Kernel:
    """Stands where a compiled function says where it is cached."""

    def __init__(self, path):
        self._cache = self
        self.cache_path = str(path)


def test_entries_of_other_sources_are_dropped(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    cache.forget_stale_kernels(Kernel(folder))
    for name in ("kernel.nbi", "kernel.1.nbc", "other.txt"):
        (folder / name).write_bytes(b"content")
    cache.forget_stale_kernels(Kernel(folder))
    assert (folder / "kernel.nbi").exists()  # same sources: kept
    monkeypatch.setattr(cache, "_digest", lambda folder: "changed")
    cache.forget_stale_kernels(Kernel(folder))
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["noisyor-kernels.stamp", "other.txt"]


def test_any_source_of_the_engine_counts(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 1")
    before = cache._digest(tmp_path)
    assert cache._digest(tmp_path) == before
    (tmp_path / "b.py").write_text("y = 2")
    assert cache._digest(tmp_path) != before


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    cache.forget_stale_kernels(Kernel(file / "below"))
    cache.forget_stale_kernels(object())
    assert file.read_text() == "not a folder"


# ---- a real kernel with a cache of its own

KERNEL = """
from noisyor.engines.numba.cache import njit

@njit()
def twice(x):
    return x + x
"""


def fresh_kernel(folder):
    """The kernel as a new process has it: not compiled, with its cache on disk."""
    source = folder / "doubling.py"
    if not source.exists():
        source.write_text(KERNEL)
    loaded = runpy.run_path(str(source))
    return loaded["twice"]


def entries(folder):
    return [next((folder / "__pycache__").glob(pattern)) for pattern in ("*.nbi", "*.nbc")]


DAMAGES = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "garbage": lambda content: b"\x80\x04garbage" * 100,
    "another pickle": lambda content: pickle.dumps(("0.0", {})),
    "one bit of the code": lambda content: (
        content[:-200] + bytes([content[-200] ^ 1]) + content[-199:]
    ),
}


@pytest.mark.parametrize("which", [0, 1], ids=["index", "code"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_kernel_is_compiled_anew(tmp_path, which, damage):
    assert fresh_kernel(tmp_path)(2.0) == 4.0
    kernel = fresh_kernel(tmp_path)
    assert kernel(2.0) == 4.0
    assert sum(kernel.stats.cache_hits.values()) == 1
    damaged = entries(tmp_path)[which]
    damaged.write_bytes(DAMAGES[damage](damaged.read_bytes()))

    kernel = fresh_kernel(tmp_path)
    assert kernel(2.0) == 4.0
    assert sum(kernel.stats.cache_misses.values()) == 1
    kernel = fresh_kernel(tmp_path)
    assert kernel(2.0) == 4.0
    assert sum(kernel.stats.cache_hits.values()) == 1


def test_two_entries_under_one_name_are_not_confused(tmp_path):
    """What remains when two processes write their entries at once."""
    fresh_kernel(tmp_path)(2.0)
    code = entries(tmp_path)[1]
    of_floats = code.read_bytes()
    code.unlink()
    entries_before = set(code.parent.iterdir())
    fresh_kernel(tmp_path)(np.int64(2))
    (added,) = set(code.parent.glob("*.nbc")) - entries_before
    added.write_bytes(of_floats)

    assert fresh_kernel(tmp_path)(np.int64(2**62 - 1)) == 2**63 - 2


UNWRITABLE = """
import sys, warnings
warnings.simplefilter("always")
import numpy as np
import noisyor as nor
network = nor.bipartite(n_visible=1, n_hidden=1)
network = network.with_theta(np.ones(network.n_params))
parameters = nor.engines.NumbaEngine(n_threads=1).prepare(network).parameters
print(nor.__file__, parameters.values.log_odds[0])
"""


def test_no_folder_to_write_to_is_no_obstacle(tmp_path):
    """As in a container: neither the package's folder nor the home folder can be written."""
    package = tmp_path / "src" / "noisyor"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(noisyor.__file__).parent, package, ignore=ignore)
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("a file where a folder should be made")
    blocked = str(package / "errors.py" / "below")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")},
        **{"HOME": blocked, "XDG_CACHE_HOME": blocked, "LOCALAPPDATA": blocked},
        **{"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
    }
    done = subprocess.run(
        [sys.executable, "-c", UNWRITABLE],
        **{"env": environment, "capture_output": True, "text": True, "timeout": 300},
    )
    assert done.returncode == 0, done.stderr
    source, answer = done.stdout.split()
    assert Path(source).is_relative_to(package)
    assert math.isclose(float(answer), math.log(math.expm1(1.0)), rel_tol=1e-6)
    said = [line for line in done.stderr.splitlines() if "RuntimeWarning" in line]
    assert len(said) == 1
    assert "NUMBA_CACHE_DIR" in said[0]
