"""Memory of threads that is kept between calls, so that small minibatches do not allocate it."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Kept = TypeVar("Kept")


@contextmanager
def borrowed(
    idle: deque[Kept], fits: Callable[[Kept], bool], make: Callable[[], Kept]
) -> Iterator[Kept]:
    """The first that is idle, if it fits, else a new one; idle again afterwards.

    Never in two threads at once. One that does not fit is dropped: it was too small.

    >>> idle = deque([bytearray(2)])
    >>> with borrowed(idle, lambda memory: len(memory) >= 3, lambda: bytearray(3)) as memory:
    ...     len(memory), len(idle)
    (3, 0)
    >>> len(idle)
    1
    """
    try:
        found = idle.popleft()
    except IndexError:
        found = make()
    else:
        if not fits(found):
            found = make()
    try:
        yield found
    finally:
        idle.append(found)
