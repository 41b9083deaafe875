"""Every test here that asks for ``engine`` runs on each engine that has the functions it needs."""

import pytest

from noisyor.engines.contract import Engine
from noisyor.engines.registry import engine_names, get_engine


@pytest.fixture(params=engine_names())
def engine(request: pytest.FixtureRequest) -> Engine:
    """An engine with two workers, if it supports what the module names as ``NEEDS``."""
    found = get_engine(request.param, n_threads=2)
    lacking = sorted(set(getattr(request.module, "NEEDS", ())) - found.supports)
    if lacking:
        pytest.skip(f"the engine {found.name} has no {', '.join(lacking)}")
    return found
