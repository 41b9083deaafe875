"""Engines by name, what stands in for a function that one lacks, and names that mean nothing."""

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

import noisyor as nor
from noisyor.engines import registry
from noisyor.engines.contract import FUNCTIONS, Engine
from noisyor.engines.numpy.engine import NumpyEngine
from noisyor.engines.registry import Runner, engine_names, get_engine, register_engine
from noisyor.errors import InvalidSettingError


@dataclass(frozen=True)
class Partial(NumpyEngine):
    """An engine that has two functions only."""

    name: ClassVar[str] = "partial"
    supports: ClassVar[frozenset[str]] = frozenset({"log_joint", "max_product"})


@pytest.fixture(autouse=True)
def _own_names(monkeypatch):
    monkeypatch.setattr(registry, "_HOMES", dict(registry._HOMES))


@pytest.mark.parametrize("name", engine_names())
def test_names(name):
    if name == "warp":
        pytest.importorskip("warp")
    engine = get_engine(name)
    assert isinstance(engine, Engine)
    assert engine.name == name
    assert get_engine(engine) is engine
    assert engine == get_engine(name)


def test_auto_is_numba():
    assert get_engine().name == get_engine("auto").name == "numba"


def test_workers_belong_to_the_engine(monkeypatch):
    assert get_engine("numba", n_threads=3).workers == 3
    assert get_engine("numpy", n_threads=3).workers == 1
    monkeypatch.setenv("NOISYOR_NUM_THREADS", "5")
    assert get_engine("numba").workers == 5
    for name in ("numba", "numpy"):
        with pytest.raises(InvalidSettingError, match="n_threads must be a positive number"):
            get_engine(name, n_threads=0)


def test_a_function_that_is_lacking_falls_back_to_numba():
    partial = Partial()
    assert get_engine(partial, "log_joint") is partial
    assert get_engine(partial, "mean_field").name == "numba"
    assert get_engine(partial) is partial


def test_what_stands_in_has_the_threads_of_the_engine():
    @dataclass(frozen=True)
    class Threaded(Partial):
        n_threads: int | None = None

    assert get_engine(Threaded(n_threads=3), "icm").workers == 3
    assert get_engine(Threaded(n_threads=3), "icm", n_threads=1).workers == 1
    assert Runner(Threaded(n_threads=3), nor.bipartite(3, 2)).on("icm")[0].workers == 3


def test_and_to_numpy_where_numba_lacks_it_too(monkeypatch):
    supports = FUNCTIONS - {"mean_field"}
    monkeypatch.setattr("noisyor.engines.numba.engine.NumbaEngine.supports", supports)
    assert get_engine("auto", "mean_field").name == "numpy"
    assert get_engine(Partial(), "mean_field").name == "numpy"
    assert get_engine(Partial(), "icm").name == "numba"


def test_a_runner_prepares_a_network_once_for_each_engine():
    network = nor.bipartite(3, 2)
    runner = Runner(Partial(), network)
    engine, prepared = runner.on("log_joint")
    assert engine.name == "partial"
    assert runner.on("max_product")[1] is prepared
    other, elsewhere = runner.on("icm")
    assert other.name == "numba"
    assert elsewhere is not prepared
    assert runner.on("mean_field")[1] is elsewhere


def test_an_engine_may_be_registered():
    register_engine("partial", f"{__name__}:Partial")
    registry_home = registry._HOMES["partial"]
    assert registry_home.endswith(":Partial")
    assert "partial" in engine_names()


def test_a_registered_engine_is_imported_when_it_is_asked_for():
    register_engine("plain", "noisyor.engines.numpy.engine:NumpyEngine")
    assert get_engine("plain") == NumpyEngine()
    register_engine("absent", "no_such_module_anywhere:Engine")  # no harm until it is wanted
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        get_engine("absent")


@pytest.mark.parametrize("name", ["numpy", "numba", "auto"])
def test_a_name_is_given_once(name):
    with pytest.raises(InvalidSettingError, match=name):
        register_engine(name, "a.b:C")


def test_unknown_names_and_wrong_types_are_refused():
    expected = "engine must be 'auto', 'numba', 'numpy', 'warp', or an engine, got "
    with pytest.raises(InvalidSettingError, match=f"{expected}'cuda'"):
        get_engine("cuda")
    with pytest.raises(InvalidSettingError, match=f"{expected}int"):
        get_engine(3)
    with pytest.raises(InvalidSettingError, match=f"{expected}type"):
        get_engine(int)
    with pytest.raises(InvalidSettingError, match="guess"):
        get_engine("numpy", "guess")


# ---- an engine that is not installed


def _in_a_new_process(code):
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_core_works_without_warp():
    code = """
import sys
sys.modules["warp"] = None  # as if it were not installed
import numpy as np
import noisyor as nor
network = nor.bipartite(n_visible=3, n_hidden=1)
assert "warp" in nor.engines.engine_names()
assert nor.explain(network, np.array([[1, 0, 1]]), engine="numpy").n_rows == 1
try:
    nor.explain(network, np.array([[1, 0, 1]]), engine="warp")
except nor.errors.MissingExtraError as error:
    print(error)
"""
    found = _in_a_new_process(code)
    assert found.stderr == ""
    assert found.stdout.startswith("the engine 'warp' needs Warp, not installed; pip install")
    assert found.stdout.count("\n") == 1


def test_importing_the_library_does_not_import_warp():
    code = (
        "import sys, noisyor as nor; nor.engines.get_engine('numpy'); print('warp' in sys.modules)"
    )
    assert _in_a_new_process(code).stdout == "False\n"
