"""A client for a cluster that is named on one line."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from noisyor.errors import ClusterError, InvalidSettingError, MissingExtraError

__all__ = ["QUIET", "connect"]

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
"""Settings of Dask for workers that are started here: it looks after itself less often.

By default it looks at every thread a hundred times a second to profile it, at every event loop
fifty times to see whether it hangs, and at memory ten times: six times the CPU time of the rest.
"""


def connect(where: str, *, timeout: float = 30.0) -> Any:
    """A ``distributed.Client``: of a running scheduler, or of workers that are started here.

    Parameters
    ----------
    where : address of a scheduler such as ``"tcp://10.0.0.1:8786"``, or ``"local:4"`` for four
        workers of one thread each on this machine, which end with the client.
    timeout : seconds to wait for a scheduler.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.distributed.connect("somewhere")
    Traceback (most recent call last):
        ...
    noisyor.errors.InvalidSettingError: a cluster is local:N or the address of a scheduler such as
    tcp://10.0.0.1:8786, got 'somewhere'
    """
    try:
        import dask

        from distributed import Client
    except ImportError:
        raise MissingExtraError.of("clusters need Dask", "dask") from None
    local = re.fullmatch(r"local:([1-9][0-9]{0,3})", where)
    if local:
        with dask.config.set(QUIET), _without_interrupts():
            return Client(
                n_workers=int(local[1]),
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                set_as_default=False,
            )
    if not re.fullmatch(r"(tcp|tls|ws|wss)://\S+", where):
        raise InvalidSettingError(
            "a cluster is local:N or the address of a scheduler such as tcp://10.0.0.1:8786, "
            f"got {where!r}"
        )
    try:
        return Client(where, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"no scheduler answers at {where}: {error}") from error


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Threads and processes that are started here never see Ctrl-C, which a terminal sends to all.

    This process ends its workers itself, and they would only print where they were meanwhile.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
