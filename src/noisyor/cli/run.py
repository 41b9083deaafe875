"""Run a command line; errors are one line on stderr and an exit code, without a traceback.

The commands of the repository share it: ``noisyor``, ``noisyor-hpo`` and
``python -m reproduction``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence

import click

from noisyor.errors import NoisyOrError

FAILED, INTERRUPTED = 2, 130

_PLAIN = (
    ("is not a valid integer range", "is not a whole number"),
    ("is not a valid integer", "is not a whole number"),
    ("is not a valid float range", "is not a number"),
    ("is not a valid float", "is not a number"),
)
"""Words of click about values, and what users understand."""


def run_command_line(
    command: click.Command,
    name: str,
    arguments: Sequence[str] | None = None,
    *,
    prog_name: str | None = None,
    describe: Callable[[NoisyOrError], str] = str,
) -> int:
    """Run a click command and return its exit code: 0, 2 for an error, 130 for an interrupt.

    Parameters
    ----------
    command : the command or group.
    name : starts every line on stderr.
    arguments : arguments of the command; None for those of the process.
    prog_name : what help texts call the program; by default ``name``.
    describe : makes the message of an error of the library.
    """

    def say(message: str) -> None:
        click.echo(printable(f"{name}: {' '.join(message.split())}"), err=True)

    def fail(message: str) -> int:
        say(f"error: {message}")
        return FAILED

    with warnings.catch_warnings():
        # Without the source line that Python adds.
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        try:
            code = command.main(
                None if arguments is None else list(arguments),
                prog_name=prog_name or name,
                standalone_mode=False,
            )
            return code if isinstance(code, int) else 0
        except (click.Abort, KeyboardInterrupt):
            say("interrupted")
            return INTERRUPTED
        except click.ClickException as error:
            message = error.format_message()
            for technical, plain in _PLAIN:
                message = message.replace(technical, plain)
            return fail(message)
        except NoisyOrError as error:
            return fail(describe(error))
        except MemoryError:
            return fail("out of memory")
        except OSError as error:
            reason = error.strerror or str(error)
            return fail(reason if error.filename is None else f"{error.filename}: {reason}")


def printable(text: str) -> str:
    """Return a text without what would steer a terminal or is not in its encoding.

    Names in a file may hold escape sequences, which change titles, colors or the lines above.
    """
    encoding = sys.stdout.encoding or "ascii"
    shown = "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)
    try:
        return shown.encode(encoding).decode(encoding)
    except UnicodeEncodeError:
        return shown.replace("–", "-").encode(encoding, "replace").decode(encoding)
