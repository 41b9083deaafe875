"""Start of the ``noisyor`` command, also as ``python -m noisyor``.

Ctrl-C may occur while the command line is still being imported. So no module is imported outside
the handler, and other errors that extension modules raise on an interrupt are recognized.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Run the command of this process and return its exit code."""
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    try:
        # A shell may have told this process to ignore interrupts; that is left as it is.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)
        from noisyor.cli.main import main as run

        code = run()
        if signal.getsignal(signal.SIGINT) is interrupt:
            # The work is done: an interrupt while Python shuts down must not change the exit code.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return code
    except KeyboardInterrupt:
        pass
    except Exception:
        if not interrupted:
            raise
    sys.stderr.write("noisyor: interrupted\n")
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
