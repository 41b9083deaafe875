"""`noisyor serve`: an interactive page about a model, and functions for other servers."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisyor._util.validation import Rule
from noisyor.cli import common

if TYPE_CHECKING:
    from noisyor.serve.subjects import Subject


def server_options(command: common.Function) -> common.Function:
    """Add ``--port`` and ``--open`` to a command that calls `run_server`."""
    opened = click.option("--open", "opened", is_flag=True, help="Also open the page in a browser.")
    port = click.option(
        "--port",
        type=common.Ruled(Rule(range(65_536).__contains__, "0 .. 65535")),
        default=8765,
        show_default=True,
        metavar="N",
        help="Port to listen on; 0 takes any free port.",
    )
    return port(opened(command))


def run_server(load: Callable[[], Subject], port: int, opened: bool) -> None:
    """Serve a page until Ctrl-C; print its address, and open a browser if asked to."""
    from noisyor.serve.server import serve as run

    def ready(address: str) -> None:
        click.echo(f"{address}  (Ctrl-C ends)")
        if opened:
            webbrowser.open(address)

    run(load, port, ready)


@click.command()
@common.model_argument
@server_options
def serve(model: Path, port: int, opened: bool) -> None:
    """Show MODEL on an interactive page: type findings and see their likely causes.

    The page shows the likely causes, what each explains, which other findings are likely, what one
    finding would change, and what to ask next. Programs get the same answers as JSON: see /api.

    Only this machine can reach the server. Ctrl-C stops it.

    \b
    Examples:
      noisyor serve zoo.safetensors --open
      noisyor serve topics.safetensors --port 0
    """
    from noisyor.serve.networks import load_subject

    run_server(lambda: load_subject(model), port, opened)
