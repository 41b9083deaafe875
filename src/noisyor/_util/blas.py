"""Products of matrices on a single thread, where ours do the sharing or the matrices are thin."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which products of matrices use one thread, and so have the same bits anywhere.

    Cheap enough for an inner loop: looking for the libraries takes milliseconds and is done once.

    >>> with one_blas_thread():
    ...     pass
    """
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    import numpy.linalg  # noqa: F401  # so that its library is there to be found
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
