"""JSON without surprises: plain values, finite numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from noisyor._util.files import plain, to_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        (3, 3),
        (0.5, 0.5),
        (float("nan"), None),
        (float("inf"), None),
        (np.float32(0.25), 0.25),
        (np.float64("-inf"), None),
        (np.int64(7), 7),
        (np.bool_(False), False),
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({1: {"a": np.uint8(2)}}, {"1": {"a": 2}}),
    ],
)
def test_plain_values_are_what_json_gives_back(value: object, expected: object) -> None:
    result = plain(value)

    assert result == expected
    assert type(result) is type(expected)
    assert json.loads(to_json(value)) == expected


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, [b"bytes"], 1j])
def test_what_json_has_no_form_for_is_an_error(value: object) -> None:
    with pytest.raises(TypeError, match="JSON cannot hold a"):
        plain(value)


def test_values_are_not_changed() -> None:
    value = {"a": [float("nan"), np.float64(1.0)]}

    plain(value)

    assert np.isnan(value["a"][0])
    assert isinstance(value["a"][1], np.float64)


def test_text_is_readable_or_ascii() -> None:
    value = {"café": [1]}

    assert to_json(value) == '{"café": [1]}'
    assert to_json(value, indent=1) == '{\n "café": [\n  1\n ]\n}'
    assert to_json(value, ascii_only=True) == '{"caf\\u00e9": [1]}'
