"""What the commands share: how they run, options, output paths, printing, reading models and data.

`run_command_line` also runs ``noisyor-hpo`` and ``python -m reproduction``. Errors are one line on
stderr and an exit code, without a traceback.
"""

from __future__ import annotations

import ast
import errno
import functools
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

import click

from noisyor._util.validation import COUNT, OPTIONS, POSITIVE, SEED, Option, Rule, count
from noisyor.errors import InvalidSettingError, NoisyOrError
from noisyor.tables.options import READING

if TYPE_CHECKING:
    from noisyor.engines.contract import Engine
    from noisyor.io.model_file import SavedModel
    from noisyor.tables import Table

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]

NOTHING_FOUND = 1
"""Exit code of a command that worked and found no cause."""

MAX_CELLS = 2 * 10**8
"""Entries of the largest dense table that a command writes."""


# ---- running a command

FAILED, INTERRUPTED = 2, 130


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
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except (click.Abort, KeyboardInterrupt):
            say("interrupted")
            return INTERRUPTED
        except click.ClickException as error:
            return fail(error.format_message() + _help_for(error))
        except NoisyOrError as error:
            return fail(describe(error))
        except MemoryError:
            return fail("out of memory")
        except OSError as error:
            _drop_output()
            is_full = error.errno == errno.ENOSPC
            where = error.filename or ("the output cannot be written" if is_full else None)
            reason = error.strerror or str(error)
            return fail(reason if where is None else f"{where}: {reason}")


def _drop_output() -> None:
    """Discard output that cannot be written: Python would try again at its end, and exit 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _help_for(error: click.ClickException) -> str:
    """Return what to do about an unknown command or option, if click suggests no other."""
    context = getattr(error, "ctx", None)
    if context is None or "Did you mean" in error.format_message():
        return ""
    if isinstance(error, click.NoSuchOption):
        return f" `{context.command_path} --help` lists the options."
    is_group = isinstance(context.command, click.Group)
    return f" There are {', '.join(context.command.list_commands(context))}." if is_group else ""


def printable(text: str) -> str:
    """Return a text without what would steer a terminal or is not in its encoding.

    Names in a file may hold escape sequences, which change titles, colors or the lines above.
    """
    encoding = sys.stdout.encoding or "ascii"
    shown = "".join(
        one if one.isprintable() or one in "\n\t" or category(one) == "Zs" else "\ufffd"
        for one in text
    )
    try:
        return shown.encode(encoding).decode(encoding)
    except UnicodeEncodeError:
        return shown.replace("–", "-").encode(encoding, "replace").decode(encoding)


# ---- options


class _PathType(click.Path):
    """A path; it must not contain NUL bytes."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if "\0" in str(value):
            self.fail("a path must not contain NUL bytes", param, ctx)
        return super().convert(value, param, ctx)


PATH = _PathType(path_type=Path)

model_argument = click.argument("model", type=PATH, metavar="MODEL")
data_argument = click.argument("data", type=PATH, metavar="DATA")
optional_data_argument = click.argument("data", type=PATH, metavar="[DATA]", required=False)


def _hide_bars(context: click.Context, option: Any, value: bool) -> bool:
    """Hide all progress bars until the command ends."""
    if value:
        from noisyor._util.progress import hidden_bars

        context.with_resource(hidden_bars())
    return value


json_option = click.option(
    "--json", "as_json", is_flag=True, callback=_hide_bars, help="Print JSON instead of text."
)
quiet_option = click.option(
    "--quiet", is_flag=True, callback=_hide_bars, help="Print nothing but errors."
)


class Ruled(click.ParamType):  # type: ignore[type-arg]
    """A value of an option that ``read`` makes of its text and that a rule allows."""

    name = "value"

    def __init__(self, rule: Rule, read: Callable[[str], Any] = int) -> None:
        self.rule, self.read = rule, read

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value, or fail with the values that the rule allows."""
        try:
            found = self.read(value)
            self.rule.check("value", found)
        except (ValueError, InvalidSettingError):
            self.fail(f"expected {self.rule.expected.removesuffix(' or None')}, got {value!r}")
        return found


seed_option = click.option(
    "--seed",
    type=Ruled(SEED),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the random numbers.",
)

threads_option = click.option(
    "--threads",
    type=Ruled(COUNT),
    metavar="N",
    help="Number of threads; by default all cores.",
)


def out_option(
    help: str, *, metavar: str = "FILE", default: str | None = None, required: bool = False
) -> Decorator:
    """Add ``--out``, the path of the result."""
    # Not default=None: click would take it for a value, which satisfies ``required``.
    value: dict[str, Any] = {} if default is None else {"default": default, "show_default": True}
    return click.option("--out", type=PATH, metavar=metavar, required=required, help=help, **value)


def force_option(help: str = "Replace the file if it exists.") -> Decorator:
    """Add ``--force``, see `check_output`."""
    return click.option("--force", is_flag=True, help=help)


def table_option(
    name: str, flag: str | None = None, options: Mapping[str, Option] = OPTIONS
) -> Decorator:
    """Add the flag of a setting in a table of options; the command gets its value or None."""
    option = options[name]
    return click.option(
        flag or f"--{name.replace('_', '-')}",
        name,
        type=Ruled(option.rule, option.read),
        metavar=option.metavar,
        help=option.help,
    )


time_limit_option = click.option(
    "--time-limit",
    type=Ruled(POSITIVE, float),
    metavar="SECONDS",
    help="Stop after this time and write the best model found.",
)


def top_option(default: int, least: int) -> Decorator:
    """Add ``--top``: how many causes are listed."""
    return click.option(
        "--top",
        type=Ruled(count(least)),
        default=default,
        show_default=True,
        metavar="N",
        help="Number of causes to list.",
    )


def engine_with(threads: int | None) -> Engine:
    """Return the engine of a command; imported late, because ``--help`` needs none."""
    from noisyor.engines.registry import get_engine

    return get_engine(n_threads=threads)


def reading_options(function: Function) -> Function:
    """Add the options of reading DATA; the command gets those given as the dict ``reading``."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in READING if name in options}
        reading = {name: value for name, value in given.items() if value not in (None, ())}
        return function(*arguments, reading=reading, **options)

    command: Function = wrapper
    for name, option in reversed(READING.items()):
        flag = name.replace("_", "-")
        add: Decorator
        if option.read is bool:
            add = click.option(f"--{flag}/--no-{flag}", default=None, help=option.help)
        elif name == "drop":
            add = click.option("--drop", multiple=True, metavar="NAME", help=option.help)
        else:
            add = table_option(name, options=READING)
        if option.help:
            command = add(command)
    return command


_OPTIONS_OF_ARGUMENTS = {"n_components": "--components", "n_layers": "--layers"}


def as_flags(message: str) -> str:
    """Replace ``ReadOptions(name=value)`` and names of arguments in a message by flags."""
    text = r"""(?:'[^']*'|"[^"]*")"""

    def flag(match: re.Match[str]) -> str:
        name = match[1].replace("_", "-")
        if match[2] == "True":
            return f"--{name}"
        value = ast.literal_eval(match[2]) if match[2][0] in "('\"" else match[2]
        values = value if isinstance(value, tuple) else (value,)
        if not any("," in one for one in values):
            values = (",".join(values),)
        return " ".join(f"--{name} {shlex.quote(one)}" for one in values)

    for name, option in _OPTIONS_OF_ARGUMENTS.items():
        quote = r"['\"]?"
        message = re.sub(rf"(?<![\w'\"-]){name}={quote}(\w+){quote}", rf"{option} \1", message)
        if "_" in name:  # unlike a word of English
            message = re.sub(rf"(?<![\w'\"-]){name}(?![\w='\"])", option, message)
    form = rf"ReadOptions\((\w+)=(\({text}(?:, {text})*,?\)|{text}|[\w.]+)\)"
    return re.sub(form, flag, message)


# ---- output


def check_output(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Reject an unwritable path before any work; create nothing.

    Raises
    ------
    InvalidSettingError : the file exists and ``force`` is not set, is not a regular file, or is
        one of the inputs.
    OSError : its folder does not exist or cannot be written to, or the disk is full.
    """
    from noisyor._util.files import check_folder

    for given in inputs:
        if given.exists() and os.path.realpath(given) == os.path.realpath(path):
            raise InvalidSettingError(f"{path} is also the input; choose another name")
    if os.path.lexists(path):
        if not path.is_file():
            raise InvalidSettingError(f"{path} cannot be replaced: it is not a regular file")
        if not force:
            raise InvalidSettingError(f"{path} exists; --force replaces it")
    parent = path.parent
    if not parent.is_dir():
        what = "is not a folder" if parent.exists() else "does not exist; create it first"
        raise InvalidSettingError(f"the folder {parent} {what}")
    check_folder(parent)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output; NaN and infinity become null."""
    from noisyor._util.files import to_json

    click.echo(to_json(value, indent=2, ascii_only=True))


def few(items: list[str], shown: int = 8) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" ... and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more


def recurs(share: float) -> str:
    """Return a mark for a cause that was found again in this share of the resamples."""
    return f"  [recurs in {100 * share:.0f} % of the resamples]"


# ---- models and data


def check_order(model: Path, data: Path | None) -> None:
    """Raise an error if MODEL and DATA were swapped, or if DATA is a model, too."""
    from noisyor.io.model_file import is_sealed

    if data is not None and model.is_file() and is_sealed(data):
        if not is_sealed(model):
            raise InvalidSettingError(f"MODEL comes before DATA: {data} is the model, not {model}")
        raise InvalidSettingError(f"{data} is a model; DATA is a file of rows")


def open_model(model: Path, data: Path | None = None) -> SavedModel:
    """Read a model file; the error says if MODEL and DATA were swapped."""
    from noisyor.io.model_file import load_model

    check_order(model, data)
    return load_model(model)


def read_for(saved: SavedModel, data: Path, reading: dict[str, Any]) -> Table:
    """Read DATA in the columns of a model, by default as the model's own data were read."""
    from noisyor.tables.table import read_like

    table = read_like(saved.metadata, data, reading, saved.network)
    if table.ignored:
        click.echo(
            f"note: {table.ignored:,} columns or items of {data} are not in the model", err=True
        )
    is_named = table.observations.column_names is not None
    if is_named != (saved.network.visible_names is not None):
        what = "the model" if is_named else data
        click.echo(f"note: {what} does not name its columns: matched by position", err=True)
    return table


def row_numbers(text: str, n_rows: int) -> list[int]:
    """Return row indices from a list such as ``0-9`` or ``0,3,5-7``; all must exist."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})\s*(?:-\s*([0-9]{1,18})\s*)?", part)
        if match is None:
            raise InvalidSettingError(f"--rows is a list such as 0-9 or 0,3,5, got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InvalidSettingError(f"--rows: {part.strip()} runs backwards")
        if last >= n_rows:
            raise InvalidSettingError(
                f"--rows: row {last} does not exist, there are rows 0 to {n_rows - 1}"
            )
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)
