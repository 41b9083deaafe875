"""An engine that asks whether to go on, and notes on kernels that are compiled."""

from __future__ import annotations

import re

import numba
import numpy as np
import pytest

import noisyor as nor
from noisyor.engines.context import bounded, note_compilation
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


def titled(title, function):
    kernel = numba.njit(function)
    kernel.title = title
    return kernel


def test_each_kernel_that_is_compiled_is_noted_once():
    notes: list[str] = []
    square, cube = titled("squares", lambda x: x**2), titled("cubes", lambda x: x**3)
    with note_compilation(notes.append):
        for kernel in (square, cube, square):
            kernel(2)
        numba.njit(lambda x: x + 2)(2)  # a part of a kernel has no title
    first, second = (re.fullmatch(r"compiling kernel (\d+): (\w+) \(.*\)", note) for note in notes)
    assert (first[2], second[2]) == ("squares", "cubes")
    assert int(second[1]) == int(first[1]) + 1
    titled("sums", lambda x: x + 1)(2)
    assert len(notes) == 2
