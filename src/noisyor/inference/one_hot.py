"""Columns of which exactly one is on, made use of after the network has been learned.

A network does not know that columns answer one question. Its posterior, given that each question
has exactly one answer, follows from the one it has: a state of the causes counts as much more as it
makes that likely, and given the causes the answer is one of the columns that are still open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor.inference.weighted import WeightedStates

__all__ = ["answers", "given_one_hot"]

_BLOCK_CELLS = 2**21
_NEGLIGIBLE = 1e-13


def given_one_hot(
    found: WeightedStates, chance: FloatArray, groups: Sequence[LongArray]
) -> WeightedStates:
    """The posterior of some rows given that exactly one column of each group is on.

    ``chance`` (n_states, n_visible) probability of every column given each state. Observed entries
    stay as they are, even if more than one of a group is on.
    """
    mass = sp.coo_array(found.mass)
    kept = mass.data > _NEGLIGIBLE
    row, state, log_mass = mass.coords[0][kept], mass.coords[1][kept], np.log(mass.data[kept])
    for group in groups:
        is_open, answered = _open(found, group)
        log_off, odds = np.log1p(-chance[:, group]), _odds(chance[:, group])
        some: BoolArray = np.asarray(is_open.any(axis=1))
        concerned = np.flatnonzero(some[row])
        for block in _blocks(concerned, len(group)):
            r, s = row[block], state[block]
            log_mass[block] += (is_open[r] * log_off[s]).sum(axis=1)
            any_on = np.log(np.maximum((is_open[r] * odds[s]).sum(axis=1), np.finfo(float).tiny))
            log_mass[block] += np.where(answered[r], 0.0, any_on)
    top = np.full(mass.shape[0], -np.inf)
    np.maximum.at(top, row, log_mass)
    weight = np.exp(log_mass - top[row])
    weight /= np.bincount(row, weight, minlength=mass.shape[0])[row]
    return found._replace(mass=sp.csr_array((weight, (row, state)), shape=mass.shape))


def answers(found: WeightedStates, chance: FloatArray, group: LongArray) -> FloatArray:
    """(n_rows, n_group) probability of each column of a group, for those that are unobserved.

    ``found`` as `given_one_hot` returns it.
    """
    mass = sp.coo_array(found.mass)
    (row, state), n_rows = mass.coords, mass.shape[0]
    is_open, answered = _open(found, group)
    odds, result = _odds(chance[:, group]), np.zeros((n_rows, len(group)))
    concerned = np.flatnonzero((is_open.any(axis=1) & ~answered)[row])
    for block in _blocks(concerned, len(group)):
        r, s = row[block], state[block]
        share = is_open[r] * odds[s]
        share *= (mass.data[block] / share.sum(axis=1))[:, None]
        to_row = sp.csr_array((np.ones(len(r)), (r, np.arange(len(r)))), shape=(n_rows, len(r)))
        result += to_row @ share
    return result


def _open(found: WeightedStates, group: LongArray) -> tuple[BoolArray, BoolArray]:
    """Unobserved entries of a group (n_rows, n_group), and rows where one is known to be on."""
    given = found.rows.to_dense()[:, group]
    return np.asarray(np.isnan(given)), np.asarray((given == 1).any(axis=1))


def _odds(chance: FloatArray) -> FloatArray:
    return np.asarray(chance / (1.0 - chance))


def _blocks(places: LongArray, width: int) -> Iterator[LongArray]:
    step = max(1, _BLOCK_CELLS // width)
    for begin in range(0, len(places), step):
        yield places[begin : begin + step]
