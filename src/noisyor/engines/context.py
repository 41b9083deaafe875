"""The context of a search or a fit: engine, seed, job and store in one frozen object.

Public functions take ``engine=``, ``seed=``, ``progress=`` and ``time_limit=`` and build a
`Context` from them; the functions that they call take the context.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

import numpy as np

from noisyor._util.arrays import AnyArray, BinaryArray
from noisyor._util.progress import Job, Progress
from noisyor._util.validation import check_seed
from noisyor.engines.contract import FUNCTIONS, Engine, EngineLike
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError
from noisyor.model.network import Network


class Stored(dict[str, AnyArray]):
    """Arrays read from a checkpoint, checked when used, because the file may be damaged."""

    def bits(self, name: str, expected: tuple[int | None, ...]) -> BinaryArray:
        """Return an array of 0 and 1; None in the shape is an axis of any length."""
        found = self.get(name)
        if (
            found is None
            or found.dtype != np.uint8
            or found.ndim != len(expected)
            or any(
                want not in (came, None) for came, want in zip(found.shape, expected, strict=True)
            )
            or found.max(initial=0) > 1
        ):
            raise _foreign(name)
        return found

    def numbers(self, name: str, n: int | None = None, *, gaps: bool = False) -> list[float]:
        """Return a list of ``n`` finite numbers; with ``gaps`` they may also be NaN."""
        values = self.get(name)
        if (
            values is None
            or values.ndim != 1
            or values.dtype.kind not in "iuf"
            or n not in (len(values), None)
            or not (np.isfinite(values) | (gaps & np.isnan(values))).all()
        ):
            raise _foreign(name)
        return [float(value) for value in values]

    def count(self, name: str, most: int) -> int:
        """Return a single whole number from 1 to ``most``."""
        value = self.numbers(name, 1)[0]
        if not value.is_integer() or not 1 <= value <= most:
            raise _foreign(name)
        return int(value)

    def sizes(self, name: str, total: int) -> list[int]:
        """Return whole numbers from 0 whose sum is ``total``."""
        values = self.numbers(name)
        if not values or min(values) < 0 or sum(values) != total:
            raise _foreign(name)
        if not all(value.is_integer() for value in values):
            raise _foreign(name)
        return [int(value) for value in values]


def _foreign(name: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint does not belong to these data: {name} does not fit")


class CheckpointStore:
    """Named groups of arrays that survive an interruption; without ``write`` nothing is stored.

    Parameters
    ----------
    arrays : arrays that an earlier run stored, by "name/array".
    write : called with all arrays after each change.
    """

    def __init__(
        self,
        arrays: Mapping[str, AnyArray] | None = None,
        write: Callable[[dict[str, AnyArray]], object] | None = None,
    ) -> None:
        self._arrays, self._write = dict(arrays or {}), write

    def load(self, name: str) -> Stored | None:
        """Return the arrays that were saved under a name, or None."""
        start = f"{name}/"
        found = {
            key.removeprefix(start): array
            for key, array in self._arrays.items()
            if key.startswith(start)
        }
        return Stored(found) if found else None

    def save(self, name: str, arrays: Mapping[str, AnyArray]) -> None:
        """Store arrays under a name; they replace the arrays stored there before."""
        if self._write is None:
            return
        start = f"{name}/"
        for key in [key for key in self._arrays if key.startswith(start)]:
            del self._arrays[key]
        self._arrays.update({start + key: array for key, array in arrays.items()})
        self._write(self._arrays)


@dataclass(frozen=True, eq=False)
class Context:
    """Engine, seed, job and checkpoint store of a search or a fit.

    Attributes
    ----------
    engine : the engine; raises `TimeUpError` when the time of the job is over.
    seed : seed of all random numbers.
    job : progress bar and deadline.
    store : intermediate results, for a run that is continued.
    """

    engine: Engine
    seed: int
    job: Job
    store: CheckpointStore

    @classmethod
    def of(
        cls,
        engine: EngineLike = "auto",
        seed: int = 0,
        progress: Progress = False,
        time_limit: float | None = None,
        store: CheckpointStore | None = None,
    ) -> Context:
        """Build a context from the keywords of a public function."""
        job, runner = Job.of(progress, time_limit), get_engine(engine)
        if job.is_limited:
            runner = bounded(runner, job.check)
        return cls(runner, check_seed(seed), job, CheckpointStore() if store is None else store)

    def with_(self, **changes: Any) -> Context:
        """Return the context with some of its attributes changed."""
        return replace(self, **changes)


# ---- time limits and compilation


def bounded(engine: EngineLike, check: Callable[[], None]) -> Engine:
    """Return an engine that calls ``check``, which may raise, before each function."""
    return cast(Engine, _Bounded(get_engine(engine), check))


class _Bounded:
    """See `bounded`. Functions that the engine lacks run in its fallback."""

    def __init__(self, engine: Engine, check: Callable[[], None]) -> None:
        self._engine, self._check = engine, check
        self.name, self.workers = engine.name, engine.workers
        self.supports = engine.supports

    def prepare(self, network: Network) -> Any:
        """See `Engine.prepare`."""
        return self._engine.prepare(network)

    def __repr__(self) -> str:
        return repr(self._engine)


def _asking(name: str) -> Callable[..., Any]:
    def call(self: _Bounded, *arguments: Any, **options: Any) -> Any:
        self._check()
        return getattr(self._engine, name)(*arguments, **options)

    return call


for _name in FUNCTIONS:  # a protocol looks for them in the class
    setattr(_Bounded, _name, _asking(_name))


_NUMBERS = count(1)
"""Numbers of the kernels that this process has compiled."""


@contextmanager
def note_compilation(note: Callable[[str], None]) -> Iterator[None]:
    """Call ``note`` with a line for each kernel that is compiled inside the context."""
    events: Any = sys.modules.get("numba.core.event")
    if events is None:  # no engine that compiles is in use
        yield
        return

    class Listener(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            title = getattr(event.data["dispatcher"], "title", "")
            if title:  # others are parts of a kernel, or take no time
                note(f"compiling kernel {next(_NUMBERS)}: {title} (once on this machine)")

        def on_end(self, event: Any) -> None:
            """Do nothing; the line of the next kernel shows that this kernel is finished."""

    with events.install_listener("numba:compile", Listener()):
        yield
