"""Columns of a table: which one names the rows, which has weights, which hold data."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Container, Sequence

from noisyor.data.columns import require
from noisyor.errors import InvalidDataError
from noisyor.tables.options import ReadOptions

__all__ = [
    "as_number",
    "column_number",
    "id_column",
    "kept_columns",
    "weight_of",
    "weights_column",
]


def id_column(
    options: ReadOptions,
    names: list[str] | None,
    width: int,
    where: object,
    wanted: Sequence[str] | None = None,
) -> int | None:
    """Number of the column that names the rows, if there is one; not one of those wanted."""
    return _role(
        options.id_column, options.id_required, names, width, f"{where}: id column", wanted
    )


def weights_column(
    options: ReadOptions,
    names: list[str] | None,
    width: int,
    where: object,
    wanted: Sequence[str] | None = None,
) -> int | None:
    """Number of the column that says how many rows each one stands for, as in `id_column`."""
    place = f"{where}: column of weights"
    return _role(options.weights, options.weights_required, names, width, place, wanted)


def _role(
    role: str | None,
    required: bool,
    names: list[str] | None,
    width: int,
    where: str,
    wanted: Sequence[str] | None,
) -> int | None:
    if role is None:
        return None
    if not required and role not in (names or ()):
        number = as_number(role, width)
        if number is None or (names is not None and names[number] in (wanted or ())):
            return None
    return column_number(role, names, width, where)


def weight_of(value: object, where: str) -> float:
    """How many rows a row stands for: 0 or a positive number."""
    try:
        weight = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        weight = math.nan
    if not (math.isfinite(weight) and weight >= 0) or isinstance(value, bool):
        shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:40] + "..."
        raise InvalidDataError(f"{where}: a weight is 0 or a positive number of rows, got {shown}")
    return weight


def kept_columns(
    options: ReadOptions,
    names: list[str] | None,
    width: int,
    roles: Container[int | None],
    where: object,
    wanted: Sequence[str] | None,
) -> list[int]:
    """Numbers of the columns that hold data: wanted ones, or all that are not dropped.

    ``roles`` are the columns that hold something else.
    """
    if wanted is not None and names is not None:
        require(names, wanted, where)
        chosen = set(wanted)
        return [k for k, name in enumerate(names) if name in chosen and k not in roles]
    dropped = {column_number(drop, names, width, f"{where}: drop") for drop in options.drop}
    kept = [k for k in range(width) if k not in dropped and k not in roles]
    if not kept:
        raise InvalidDataError(f"{where}: no column is left")
    return kept


def column_number(wanted: str, names: list[str] | None, width: int, where: str) -> int:
    """A column from its name, or from its number if no column has that name."""
    if names is not None and wanted in names:
        return names.index(wanted)
    number = as_number(wanted, width)
    if number is None:
        there = f"there are {', '.join(map(repr, names[:12]))}" if names else f"{width} columns"
        more = " ..." if names is not None and len(names) > 12 else ""
        shown = wanted if wanted.lstrip("-").isdigit() else reprlib.repr(wanted)
        raise InvalidDataError(f"{where}: no column {shown}; {there}{more}")
    return number


def as_number(wanted: str | None, width: int) -> int | None:
    """A number of a column from 0, or from -1 backwards; None if it is not one."""
    try:
        number = int(wanted or "")
    except ValueError:
        return None
    return number % width if -width <= number < width else None
