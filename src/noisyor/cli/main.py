"""The command ``noisyor`` and its subcommands.

Heavy imports stay inside the commands, so that ``noisyor --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from noisyor._version import __version__
from noisyor.cli.common import as_flags, run_command_line
from noisyor.cli.demo import demo
from noisyor.cli.explain import explain
from noisyor.cli.fit import fit
from noisyor.cli.impute import impute
from noisyor.cli.model import evaluate, info
from noisyor.cli.report import report
from noisyor.cli.serve import serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``arguments`` default to those of the process."""
    return run_command_line(_cli, "noisyor", arguments, describe=lambda error: as_flags(str(error)))


class _InOrder(click.Group):
    """List commands in the order in which they are used, not alphabetically."""

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


for _command in (demo, fit, explain, impute, evaluate, report, serve, info):
    _cli.add_command(_command)
