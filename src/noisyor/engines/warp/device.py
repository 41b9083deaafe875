"""Start Warp without messages, fill its structures and launch kernels."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import warp as wp

from noisyor._util.arrays import AnyArray
from noisyor.errors import InvalidSettingError

_loading = threading.Lock()


# ---- the device


def find_device(name: str | None) -> str:
    """Return ``"cpu"`` or the name of a GPU; None selects the GPU, if there is one."""
    _start()
    if name is None:
        return "cuda" if wp.is_cuda_available() else "cpu"
    known = [str(device) for device in wp.get_devices()]
    if name not in known and not (name == "cuda" and wp.is_cuda_available()):
        raise InvalidSettingError(
            f"device must be one that Warp finds on this machine ({', '.join(known)}), got {name!r}"
        )
    return name


@lru_cache(maxsize=1)
def _start() -> None:
    """Start Warp once, without its messages, and check that it can store compiled kernels."""
    wp.config.log_level = wp.LOG_ERROR
    try:
        with _no_stderr():
            wp.init()
        with tempfile.TemporaryFile(dir=wp.config.kernel_cache_dir):
            pass
    except OSError as error:
        raise InvalidSettingError(
            f"the cache folder of Warp cannot be written ({error}); name another one in the "
            "environment variable WARP_CACHE_PATH"
        ) from error


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Suppress the messages that the library prints if there is no driver of a GPU."""
    try:
        saved = os.dup(2)
    except OSError:  # a process that has none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


# ---- arrays and kernels


def to_device(array: AnyArray, dtype: Any, device: str) -> wp.array:
    """Copy an array to the device. On the CPU it may share the memory of the argument."""
    numbers = np.ascontiguousarray(array, dtype=wp.dtype_to_numpy(dtype))
    return wp.array(numbers, dtype=dtype, device=device, copy=False)


def structure(kind: Any, device: str, **fields: Any) -> Any:
    """Fill a structure for kernels; types are those of its declaration.

    An array field takes an array of NumPy or of the device, or a number of entries, for which
    uncleared memory is allocated.
    """
    made = kind()
    for name, value in fields.items():
        declared = kind.vars[name].type
        if isinstance(declared, wp.array):
            if isinstance(value, int):
                value = wp.empty(value, dtype=declared.dtype, device=device)
            elif not isinstance(value, wp.array):
                value = to_device(value, declared.dtype, device)
        setattr(made, name, value)
    return made


def launch(kernel: Any, draws: int, arguments: list[Any], device: str) -> None:
    """Run a kernel for every draw; only one thread compiles it."""
    with _loading:
        kernel.module.load(device)
    wp.launch(kernel, dim=draws, inputs=arguments, device=device)


def by_draw(array: wp.array, draws: int) -> AnyArray:
    """Return entries by draw (draws, slots) of memory laid out by `kernels.offset`."""
    numbers: AnyArray = array.numpy()
    return numbers.reshape(draws, -1) if array.device.is_cpu else numbers.reshape(-1, draws).T
