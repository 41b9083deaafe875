"""What `noisyor fit` is asked to learn: its options, read and checked against each other."""

from __future__ import annotations

from typing import Any

import click

from noisyor.errors import InvalidSettingError

__all__ = ["count", "shape", "structure_of"]

_STRUCTURE = {
    "factors": {"n_components", "objective"},
    "topics": {"n_layers"},
    "features": {"n_components", "feature_shape"},
}


def _is_count(text: str) -> bool:
    """Whether a text is a positive whole number of sane length."""
    return text.isdecimal() and len(text) < 10 and int(text) > 0


def count(context: Any, option: Any, value: str | None) -> int | str | None:
    """A whole number, or "auto"."""
    if value is None or value == "auto":
        return value
    if not _is_count(value):
        raise click.BadParameter(f"{value!r} is neither a positive whole number nor 'auto'")
    return int(value)


def shape(context: Any, option: Any, value: str | None) -> tuple[int, int] | None:
    """Height and width, such as 6,6 or 6x6."""
    if value is None:
        return None
    parts = [part.strip() for part in value.replace("x", ",").split(",")]
    if len(parts) != 2 or not all(map(_is_count, parts)):
        raise click.BadParameter(f"{value!r} is not HEIGHT,WIDTH such as 6,6")
    return int(parts[0]), int(parts[1])


def structure_of(
    kind: str | None,
    components: int | str | None,
    objective: str | None,
    topics: int | None,
    layers: int | None,
    feature_shape: tuple[int, int] | None,
) -> tuple[Any, dict[str, Any]]:
    """Kind, None if the data decide, and arguments of the learning function; none may be idle."""
    structure = {"n_components": components, "n_layers": layers, "feature_shape": feature_shape}
    given = {"objective": objective, **structure}
    given = {name: value for name, value in given.items() if value is not None}
    if topics is not None:
        if given or kind not in (None, "topics"):
            raise InvalidSettingError(
                "--topics says how many topics to learn; --components, --objective, --layers, "
                "--feature-shape and other kinds do not go with it"
            )
        return "topics", {"n_components": topics}
    fitting = [name for name, own in _STRUCTURE.items() if set(given) <= own]
    if not fitting or (kind is not None and kind not in fitting):
        raise InvalidSettingError(
            "--components belongs to factors and features, --objective to factors, --layers to "
            "topics, --feature-shape to features; they cannot be mixed"
            + (f" with --kind {kind}" if kind else "")
        )
    if kind is None and len(fitting) == 1:
        kind = fitting[0]
    if kind == "features" and components == "auto":
        raise InvalidSettingError("--components auto is for factors; features need a number")
    return kind, given
