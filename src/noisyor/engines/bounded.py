"""An engine that asks before each call whether to go on, and the news that it compiles."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from noisyor._util.progress import SECONDS_BETWEEN_LINES
from noisyor.engines.contract import FUNCTIONS, Engine, EngineLike
from noisyor.engines.registry import get_engine
from noisyor.model.network import Network

__all__ = ["bounded", "compiling_told"]


def bounded(engine: EngineLike, check: Callable[[], None]) -> Engine:
    """Return the engine so that it calls ``check``, which may raise, before each function.

    >>> asked = []
    >>> engine = bounded("numpy", lambda: asked.append(True))
    >>> engine.name, isinstance(engine, Engine), asked
    ('numpy', True, [])
    """
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


@contextmanager
def compiling_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Report kernel compilation, at most every ten seconds."""
    events: Any = sys.modules.get("numba.core.event")
    if events is None:  # nobody has asked for an engine that compiles
        yield
        return

    class Listener(events.Listener):  # type: ignore[misc]
        began, told, depth, n_done = 0.0, 0.0, 0, 0

        def on_start(self, event: Any) -> None:
            now = time.monotonic()
            self.depth += 1
            if not self.began:
                self.began = self.told = now
                tell("noisyor compiles its kernels, which is needed once and takes a minute ...")
            elif now - self.told >= SECONDS_BETWEEN_LINES:
                self.told = now
                tell(f"... {self.n_done} compiled, {now - self.began:.0f} s")

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            self.n_done += not self.depth  # a kernel compiles those that it calls

    with events.install_listener("numba:compile", Listener()):
        yield
