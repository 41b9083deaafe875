import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.engines.threads import one_blas_thread, resolve_threads, run_blocks
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


def test_rows_come_in_pieces_between_which_an_interrupt_is_noticed():
    pieces = []

    def block(begin, end):
        pieces.append((begin, end))
        time.sleep(0.02 * (end - begin))

    run_blocks(block, 120, 1)
    assert len(pieces) > 3
    assert [begin for begin, _ in pieces] == [0, *(end for _, end in pieces[:-1])]
    assert pieces[-1][1] == 120
    assert max(end - begin for begin, end in pieces) <= 48


def test_a_minibatch_is_one_piece_and_quick_rows_soon_are():
    pieces = []
    for n_rows in (20, 100_000):
        run_blocks(lambda begin, end: pieces.append(end - begin), n_rows, 1)
    assert pieces[0] == 20
    assert len(pieces) < 20


def test_after_an_interrupt_nobody_goes_on():
    done, main = [], threading.main_thread()

    def block(begin, end):
        if threading.current_thread() is main:
            raise KeyboardInterrupt
        time.sleep(0.002 * (end - begin))
        done.append(end - begin)

    with pytest.raises(KeyboardInterrupt):
        run_blocks(block, 1000, 2)
    assert sum(done) < 500


def test_the_last_thread_out_restores_the_number_of_blas_threads():
    def n_blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with one_blas_thread():
        pass  # loads the libraries
    first_left, second_entered = threading.Event(), threading.Event()
    seen = []

    def stay_longer():
        with one_blas_thread():
            second_entered.set()
            first_left.wait(30)
            seen.extend(n_blas_threads())

    with threadpool_limits(limits=3, user_api="blas"):
        with one_blas_thread():
            second = threading.Thread(target=stay_longer)
            second.start()
            second_entered.wait(30)
        first_left.set()
        second.join()
        assert set(seen) == {1}
        assert set(n_blas_threads()) == {3}
