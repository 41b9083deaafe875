"""Outputs of seeded calls keep their bits: a change that is meant has to be frozen, and named."""

from __future__ import annotations

import json

import pytest
from freeze import FILE, outputs_of, signature
from golden_calls import CALLS

FROZEN = json.loads(FILE.read_text("utf-8"))


def test_every_call_is_frozen():
    assert list(FROZEN["calls"]) == list(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_outputs_keep_their_bits(name):
    here = signature()
    other = {key: f"{value}, here {here.get(key)}" for key, value in FROZEN["signature"].items()}
    other = {key: text for key, text in other.items() if here.get(key) != FROZEN["signature"][key]}
    if other:
        pytest.skip(f"outputs were frozen on another platform: {other}")
    assert outputs_of(name) == FROZEN["calls"][name]
