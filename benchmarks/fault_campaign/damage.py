"""Changes that make content hostile: bytes damaged, odd values in JSON, numbers out of range."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

Random = np.random.Generator

ODD: list[Any] = [
    *(None, True, 0, 1, -1, 2**31, 2**63, 10**400, 1.5, -1e308, "", "x", "a\0b", "\ud800"),
    *("/etc/passwd", "../x", [], {}, [1], ["a", None], {"a": 1}, [[1, 2], [3]], "9" * 5000),
    *("nan", "utf-16", "jsonl", 0.5, {"method": "max-product"}, {"method": "mean-field"}),
    *({"method": "max-product", "temperature": "x"}, {"rows": "x"}, "é" * 1000, "=1+1"),
]


def damaged(random: Random, content: bytes) -> bytes:
    """Bits flipped, bytes written over, cut, repeated or left out."""
    damaged, way = bytearray(content), random.integers(5)
    place = int(random.integers(len(damaged)))
    if way == 0:
        damaged[place] ^= 1 << int(random.integers(8))
    elif way == 1:
        for other in random.integers(len(damaged), size=8):
            damaged[other] = int(random.integers(256))
    elif way == 2:
        del damaged[place:]
    elif way == 3:
        damaged[place:place] = damaged[place : place + 64]
    else:
        del damaged[place : place + int(random.integers(1, 64))]
    return bytes(damaged)


def with_something_odd(random: Random, value: Any) -> Any:
    """The same JSON with something odd in one or two places."""
    for _ in range(random.integers(1, 3)):
        places = list(_places(value))
        place = places[random.integers(1, len(places))] if len(places) > 1 else ()
        value = _put(value, place, copy.deepcopy(ODD[random.integers(len(ODD))]))
    return value


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*place, key))


def _put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    value[place[0]] = _put(value[place[0]], place[1:], new)
    return value


def wrong(random: Random, array: np.ndarray) -> np.ndarray:
    """Numbers of an array outside of any range, of another type, shape or length."""
    array = np.array(array)
    if not array.size:
        return array
    way = random.integers(6)
    if way == 0:
        array.flat[random.integers(array.size)] = random.choice([-1, -5, 2**31 - 1, 10**6, 9])
    elif way == 1:
        array = array[: random.integers(array.size)]
    elif way == 2:
        array = np.concatenate([array, array])
    elif way == 3:
        array = array.astype(np.float64)
        array.flat[0] = np.nan
    elif way == 4:
        array = array.reshape(-1, 1)
    else:
        array.flat[random.integers(array.size, size=3)] = random.integers(-(10**6), 10**6, 3)
    return array
