"""Reproduce the paper: ``python -m reproduction run tiny20``, ``page`` and ``figures``.

Every error is one line on stderr and an exit code, never a traceback.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import click

from noisyor._util.files import write_atomically
from noisyor.cli.common import printable, run_command_line
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.learning.initialize import Noise
from reproduction import NAMES, experiment, runner
from reproduction.appendix import appendix
from reproduction.comparison import entries
from reproduction.figures import write_figures
from reproduction.page import document
from reproduction.protocol import Choice
from reproduction.record import FOLDER, Record
from reproduction.terminal import table_text

__all__ = ["main"]

_METHODS = (
    *("mp", "vi", "local-vi", "hybrid", "pmp"),
    *("mp-two-stage", "hybrid-two-stage", "pmp-two-stage"),
)
_FLAGS = {
    "datasets": "--dataset",
    "sizes": "--size",
    "n_components": "--components",
    "jobs": "--jobs",
    "damping": "--damping",
    "tolerance": "--tolerance",
}
_MAX_SEEDS = 10_000
_PATH = click.Path(path_type=Path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``arguments`` default to those of the process."""
    return run_command_line(_cli, "reproduction", arguments, prog_name="python -m reproduction")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def _cli() -> None:
    """Reproduce the paper's experiments from a clone of the repository."""


@_cli.command()
@click.argument("name", metavar="EXPERIMENT", type=click.Choice(NAMES))
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(_METHODS),
    help="Repeatable. By default max-product with the messages in the paper's order.",
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    help="Repeatable, for text and overparam. By default all of the paper's.",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="N,R",
    help="Repeatable, for bmf: rows and causes. By default the paper's nine.",
)
@click.option(
    "--components",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="K",
    help="Repeatable, for overparam: number of causes. By default 8, 10, 16, 32.",
)
@click.option(
    "--seeds", default="0-9", show_default=True, metavar="LIST", help="Such as 0-9 or 0,3,5."
)
@click.option(
    "--init",
    "inits",
    multiple=True,
    metavar="NAME",
    help="Repeatable: paper-1 .. paper-4. By default the paper's list.",
)
@click.option(
    "--noise",
    "noises",
    multiple=True,
    type=click.Choice(("gaussian", "wide-gaussian", "uniform")),
    help="Repeatable, for bmf, overparam and deconvolution: noise at the start. gaussian, the "
    "default, is N(0, 0.1) of the paper's text with 0.1 as the standard deviation, wide-gaussian "
    "with 0.1 as the variance, uniform that of the authors' software.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Updates, instead of the paper's number.",
)
@click.option(
    "--tolerance",
    type=float,
    metavar="X",
    help="At which the inference of a row stops, in the last phase; by default the method's own.",
)
@click.option("--damping", type=float, metavar="X", help="Of max-product.  [default: 0.5]")
@click.option(
    "--validation-seeds",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="Seeds with which the start is chosen on held-out training rows; 0 for none.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads of each run; by default the cores divided by the jobs.",
)
@click.option(
    "--out",
    type=_PATH,
    metavar="DIR",
    default=FOLDER,
    help="Folder with the record of runs, and for checkpoints.  [default: reproduction]",
)
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Skip finished runs, or repeat them.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def run(
    name: str,
    methods: tuple[str, ...],
    datasets: tuple[str, ...],
    sizes: tuple[str, ...],
    components: tuple[int, ...],
    seeds: str,
    inits: tuple[str, ...],
    noises: tuple[Noise, ...],
    steps: int | None,
    tolerance: float | None,
    damping: float | None,
    validation_seeds: int,
    jobs: int,
    threads: int | None,
    out: Path,
    resume: bool,
    quiet: bool,
) -> None:
    """Run an experiment of the paper and print its numbers beside the paper's.

    EXPERIMENT is tiny20, text, bmf, overparam or deconvolution. Every finished run is added to
    DIR/runs.jsonl; give the same command again to continue a sweep that was stopped.
    """

    about = experiment(name)
    choice = Choice(datasets, sizes, components)
    with _flags_in_errors():
        specs = about.specs(
            *(methods, choice, inits, _seeds(seeds), steps, validation_seeds),
            noises=noises,
            tolerance=tolerance,
            damping=damping,
        )
    sweep = runner.Sweep(specs, out, resume, jobs, threads, False if quiet else None)
    if not quiet:
        click.echo(f"{about.title}: {len(specs)} runs, recorded in {out}", err=True)

    try:
        with _flags_in_errors():
            runner.run_sweep(sweep)
    except KeyboardInterrupt:
        click.echo(
            f"reproduction: finished runs and checkpoints are in {out}; "
            "give the same command again to continue",
            err=True,
        )
        raise
    if not quiet:
        asked = {(spec.case, spec.method, spec.steps) for spec in specs}
        lines = [
            line
            for line in entries(about, Record(out).runs(name))
            if (line.group.case, line.group.method, line.group.steps) in asked
        ]
        click.echo(printable(table_text(lines)))


@contextmanager
def _flags_in_errors() -> Iterator[None]:
    """Replace parameter names in errors by the flags that set them."""
    try:
        yield
    except (InvalidSettingError, runner.SweepError) as error:
        words = re.compile("|".join(rf"\b{name}\b" for name in _FLAGS))
        raise type(error)(words.sub(lambda match: _FLAGS[match[0]], str(error))) from error


def _seeds(text: str) -> list[int]:
    """Parse a list of seeds such as ``0-9`` or ``0,3,5-7``."""
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})\s*(?:-\s*([0-9]{1,18})\s*)?", part)
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not found:
            raise InvalidSettingError(f"--seeds is a list such as 0-9 or 0,3,5, got {text!r}")
        if len(found) > _MAX_SEEDS:
            raise InvalidSettingError(f"--seeds: more than {_MAX_SEEDS:,} seeds in {text!r}")
        ranges.append(found)
    return list(dict.fromkeys(chain.from_iterable(ranges)))


_record_option = click.option(
    "--record",
    type=_PATH,
    metavar="DIR",
    default=FOLDER,
    help="Folder with the record of runs.  [default: reproduction]",
)


@_cli.command()
@_record_option
@click.option(
    "--out",
    type=_PATH,
    metavar="DIR",
    default=FOLDER / "figures",
    help="Folder for the pictures.  [default: reproduction/figures]",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def figures(record: Path, out: Path, quiet: bool) -> None:
    """Draw the paper's figures from the recorded runs, as PNG and SVG."""
    written = write_figures(Record(record).runs(), out)
    if not quiet:
        for path in written:
            click.echo(str(path))


@_cli.command()
@_record_option
@click.option(
    "--out",
    type=_PATH,
    metavar="FILE",
    default=FOLDER.parent / "docs" / "reproduction.md",
    help="The page.  [default: docs/reproduction.md]",
)
@click.option(
    "--runs",
    type=_PATH,
    metavar="FILE",
    default=FOLDER / "RUNS.md",
    help="Its appendix with every run.  [default: reproduction/RUNS.md]",
)
def page(record: Path, out: Path, runs: Path) -> None:
    """Write the page of verdicts on the paper's numbers, and its appendix."""
    texts = {out: document(record), runs: appendix(record)}
    for path, text in texts.items():
        title = text.partition("\n")[0]
        if path.exists() and path.read_bytes()[:100].partition(b"\n")[0] != title.encode():
            raise InvalidSettingError(f"{path} exists and is another page; choose another name")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())


@_cli.command()
@_record_option
def verify(record: Path) -> None:
    """Compare the record with its checksums: no run may have been edited or removed."""
    faults = Record(record).faults()
    if faults:
        raise InvalidDataError(f"{record}: {'; '.join(faults)}")


if __name__ == "__main__":
    sys.exit(main())
