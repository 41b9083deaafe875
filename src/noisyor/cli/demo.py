"""The command ``noisyor demo``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from noisyor.cli.options import (
    engine_with,
    json_file_option,
    out_option,
    quiet_option,
    seed_option,
    steps_option,
    threads_option,
)

__all__ = ["demo"]


@click.command()
@out_option("Folder for the page and the model.", metavar="DIR", default="noisyor-demo")
@seed_option
@json_file_option("Also write the result as JSON.")
@click.option(
    "--algorithm",
    type=click.Choice(["search", "paper"]),
    default="search",
    show_default=True,
    help="Search for the shapes and fine-tune them, or train by the paper's Algorithm 1.",
)
@steps_option("Number of updates; default 20 after the search, 1000 by the paper's training.")
@threads_option()
@quiet_option
def demo(
    out: Path,
    seed: int,
    record: Path | None,
    algorithm: str,
    steps: int | None,
    threads: int | None,
    quiet: bool,
) -> None:
    """Find four shapes that overlap in small images.

    Draws 100 images, learns from 80 of them which shapes they are made of, explains the other 20,
    and writes a page to look at and a model file. Takes a few seconds on two cores, and another 20
    the first time, to compile; the paper's training (--algorithm paper) takes half a minute.
    """
    began = time.perf_counter()
    from noisyor.demo.files import prepare_files, write_files
    from noisyor.demo.page import demo_page, require_templates
    from noisyor.demo.run import run_demo
    from noisyor.demo.text import demo_text, marks_for

    engine = engine_with(threads)
    require_templates()
    files = prepare_files(out, record)
    if not quiet:
        click.echo("Looking for four shapes in 80 images (the first run also compiles) ...")
    result = run_demo(
        seed, algorithm=algorithm, steps=steps, engine=engine, progress=False if quiet else None
    )
    page = demo_page(result)
    write_files(files, page, result.network, result.record(time.perf_counter() - began))
    if not quiet:
        marks = marks_for(sys.stdout.encoding)
        click.echo("\n" + demo_text(result, files.page, files.model, marks))
        if files.record is not None:
            click.echo(f"json   {files.record}")
