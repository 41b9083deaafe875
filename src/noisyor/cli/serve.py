"""`noisyor serve`: a model to play with in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from noisyor.cli.options import model_argument

__all__ = ["serve"]


@click.command()
@model_argument
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=8765,
    show_default=True,
    metavar="N",
    help="Port to listen on; 0 takes any that is free.",
)
@click.option("--open", "opened", is_flag=True, help="Also open the page in a browser.")
def serve(model: Path, port: int, opened: bool) -> None:
    """Show MODEL on a page to play with: type findings, see causes at once.

    The page completes names, and shows the likely causes, what each explains, what else is likely,
    what would change, and what to ask next. Programs ask the same questions in JSON: see /api.

    The server answers this machine only, and needs no network. Ctrl-C ends it.

    \b
    Examples:
      noisyor serve zoo.safetensors --open
      noisyor serve topics.safetensors --port 0
    """
    from noisyor.serve.run import load_subject
    from noisyor.serve.run import serve as run

    def ready(address: str) -> None:
        click.echo(f"{address}  (Ctrl-C ends)")
        if opened:
            webbrowser.open(address)

    run(lambda: load_subject(model), port, ready)
