"""An engine that asks whether to go on, and the news that kernels are compiled."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import noisyor as nor
from noisyor.engines.bounded import bounded, compiling_told
from noisyor.engines.contract import Engine
from noisyor.engines.registry import get_engine


def test_the_same_results_and_a_question_before_each_call():
    network = nor.initialize(nor.bipartite(n_visible=4, n_hidden=2), noise="uniform")
    rows, asked = np.eye(4), []
    engine = bounded("numpy", lambda: asked.append(True))
    assert isinstance(engine, Engine)
    assert get_engine(engine, "log_joint") is engine
    plain = nor.explain(network, rows, engine="numpy")
    found = nor.explain(network, rows, engine=engine)
    assert found.log_joint.tobytes() == plain.log_joint.tobytes()
    assert asked


def test_a_question_may_raise():
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        nor.explain(nor.bipartite(2, 1), np.eye(2), engine=bounded("numpy", stop))


def test_compiling_is_told_of_once():
    told: list[str] = []
    with compiling_told(told.append):
        for power in (2, 3):
            numba.njit(lambda x, n=power: x**n)(2)
    assert len(told) == 1
    assert "compiles" in told[0]
    numba.njit(lambda x: x + 1)(2)
    assert len(told) == 1


def test_compiling_that_goes_on_is_told_of_again(monkeypatch):
    monkeypatch.setattr("noisyor.engines.bounded.SECONDS_BETWEEN_LINES", 0.0)
    told: list[str] = []
    with compiling_told(told.append):
        for power in (2, 3, 4):
            numba.njit(lambda x, n=power: x**n)(2)
    assert told[1].startswith("... 1 compiled, ")
    assert told[2].startswith("... 2 compiled, ")
