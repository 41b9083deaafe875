"""The command line. Whatever goes wrong is one line on stderr and an exit code, never a traceback.

Heavy imports stay inside the commands, so that ``noisyor --help`` answers at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from noisyor._version import __version__
from noisyor.cli.experiments import figures, reproduce, reproduce_report
from noisyor.cli.explain import explain
from noisyor.cli.fit import fit, resume
from noisyor.cli.model import evaluate, export, info, sample
from noisyor.cli.options import as_flags
from noisyor.cli.report import report
from noisyor.errors import NoisyOrError

__all__ = ["main"]

FAILED = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; ``arguments`` default to those of the process. Returns the exit code."""
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


@_cli.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("noisyor-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for the page and the model.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the images and of the training.",
)
@click.option(
    "--json",
    "record",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the result as JSON.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Number of updates.",
)
@click.option(
    "--threads", type=click.IntRange(min=1), metavar="N", help="Threads; by default all cores."
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def demo(
    out: Path, seed: int, record: Path | None, steps: int, threads: int | None, quiet: bool
) -> None:
    """Find four shapes that overlap in small images.

    Draws 100 images, learns from 80 of them which shapes they are made of, explains the other 20,
    and writes a page to look at and a model file. Takes about half a minute on two cores, and
    another 20 seconds the first time, to compile.
    """
    began = time.perf_counter()
    from noisyor._util.validation import check_seed
    from noisyor.demo.files import prepare_files, write_files
    from noisyor.demo.page import demo_page, require_templates
    from noisyor.demo.run import run_demo
    from noisyor.demo.text import demo_text, marks_for
    from noisyor.engines.registry import get_engine

    check_seed(seed)
    engine = get_engine(n_threads=threads)
    require_templates()
    files = prepare_files(out, record)
    if not quiet:
        click.echo("Looking for four shapes in 80 images (the first run also compiles) ...")
    result = run_demo(seed, steps=steps, engine=engine, progress=False if quiet else None)
    page = demo_page(result)
    write_files(files, page, result.network, result.record(time.perf_counter() - began))
    if not quiet:
        marks = marks_for(sys.stdout.encoding)
        click.echo("\n" + demo_text(result, files.page, files.model, marks))
        if files.record is not None:
            click.echo(f"json   {files.record}")


for _command in (
    *(fit, resume, explain, evaluate, sample, report, export, info),
    *(reproduce, figures, reproduce_report),
):
    _cli.add_command(_command)
