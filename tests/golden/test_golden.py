"""Outputs of seeded calls keep their bits: a change that is meant has to be frozen, and named."""

from __future__ import annotations

from typing import Any

import pytest
from freeze import files, outputs_of, signature
from golden_calls import CALLS

FROZEN = files()


def frozen_here() -> dict[str, Any] | None:
    """Return the calls that were frozen on a platform like this one."""
    here = signature()
    return next((one["calls"] for one in FROZEN.values() if one["signature"] == here), None)


def test_every_call_is_frozen():
    assert set().union(*(one["calls"] for one in FROZEN.values())) == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_outputs_keep_their_bits(name):
    frozen = frozen_here()
    if frozen is None:
        pytest.skip(f"no outputs were frozen on this platform: {signature()}")
    if name not in frozen:
        pytest.skip("its outputs changed and were not frozen anew on this platform")
    assert outputs_of(name) == frozen[name]
