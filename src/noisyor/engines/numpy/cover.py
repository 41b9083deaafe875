"""Boolean covers: memberships of rows in factors, and covers with few errors.

`improve_cover` is equation T50 of docs/theory.md, entry by entry.
"""

from __future__ import annotations

import numpy as np

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, IntArray, SingleArray
from noisyor.engines.contract import CoverResult, Factors, ImprovedCover, ImproveOptions, NoiseKey
from noisyor.engines.noise import KeyArray, combine, uniform

_SWEEPS = 20
_CLIMB = 30
_MAX_DROPPED = 3
_DOUBLINGS = 4

_ROUNDING = 1e-9
"""Smallest gain of a change, so that the loop ends."""


def cover_memberships(
    weights: SingleArray, factors: Factors, states: BinaryArray, counts: IntArray, price: FloatArray
) -> CoverResult:
    """Flip memberships of rows in factors, one factor after another, while the cover gains.

    The gain of a membership is the weight of the columns that only it covers, minus its price. Rows
    do not influence each other, so all rows flip at once.
    """
    states, counts, flips = states.copy(), counts.copy(), 0
    for _ in range(_SWEEPS):
        changed = 0
        for k, cost in enumerate(price):
            columns = factors.columns[factors.ptr[k] : factors.ptr[k + 1]]
            on = states[:, k].astype(np.int32)
            alone = counts[:, columns] == on[:, None]
            gain = np.where(alone, weights[:, columns], 0.0).sum(axis=1, dtype=np.float64) - cost
            flip = np.flatnonzero(np.where(on == 1, gain < -_ROUNDING, gain > _ROUNDING))
            states[flip, k] ^= 1
            counts[np.ix_(flip, columns)] += (1 - 2 * on[flip])[:, None]
            changed += len(flip)
        flips += changed
        if changed == 0:
            break
    return CoverResult(states, counts, flips)


def improve_cover(
    ones: BoolArray,
    observed: BoolArray,
    weights: FloatArray,
    states: BinaryArray,
    factors: BinaryArray,
    options: ImproveOptions,
    key: NoiseKey,
) -> ImprovedCover:
    """Replace factors of a cover, a few at a time; keep a change if it does not add errors."""
    ones = ones & observed
    gains = np.where(observed, np.where(ones, 1.0, -1.0), 0.0)
    if len(weights):
        gains *= weights[:, None]
    kept, fewest = (states, factors), np.inf
    step = stale = 0
    while step <= options.steps and stale < options.patience and fewest > 0:
        step_key = combine(combine(key.seed, key.step), step)
        members, patterns = kept[0].astype(bool), kept[1].astype(bool)
        for index, k in enumerate(_dropped(step_key, members, patterns) if step else ()):
            seed_key = combine(combine(step_key, 2), index)
            members[:, k], patterns[k] = _new_factor(ones, gains, members, patterns, seed_key)
        for _ in range(_CLIMB):
            flips = _sweep(gains, members, patterns) + _sweep(gains.T, patterns.T, members.T)
            if not flips:
                break
        covered = members @ patterns
        errors = float(np.abs(gains[observed & (covered != ones)]).sum())
        stale = 0 if errors < fewest - _ROUNDING else stale + 1
        if errors <= fewest + _ROUNDING:
            kept, fewest = (members.astype(np.uint8), patterns.astype(np.uint8)), errors
        step += 1
    return ImprovedCover(*kept, fewest, step - 1)


def _below(key: KeyArray, number: int, count: int) -> int:
    """Return draw ``number`` of a key: one of 0, …, count - 1."""
    return min(int(uniform(combine(key, number)) * count), count - 1)


def _dropped(key: KeyArray, members: BoolArray, patterns: BoolArray) -> list[int]:
    """Choose the factors to replace and empty them; return their indices."""
    order = list(range(len(patterns)))
    count = min(1 + _below(key, 0, _MAX_DROPPED), len(order))
    for index in range(count):
        other = index + _below(combine(key, 1), index, len(order) - index)
        order[index], order[other] = order[other], order[index]
    members[:, order[:count]] = False
    patterns[order[:count]] = False
    return order[:count]


def _new_factor(
    ones: BoolArray, gains: FloatArray, members: BoolArray, patterns: BoolArray, key: KeyArray
) -> tuple[BoolArray, BoolArray]:
    """Return rows and columns of the best of some factors seeded by uncovered ones.

    A seed is the column of such a one, the uncovered ones of its row, those of them that a second
    row shares, or all rows with a one in its column, covered or not.
    """
    covered = members @ patterns
    uncovered, free_gains = ones & ~covered, np.where(covered, 0.0, gains)
    cells = np.argwhere(uncovered)
    best = np.zeros(len(ones), dtype=bool), np.zeros(ones.shape[1], dtype=bool)
    best_gain = 0.0
    for number in range(1 << _below(key, 0, _DOUBLINGS) if len(cells) else 0):
        seed = combine(key, 1 + number)
        row, column = cells[_below(seed, 0, len(cells))]
        kind = _below(seed, 1, 4)
        extra = 0.0
        if kind == 3:
            rows = ones[:, column]
            pattern = rows @ free_gains > _ROUNDING
            # other factors may leave the column then, with what they cover wrongly
            extra = float(np.maximum(-gains[covered[:, column], column], 0.0).sum())
        else:
            pattern = uncovered[row] if kind else np.arange(ones.shape[1]) == column
            if kind == 2:
                beside = np.flatnonzero(uncovered[:, column])
                pattern = pattern & uncovered[beside[_below(seed, 2, len(beside))]]
            rows = free_gains @ pattern > _ROUNDING
            for _ in range(_below(seed, 3, 3)):
                pattern = rows @ free_gains > _ROUNDING
                rows = free_gains @ pattern > _ROUNDING
        gain = float(free_gains[np.ix_(rows, pattern)].sum()) + extra
        if gain > best_gain + _ROUNDING:
            best, best_gain = (rows, pattern), gain
    return best


def _sweep(gains: FloatArray, bits: BoolArray, patterns: BoolArray) -> int:
    """Set ``bits`` (lines, factors) to their better values in place; return how many changed.

    Lines do not influence each other, so a factor is set for all of them at once.
    """
    changed = 0
    for k, pattern in enumerate(patterns):
        others = np.delete(bits, k, axis=1) @ np.delete(patterns, k, axis=0)
        on = np.where(others, 0.0, gains) @ pattern > _ROUNDING
        changed += int((on != bits[:, k]).sum())
        bits[:, k] = on
    return changed
