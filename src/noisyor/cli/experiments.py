"""Commands that reproduce the paper: run experiments, draw its figures, write the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor.cli.options import (
    json_file_option,
    number_ranges,
    out_option,
    printable,
    quiet_option,
    results_argument,
    steps_option,
    threads_option,
)
from noisyor.errors import InvalidSettingError, SweepError

if TYPE_CHECKING:
    from noisyor.learning.initialize import Noise

__all__ = ["figures", "reproduce", "reproduce_report"]

_NAMES = ("tiny20", "text", "bmf", "overparam", "deconvolution")
_METHODS = ("mp", "vi", "local-vi", "hybrid", "pmp", "mp-two-stage", "hybrid-two-stage")
_FLAGS = {
    "datasets": "--dataset",
    "sizes": "--size",
    "n_components": "--components",
    "jobs": "--jobs",
    "damping": "--damping",
    "tolerance": "--tolerance",
}
_MAX_SEEDS = 10_000


@click.command()
@click.argument("name", metavar="EXPERIMENT", type=click.Choice(_NAMES))
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
@steps_option("Updates, instead of the paper's number.")
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
@threads_option("Threads of each run; by default the cores divided by the jobs.")
@out_option("Folder for the runs.  [default: results/EXPERIMENT]", metavar="DIR")
@json_file_option("Also write all results as JSON.")
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Skip finished runs, or repeat them.",
)
@quiet_option
def reproduce(
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
    out: Path | None,
    record: Path | None,
    resume: bool,
    quiet: bool,
) -> None:
    """Run an experiment of the paper and print its numbers beside the paper's.

    EXPERIMENT is tiny20, text, bmf, overparam or deconvolution. Every finished run is a file in
    DIR/runs; give the same command again to continue a sweep that was stopped.
    """
    from noisyor._util.atomic import write_atomically
    from noisyor.experiments import experiment
    from noisyor.experiments.protocol import Choice
    from noisyor.experiments.records import check_replaceable, find_runs, to_text
    from noisyor.experiments.results.comparison import build_summary, entries
    from noisyor.experiments.results.terminal import table_text
    from noisyor.experiments.runner import Sweep, run_sweep

    about = experiment(name)
    choice = Choice(datasets, sizes, components)
    with _flags_in_errors():
        specs = about.specs(
            *(methods, choice, inits, _seeds(seeds), steps, validation_seeds),
            noises=noises,
            tolerance=tolerance,
            damping=damping,
        )
    out = out or Path("results") / name
    for path in filter(None, (out / "results.json", record)):
        check_replaceable(path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
    sweep = Sweep(specs, out, resume, jobs, threads, False if quiet else None)
    if not quiet:
        click.echo(f"{about.title}: {len(specs)} runs, results in {out}", err=True)

    def collect() -> list[dict[str, Any]]:
        """Write what is finished, also after an interrupt."""
        runs = find_runs(out, name)
        result = to_text(build_summary(about, runs)).encode()
        for path in filter(None, (out / "results.json", record)):
            write_atomically(path, result)
        return runs

    try:
        with _flags_in_errors():
            run_sweep(sweep)
    except KeyboardInterrupt:
        collect()
        click.echo(
            f"noisyor: finished runs and checkpoints are in {out}; "
            "give the same command again to continue",
            err=True,
        )
        raise
    runs = collect()
    if not quiet:
        asked = {(spec.case, spec.method, spec.steps) for spec in specs}
        lines = [
            line
            for line in entries(about, runs)
            if (line.group.case, line.group.method, line.group.steps) in asked
        ]
        click.echo(printable(table_text(lines)))


@contextmanager
def _flags_in_errors() -> Iterator[None]:
    """Errors of the library name its parameters; here they become the flags that set them."""
    try:
        yield
    except (InvalidSettingError, SweepError) as error:
        words = re.compile("|".join(rf"\b{name}\b" for name in _FLAGS))
        raise type(error)(words.sub(lambda match: _FLAGS[match[0]], str(error))) from error


def _seeds(text: str) -> list[int]:
    """Seeds from a list such as ``0-9`` or ``0,3,5-7``."""
    ranges = number_ranges("--seeds", text)
    if any(len(found) > _MAX_SEEDS for found in ranges):
        raise InvalidSettingError(f"--seeds: more than {_MAX_SEEDS:,} seeds in {text!r}")
    return list(dict.fromkeys(chain.from_iterable(ranges)))


@click.command()
@results_argument
@out_option("Folder for the pictures.", metavar="DIR", default="figures")
@quiet_option
def figures(results: Path, out: Path, quiet: bool) -> None:
    """Draw the paper's figures from the runs in a folder, as PNG and SVG."""
    from noisyor.experiments.records import find_runs
    from noisyor.experiments.results.figures import write_figures

    written = write_figures(find_runs(results), out)
    if not quiet:
        for path in written:
            click.echo(str(path))


@click.command("reproduce-report")
@results_argument
@out_option("The page.", default="docs/reproduction.md")
def reproduce_report(results: Path, out: Path) -> None:
    """Write the page that sets all results beside the paper's."""
    from noisyor._util.atomic import write_atomically
    from noisyor.experiments.results.page import document

    text = document(results)
    if (
        out.exists()
        and out.read_bytes()[:100].partition(b"\n")[0] != text.encode().partition(b"\n")[0]
    ):
        raise InvalidSettingError(f"{out} exists and is another page; choose another name")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
