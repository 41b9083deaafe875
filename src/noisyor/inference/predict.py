"""Probabilities of single findings given all the others that were observed: "what else?"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor._util.validation import check_choice, check_count, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.explain import hidden_evidence
from noisyor.inference.weighted import (
    WeightedStates,
    content_ids,
    few_configurations,
    possible,
    weighted_states,
)
from noisyor.model.forward import visible_probability
from noisyor.model.graph import Network

PredictionMethod = Literal["auto", "exact", "samples"]
_METHODS = ("auto", "exact", "samples")
_N_CHAINS = 8
_LEAST_CHANCE = 1e-15
_BLOCK_CELLS = 2**21
_NEGLIGIBLE = 1e-13


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities of the visible nodes of every row.

    Attributes
    ----------
    probability : (n_rows, n_visible) that the node is on, given all *other* observed nodes of the
        row. An unobserved node has nothing of its own to leave out.
    hidden : (n_rows, n_hidden) probability of every hidden node, given the whole row.
    exact : whether all hidden states were enumerated.

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.inference import Prediction
    >>> Prediction(np.array([[0.2, 0.9]]), np.zeros((1, 1)), True).exact
    True
    """

    probability: FloatArray
    hidden: FloatArray
    exact: bool


def predict_visible(
    network: Network,
    X: Any,
    method: PredictionMethod = "auto",
    *,
    observed: Literal["left-out", "kept"] = "left-out",
    one_hot: Sequence[Sequence[int]] = (),
    n_samples: int = 192,
    hidden: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Prediction:
    """Probability of every visible node given what else is observed, averaged over the causes.

    Parameters
    ----------
    network : the network.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : ``"exact"`` enumerates all hidden states, ``"samples"`` draws them by Gibbs sampling
        and weighs those that recur by their exact probability; ``"auto"`` enumerates where that is
        cheap.
    observed : what is given for an observed entry: ``"left-out"``, its probability as if it alone
        were unobserved, or ``"kept"``, the 0 or 1 that it is, which takes less time.
    one_hot : groups of columns of which exactly one is on, such as the answers to one question; see
        `noisyor.data.find_one_hot`. Only with ``observed="kept"``.
    n_samples : draws of every row, in eight chains.
    hidden : evidence on hidden nodes as in `explain`.
    seed : key of the samples; those of a row depend on the seed and on what the row holds.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    Prediction with dense arrays (n_rows, n_visible).

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> row = np.array([[1, np.nan, np.nan]])
    >>> nor.inference.predict_visible(network, row).probability.round(2)
    array([[0.28, 0.88, 0.28]])
    """
    check_choice("method", method, _METHODS)
    check_choice("observed", observed, ("left-out", "kept"))
    check_count("n_samples", n_samples, _N_CHAINS)
    groups = [np.asarray(group, dtype=np.int64) for group in one_hot]
    if groups and observed != "kept":
        raise InvalidSettingError('one_hot needs observed="kept"')
    observations = Observations.of(X, n_visible=network.n_visible)
    exact = method == "exact" or (method == "auto" and few_configurations(network))
    clamp = hidden_evidence(network, hidden, observations.n_rows)
    rows, numbers = observations, np.arange(observations.n_rows)
    if clamp is None or len(clamp) == 1:
        rows, numbers = observations.unique_rows()
    rows = Observations.of(rows.with_weights(None), row_ids=content_ids(rows))
    network = possible(network)
    parts, chance, before = [], np.empty(0), None
    for found in weighted_states(
        network,
        rows,
        clamp,
        n_chains=_N_CHAINS,
        n_sweeps=-(-int(n_samples) // _N_CHAINS),
        enumerate_all=exact,
        seed=check_seed(seed),
        engine=engine,
        progress=progress,
    ):
        if found.states is not before:
            before, chance = found.states, visible_probability(network, found.states)
        if groups:
            found = _given_one_hot(found, chance, groups)
        parts.append(_predicted(found, chance, observed == "left-out", groups))
    of_visible, of_hidden = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Prediction(of_visible[numbers], of_hidden[numbers], exact)


def _predicted(
    found: WeightedStates, chance: FloatArray, leave_out: bool, groups: list[LongArray]
) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the visible and of the hidden nodes of some rows.

    ``chance`` (n_states, n_visible). A state counts for a row without one of its entries as much as
    it does for the row, divided by the probability that it gives to this entry.
    """
    probability, given = found.average(chance), found.rows.to_dense()
    on, off = given == 1, given == 0
    for group in groups:
        probability[:, group] = _answers(found, chance, group)
    if not leave_out:
        probability = np.where(on | off, given, probability)
    elif on.any() or off.any():
        against = 1.0 / np.maximum(1.0 - chance, _LEAST_CHANCE)
        of_off = found.average(chance * against) / found.average(against)
        of_on = 1.0 / found.average(1.0 / np.maximum(chance, _LEAST_CHANCE))
        probability = np.where(off, of_off, np.where(on, of_on, probability))
    return np.asarray(probability), found.average(found.states.astype(np.float64))


# ---- columns of which exactly one is on
#
# A network does not know that columns answer one question. Its posterior, given that each question
# has exactly one answer, follows from the one it has: a state of the causes counts as much more as
# it makes that likely, and given the causes the answer is one of the columns that are still open.


def _given_one_hot(
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


def _answers(found: WeightedStates, chance: FloatArray, group: LongArray) -> FloatArray:
    """(n_rows, n_group) probability of each column of a group, for those that are unobserved.

    ``found`` as `_given_one_hot` returns it.
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
