import threading

import numpy as np
import pytest

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.engines.threads import resolve_threads, run_blocks
from noisyor.errors import InvalidSettingError


@pytest.mark.parametrize("n_rows", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_blocks_cover_every_row_once(n_rows, threads):
    seen = np.zeros(n_rows, dtype=int)

    def block(begin, end):
        seen[begin:end] += 1

    run_blocks(block, n_rows, threads)
    assert (seen == 1).all()


def test_an_error_in_a_block_reaches_the_caller():
    def block(begin, end):
        if begin > 0:
            raise ValueError("broken block")

    with pytest.raises(ValueError, match="broken block"):
        run_blocks(block, 100, 2)


def test_the_number_of_threads(monkeypatch):
    assert resolve_threads(3) == 3
    monkeypatch.setenv("NOISYOR_NUM_THREADS", "2")
    assert resolve_threads(None) == 2
    monkeypatch.setenv("NOISYOR_NUM_THREADS", "many")
    with pytest.raises(InvalidSettingError, match="NOISYOR_NUM_THREADS"):
        resolve_threads(None)
    monkeypatch.delenv("NOISYOR_NUM_THREADS")
    assert resolve_threads(None) >= 1


def test_a_service_may_explain_from_several_threads_at_once():
    network = nor.initialize(nor.bipartite(20, 6), noise="uniform")
    x = np.random.default_rng(0).integers(0, 2, (60, 20))
    expected = nor.explain(network, x, engine=get_engine(n_threads=2)).states.toarray()
    answers = [None] * 6

    def ask(number):
        answers[number] = nor.explain(network, x, engine=get_engine(n_threads=2)).states.toarray()

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    for answer in answers:
        np.testing.assert_array_equal(answer, expected)
