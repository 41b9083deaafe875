"""Cache of compiled kernels on disk; outdated and damaged entries are compiled again.

Numba's own cache checks the file of each kernel, not the functions that the kernel calls, so here
all entries are dropped when any source of the engine has changed. Numba fails on a damaged entry
at every start, so here entries have a checksum and a damaged one is compiled again. Numba
refuses to compile where no folder can be written, as in some containers; here kernels are then
compiled in memory.
"""

from __future__ import annotations

import hashlib
import pickle  # nosec B403
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import caching
from numba.extending import intrinsic

from noisyor._util.files import write_atomically

_STAMP = "noisyor-kernels.stamp"

_FOLDERS: set[str] = set()
"""Folders of cached kernels without outdated entries."""


def njit(title: str = "") -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel that Python calls: numba's decorator with the cache of this module.

    ``title`` is shown to users while the kernel is compiled; small kernels have none. A kernel
    releases the interpreter lock, and divides by zero as NumPy does: no check is compiled.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(nogil=True, error_model="numpy")(function)
        kernel.title = title
        try:
            kernel._cache = _KernelCache(function)
        except RuntimeError:  # numba's word for a machine without a folder that can be written
            _warn_of_no_cache()
            return kernel
        if kernel._cache.cache_path not in _FOLDERS:
            _FOLDERS.add(kernel._cache.cache_path)
            forget_stale_kernels(kernel)
        return kernel

    return compiled


@lru_cache(maxsize=1)
def _warn_of_no_cache() -> None:
    warnings.warn(
        "kernels are compiled anew in every process, because neither the package's folder nor the "
        "home folder can be written; name a folder in the environment variable NUMBA_CACHE_DIR",
        RuntimeWarning,
        stacklevel=2,
    )


def inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that only kernels call: compiled without an entry from Python.

    ``inline="always"`` copies it into its caller before types are inferred: best for a function
    with one caller, which then is not compiled on its own. ``forceinline=True`` compiles it once
    and copies the result: best for small functions of inner loops, and if constant arguments should
    remove branches.
    """
    if options.get("inline") != "always":
        options.update(no_cpython_wrapper=True, no_cfunc_wrapper=True)
    decorator: Callable[[Callable[..., Any]], Any]
    decorator = numba.njit(nogil=True, error_model="numpy", **options)
    return decorator


@intrinsic
def small_code(typingctx: Any) -> Any:
    """Compile the function that calls this for size, and not into its callers.

    For functions that are called once per row: unrolling their loops would cost more compile time
    than it saves.
    """

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        for attribute in ("noinline", "optsize"):
            builder.function.attributes.add(attribute)
        return context.get_dummy_value()

    return types.void(), codegen


# ---- kernels of other sources


def forget_stale_kernels(kernel: Any) -> None:
    """Empty the folder in which a kernel is cached, unless its entries are from these sources."""
    path = getattr(getattr(kernel, "_cache", None), "cache_path", None)
    if path is None:
        return
    folder, wanted = Path(path), _digest(Path(__file__).parent)
    stamp = folder / _STAMP
    with suppress(OSError):  # a folder that cannot be written holds nothing of ours
        if stamp.exists() and stamp.read_text() == wanted:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in ("*.nbi", "*.nbc"):
            for entry in folder.glob(pattern):
                entry.unlink(missing_ok=True)
        write_atomically(stamp, wanted.encode())


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for source in sorted(folder.rglob("*.py")):
        digest.update(str(source.relative_to(folder)).encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


# ---- damaged kernels


class _CheckedFiles(caching.IndexDataCacheFile):
    """The files of one kernel. Each begins with the checksum of the rest.

    An unreadable file counts as missing. If a file cannot be written, the kernel is compiled in
    memory only.
    """

    def save(self, key: Any, data: Any) -> None:
        with suppress(OSError):
            super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        # two processes that write at once may give one name to two entries
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> dict[Any, str]:
        found = _read(Path(self._index_path))
        if found is None or found[:2] != (self._version, self._source_stamp):
            return {}
        overloads: dict[Any, str] = found[2]
        return overloads

    def _save_index(self, overloads: dict[Any, str]) -> None:
        content = (self._version, self._source_stamp, overloads)
        _write(Path(self._index_path), self._dump(content))

    def _load_data(self, name: str) -> Any:
        return _read(Path(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        _write(Path(self._data_path(name)), self._dump(data))


def _write(path: Path, content: bytes) -> None:
    write_atomically(path, hashlib.sha256(content).digest() + content)


def _read(path: Path) -> Any:
    """Return the content that `_write` wrote, or None if it is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    size = hashlib.sha256().digest_size
    if hashlib.sha256(content[size:]).digest() != content[:size]:
        return None
    try:
        # As numba itself does: the cache is a private folder of the user.
        return pickle.loads(content[size:])  # nosec B301
    except Exception:  # whole, but of a compiler that had other types
        return None


class _KernelCache(caching.FunctionCache):
    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = _CheckedFiles(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )
