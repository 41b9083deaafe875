"""Split rows over threads. The kernels release the interpreter lock, so plain threads suffice.

Unlike a compiler's own thread pool this one may be entered from several threads of a service at
once, and its size is an argument, not global state.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from noisyor._util.validation import COUNT
from noisyor.errors import InvalidSettingError

_pools: dict[int, ThreadPoolExecutor] = {}


def resolve_threads(n_threads: int | None) -> int:
    """Number of threads to use: the argument, else ``NOISYOR_NUM_THREADS``, else all cores."""
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


def run_blocks(
    function: Callable[[int, int], object],
    n_rows: int,
    n_threads: int,
    smallest_block: int = 1,
    blocks_per_thread: int | None = None,
) -> None:
    """Call ``function(begin, end)`` for blocks that cover ``range(n_rows)``.

    Rows differ in cost, so there are more blocks than threads; threads take them in turn. By
    default one block for each thread if there are few rows, else four.
    """
    if n_threads == 1 or n_rows <= smallest_block:
        function(0, n_rows)
        return
    if blocks_per_thread is None:
        blocks_per_thread = 4 if n_rows >= 64 else 1
    n_blocks = min(-(-n_rows // smallest_block), n_threads * blocks_per_thread)
    bounds = [n_rows * number // n_blocks for number in range(n_blocks + 1)]
    blocks = deque(pairwise(bounds))

    def drain() -> None:
        while True:
            try:
                begin, end = blocks.popleft()
            except IndexError:
                return
            function(begin, end)

    others = [_pool(n_threads - 1).submit(drain) for _ in range(n_threads - 1)]
    try:
        drain()
    finally:
        for future in others:
            future.result()


def _pool(size: int) -> ThreadPoolExecutor:
    if size not in _pools:
        _pools[size] = ThreadPoolExecutor(size, thread_name_prefix="noisyor")
    return _pools[size]


if hasattr(os, "register_at_fork"):  # a forked child has the pools but not their threads
    os.register_at_fork(after_in_child=_pools.clear)
