"""An engine that asks before each call whether to go on, and notes on what it compiles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

from noisyor.engines.contract import FUNCTIONS, Engine, EngineLike
from noisyor.engines.registry import get_engine
from noisyor.model.network import Network


def bounded(engine: EngineLike, check: Callable[[], None]) -> Engine:
    """Return the engine so that it calls ``check``, which may raise, before each function."""
    return cast(Engine, _Bounded(get_engine(engine), check))


class _Bounded:
    """See `bounded`. Functions that the engine lacks are those of its fallback."""

    def __init__(self, engine: Engine, check: Callable[[], None]) -> None:
        self._engine, self._check = engine, check
        self.name, self.workers = engine.name, engine.workers
        self.supports = engine.supports

    def prepare(self, network: Network) -> Any:
        """The network in the engine's layout."""
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
            """The next line says that this kernel is done."""

    with events.install_listener("numba:compile", Listener()):
        yield
