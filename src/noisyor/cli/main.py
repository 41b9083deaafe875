"""The command line. Whatever goes wrong is one line on stderr and an exit code, never a traceback.

Heavy imports stay inside the commands, so that ``noisyor --help`` answers at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import click

from noisyor._version import __version__
from noisyor.cli.demo import demo
from noisyor.cli.explain import explain
from noisyor.cli.fit import fit, resume
from noisyor.cli.impute import impute
from noisyor.cli.model import evaluate, export, info, sample
from noisyor.cli.options import as_flags
from noisyor.cli.report import report
from noisyor.cli.serve import serve
from noisyor.errors import NoisyOrError

__all__ = ["main"]

FAILED = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; ``arguments`` default to those of the process. Returns the exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn  # type: ignore[assignment]
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = _cli.main(
            None if arguments is None else list(arguments),
            prog_name="noisyor",
            standalone_mode=False,
        )
        return code if isinstance(code, int) else 0
    except (click.Abort, KeyboardInterrupt):
        click.echo("noisyor: interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        return _fail(error.format_message())
    except NoisyOrError as error:
        return _fail(as_flags(str(error)))
    except MemoryError:
        return _fail("out of memory")
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(reason if error.filename is None else f"{error.filename}: {reason}")


def _fail(message: str) -> int:
    click.echo(f"noisyor: error: {' '.join(message.split())}", err=True)
    return FAILED


def _warn(message: Warning | str, *place: object) -> None:
    """Print a warning of the library as one line, without its source line."""
    click.echo(f"noisyor: warning: {' '.join(str(message).split())}", err=True)


class _InOrder(click.Group):
    """Commands are listed in the order in which they are used, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="noisyor %(version)s")
@click.pass_context
def _cli(context: click.Context) -> None:
    """Learn noisy-OR Bayesian networks from binary data, and explain data with them.

    \b
    For a start:
      noisyor demo
      noisyor fit table.csv --out table.safetensors
      noisyor explain table.safetensors table.csv --rows 0-4
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    demo,
    fit,
    resume,
    explain,
    impute,
    evaluate,
    sample,
    report,
    serve,
    export,
    info,
):
    _cli.add_command(_command)
