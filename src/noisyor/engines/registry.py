"""Engines by name. No other module imports an engine, and each is imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from noisyor.engines.contract import FUNCTIONS, Engine, EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.model.network import Network

_HOMES = {
    "numba": "noisyor.engines.numba.engine:NumbaEngine",
    "numpy": "noisyor.engines.numpy.engine:NumpyEngine",
    "warp": "noisyor.engines.warp.engine:WarpEngine",
}
_FALLBACK = ("numba", "numpy")
_CHECKED: set[type] = set()


def engine_names() -> tuple[str, ...]:
    """Return the names that `get_engine` knows, apart from ``"auto"``.

    Examples
    --------
    >>> import noisyor as nor
    >>> "numpy" in nor.engines.engine_names()
    True
    """
    return tuple(_HOMES)


def register_engine(name: str, home: str) -> None:
    """Register an engine: ``home`` is ``"package.module:Class"``, imported on first use.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.engines.register_engine("numba", "mine.engine:Mine")
    Traceback (most recent call last):
        ...
    noisyor.errors.InvalidSettingError: there is an engine named 'numba' already
    """
    if name in _HOMES or name == "auto":
        raise InvalidSettingError(f"there is an engine named {name!r} already")
    _HOMES[name] = home


def get_engine(
    engine: EngineLike = "auto", function: str | None = None, n_threads: int | None = None
) -> Engine:
    """Return the engine of a name, or the engine itself.

    Parameters
    ----------
    engine : ``"auto"`` (numba), one of `engine_names`, or an engine, returned as it is.
    function : a function of the contract that is needed. An engine without it is replaced by
        numba, or NumPy where that lacks it too, on as many threads.
    n_threads : workers of an engine given by name; None for ``NOISYOR_NUM_THREADS`` or all cores.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.engines.get_engine("numba", n_threads=2)
    NumbaEngine(n_threads=2)
    """
    found = _named(engine, n_threads) if isinstance(engine, str) else engine
    if type(found) not in _CHECKED:  # looking for every function takes longer than a small batch
        if not isinstance(found, Engine):
            raise InvalidSettingError(
                f"engine must be 'auto', {_listed()}, or an engine, got {type(found).__name__}"
            )
        _CHECKED.add(type(found))
    if function is None or function in found.supports:
        return found
    if function not in FUNCTIONS:
        raise InvalidSettingError(f"engines have no function {function!r}")
    if n_threads is None:
        n_threads = getattr(found, "n_threads", None)
    candidates = (_named(name, n_threads) for name in _FALLBACK)
    return next(other for other in candidates if function in other.supports)


class Runner:
    """An engine on one network: prepared once, with the fallback for functions that it lacks.

    Parameters
    ----------
    engine : ``"auto"``, a name, or an engine.
    network : the network.

    Examples
    --------
    >>> import noisyor as nor
    >>> runner = nor.engines.Runner("numba", nor.bipartite(3, 2))
    >>> engine, prepared = runner.on("log_joint")
    >>> engine.name
    'numba'
    """

    def __init__(self, engine: EngineLike, network: Network) -> None:
        self.engine, self.network = get_engine(engine), network
        self._prepared: dict[str, Any] = {}

    def on(self, function: str) -> tuple[Engine, Any]:
        """Return the engine for a function of the contract, and the network prepared for it."""
        engine = self.engine
        if function not in engine.supports:
            engine = get_engine(engine, function)
        if engine.name not in self._prepared:
            self._prepared[engine.name] = engine.prepare(self.network)
        return engine, self._prepared[engine.name]


def _named(name: str, n_threads: int | None) -> Engine:
    home = _HOMES.get("numba" if name == "auto" else name)
    if home is None:
        raise InvalidSettingError(f"engine must be 'auto', {_listed()}, or an engine, got {name!r}")
    module, _, kind = home.partition(":")
    engine: Engine = getattr(import_module(module), kind)(n_threads=n_threads)
    return engine


def _listed() -> str:
    return ", ".join(repr(name) for name in _HOMES)
