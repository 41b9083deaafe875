"""Split rows over threads. The kernels release the interpreter lock, so plain threads suffice.

Unlike numba's thread pool, this one can be used from several threads of a service at once, and its
size is an argument, not global state.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import cache
from itertools import pairwise
from typing import Any

from noisyor._util.validation import COUNT
from noisyor.errors import InvalidSettingError

ROWS_OF_PIECE = 12
"""Number of rows in the first piece."""

_PIECE_SECONDS = 0.5

_pools: dict[int, ThreadPoolExecutor] = {}


def resolve_threads(n_threads: int | None) -> int:
    """Return the number of threads: the argument, else ``NOISYOR_NUM_THREADS``, else all cores."""
    source, value = "n_threads", n_threads
    if value is None and os.environ.get("NOISYOR_NUM_THREADS"):
        source = "NOISYOR_NUM_THREADS"
        text = os.environ[source]
        value = int(text) if text.isdecimal() and len(text) < 10 else 0
    if value is None:
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:  # not on every system
            return os.cpu_count() or 1
    if not COUNT.valid(value):
        raise InvalidSettingError(f"{source} must be a positive number")
    return int(value)


class _BlasLimit:
    """Count the callers that want one BLAS thread: the first sets the limit, the last lifts it.

    The number of BLAS threads belongs to the process. If every caller restored the number that it
    found, a caller that enters second and leaves last would restore the limit of the first caller.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._n_callers = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self._n_callers:
                self._limiter = _blas().limit(limits=1, user_api="blas")
                _release_control()
            self._n_callers += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self._n_callers -= 1
            if not self._n_callers:
                self._limiter.restore_original_limits()
                self._limiter = None
                _release_control()


def _release_control() -> None:
    """Let any thread lift the limit that this thread has set.

    Newer versions of threadpoolctl ignore changes by other threads until the thread that set a
    limit releases control. Here the last caller to leave may be another thread.
    """
    import threadpoolctl

    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(openblas, "clear_controlling_thread", None)
    if clear is not None:
        clear()


_blas_limit = _BlasLimit()


def one_blas_thread() -> AbstractContextManager[None]:
    """Return a context in which matrix products use one thread, with the same bits on any machine.

    On thin matrices, or where our own threads share the work, the threads of a linear algebra
    library mostly wait for each other. Threads may enter the context at the same time. It is cheap
    enough for an inner loop: the libraries are looked up once.
    """
    return _blas_limit


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  # so that its library, and NumPy's, are there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_blocks(
    function: Callable[[int, int], object],
    n_rows: int,
    n_threads: int,
    smallest_block: int = 1,
    blocks_per_thread: int | None = None,
    first_piece: int = ROWS_OF_PIECE,
) -> None:
    """Call ``function(begin, end)`` for blocks that cover ``range(n_rows)``.

    Rows differ in cost, so threads take blocks in turn, by default four for each thread, or one if
    there are few rows. A block is computed in pieces, the first of ``first_piece`` rows; an
    interrupt takes effect between two pieces.
    """
    if n_threads == 1 or n_rows <= smallest_block:
        _in_pieces(function, 0, n_rows, first_piece, None)
        return
    stop = threading.Event()
    if blocks_per_thread is None:
        blocks_per_thread = 4 if n_rows >= 64 else 1
    n_blocks = min(-(-n_rows // smallest_block), n_threads * blocks_per_thread)
    bounds = [n_rows * index // n_blocks for index in range(n_blocks + 1)]
    blocks = deque(pairwise(bounds))

    def drain() -> None:
        while not stop.is_set():
            try:
                begin, end = blocks.popleft()
            except IndexError:
                return
            _in_pieces(function, begin, end, first_piece, stop)

    others = [_pool(n_threads - 1).submit(drain) for _ in range(n_threads - 1)]
    try:
        drain()
        for future in others:
            future.result()
    except BaseException:
        stop.set()  # after an interrupt or an error the remaining blocks are not needed
        wait(others)
        raise


def _in_pieces(
    function: Callable[[int, int], object],
    begin: int,
    end: int,
    size: int,
    stop: threading.Event | None,
) -> None:
    """Call the function for a block in pieces, so that an interrupt takes effect soon.

    Python handles Ctrl-C only between two calls, and the cost of a row is not known beforehand. A
    minibatch is one piece. ``stop`` is None if no other thread can request a stop.
    """
    if end - begin <= 2 * size:
        size = end - begin
    while begin < end and not (stop and stop.is_set()):
        last, began = min(begin + size, end), time.perf_counter()
        function(begin, last)
        seconds, begin = time.perf_counter() - began, last
        if seconds < _PIECE_SECONDS / 2:
            size *= 2
        elif seconds > _PIECE_SECONDS:
            size = max(size // 2, 1)


def _pool(size: int) -> ThreadPoolExecutor:
    if size not in _pools:
        _pools[size] = ThreadPoolExecutor(size, thread_name_prefix="noisyor")
    return _pools[size]


def _after_fork() -> None:
    _pools.clear()  # the child has the pools but not their threads
    _blas_limit.lock = threading.Lock()  # another thread may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
