"""Options of reading."""

from __future__ import annotations

import json

import pytest

from noisyor.errors import InvalidSettingError
from noisyor.tables import ReadOptions


def test_json():
    options = ReadOptions(format="csv", drop=("a", "b"), above=0.5)
    assert ReadOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
    assert ReadOptions().to_json() == {}
    for record in ({"colour": 1}, {"format": "pdf"}, {"max_share": "x"}, []):
        with pytest.raises(InvalidSettingError):
            ReadOptions.from_json(record)


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "pdf"},
        {"delimiter": ",,"},
        {"encoding": "utf-16"},
        {"max_share": 0.0},
        {"above": float("nan")},
        {"vocabulary": 0},
    ],
)
def test_wrong_values(wrong):
    with pytest.raises(InvalidSettingError, match=next(iter(wrong))):
        ReadOptions(**wrong)
