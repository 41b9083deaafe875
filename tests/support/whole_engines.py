"""Engines that have every function of the contract, by the registry's fallback where they must."""

from functools import partial

import pytest

from noisyor.engines.contract import FUNCTIONS
from noisyor.engines.registry import Runner, get_engine

WITHOUT_A_NETWORK = {"joint_max_product", "cover_memberships", "improve_cover"}


class _WithFallback:
    """An engine, and for the functions that it lacks the one that stands in for it.

    ``supports`` names the functions that are its own.
    """

    def __init__(self, engine):
        self.engine, self.name, self.workers = engine, engine.name, engine.workers
        self.supports = engine.supports

    def prepare(self, network):
        return Runner(self.engine, network)

    def __getattr__(self, function):
        if function not in FUNCTIONS:
            raise AttributeError(function)
        if function in WITHOUT_A_NETWORK:
            return getattr(get_engine(self.engine, function), function)
        return partial(self._call, function)

    def _call(self, function, prepared, *arguments, **options):
        engine, layout = prepared.on(function)
        return getattr(engine, function)(layout, *arguments, **options)


def skip_without(engine, *functions):
    """Skip a test of functions that another engine would do for this one."""
    if not engine.supports & set(functions):
        pytest.skip(f"the engine {engine.name} has no {', '.join(functions)}")


def whole_engine(name, n_threads=None):
    """The engine of a name, with all functions."""
    engine = get_engine(name, n_threads=n_threads)
    return engine if engine.supports >= FUNCTIONS else _WithFallback(engine)
