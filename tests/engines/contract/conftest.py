"""Every test here that asks for ``engine`` runs on each engine that has the functions it needs."""

import pytest
from whole_engines import skip_without, whole_engine

from noisyor.engines.contract import FUNCTIONS, Engine
from noisyor.engines.registry import engine_names
from noisyor.errors import MissingExtraError


def _parameter(name: str):
    """All engines but the one that is used by default take long, to run or to compile."""
    return name if name == "numba" else pytest.param(name, marks=pytest.mark.long)


@pytest.fixture(params=[_parameter(name) for name in engine_names()])
def engine(request: pytest.FixtureRequest) -> Engine:
    """An engine with two workers, if it has any of what the module names as ``NEEDS``.

    What it lacks falls back to another one, as it does in use.
    """
    try:
        found = whole_engine(request.param, n_threads=2)
    except MissingExtraError as error:
        pytest.skip(str(error))
    skip_without(found, *getattr(request.module, "NEEDS", FUNCTIONS))
    return found
