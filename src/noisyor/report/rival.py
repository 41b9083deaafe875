"""A plain mixture of equal size beside the model: is a network worth its trouble on these rows?

Both are judged by the same rows, row by row: the mixture by its log-probability, which is exact,
the model by an estimate of its own. The bound of the model counts one explanation of a row only, so
that a comparison with it would be unfair.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.baselines import learn_mixture
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evaluate import Score
from noisyor.inference.sampling import estimate_evidence
from noisyor.learning.judge import hold_out
from noisyor.model.graph import Network
from noisyor.report.inputs import Model
from noisyor.report.metadata import same_data
from noisyor.report.words import Words

__all__ = ["Rival", "compare_with_mixture", "rival_section"]

_FEWEST_ROWS = 20
"""With fewer rows there is nothing to learn a mixture from and to judge it by."""

_ROWS_PER_CLASS = 10
"""A class is given so many rows at least: of fewer it would only learn them by heart."""

_LEARNED, _FEWER, _JUDGED = 8000, 2000, 500
"""Rows that the mixture is learned from at most, of wide tables if all classes have to be learned,
and rows that both are judged by at most."""

_SHARE_JUDGED = 0.2
"""Share of rows that are not the model's own by which both are judged."""

_MIXTURE_WORK = 3_000_000_000
"""Products of all rounds together: a second or two."""

_ROUNDS = (20, 150)
"""Rounds that the work is to suffice for, and rounds at most."""

_CHAINS, _STEPS = 8, (8, 16)
"""Chains of the estimate and their sweeps: what twice as many change belongs to the error."""

_ESTIMATE_WORK = 250_000_000
"""Edges that all chains of all rows together pass: a few seconds."""

_FEWEST_JUDGED = 10
"""Of a model so large that time suffices for fewer rows, nothing is said."""

_SURE = 2.0
"""Standard errors by which one has to be better for the page to say so."""


class Rival(NamedTuple):
    """A mixture beside the model.

    ``n_classes`` of the mixture; ``gain`` its mean log-probability minus that of the model, in nats
    a row; ``error`` of that, from the spread of the rows and from what longer chains change;
    ``n_learned`` rows that the mixture has seen, ``n_judged`` rows that decide; ``rows`` which
    these are: held out when the model was learned, its training rows, or rows of which the model
    file says nothing.
    """

    n_classes: int
    gain: float
    error: float
    n_learned: int
    n_judged: int
    rows: Literal["held-out", "training", "other"]

    @property
    def verdict(self) -> Literal["better", "worse", "level"]:
        """What the mixture is; level within two standard errors."""
        if abs(self.gain) <= _SURE * self.error:
            return "level"
        return "better" if self.gain > 0 else "worse"


def compare_with_mixture(
    model: Model, data: Observations, *, seed: int = 0, engine: EngineLike = "auto"
) -> Rival | None:
    """Learn a mixture with as many classes as the model has hidden nodes, and compare.

    Rows that were held out when the model was learned decide, if the file says which. If these are
    its training rows and none were held out, both are judged by what they have seen. Of other rows
    the mixture is learned from four fifths, and the rest decides. None if there are too few rows,
    or the model is too large for an estimate in a few seconds.
    """
    most_judged = _most_judged(model.network)
    if data.n_rows < _FEWEST_ROWS or most_judged < _FEWEST_JUDGED:
        return None
    learned, judged, rows = _parts(model, data, seed)
    network = model.network
    learned = _few(learned, _most_learned(network.n_hidden, learned), seed)
    judged = _few(judged, most_judged, seed)
    n_classes, rounds = _size(network.n_hidden, learned)
    mixture = learn_mixture(learned, n_classes, max_rounds=rounds, seed=seed)
    log_p = mixture.log_probability(judged)
    short, long = (
        Score(log_p - _estimate(network, judged, steps, seed, engine), weights=judged.weights)
        for steps in _STEPS
    )
    # Chains that are too short find rows too improbable; then twice as many sweeps find more.
    error = float(np.hypot(long.standard_error, long.mean - short.mean))
    return Rival(n_classes, long.mean, error, learned.n_rows, judged.n_rows, rows)


def _estimate(
    network: Network, rows: Observations, n_steps: int, seed: int, engine: EngineLike
) -> FloatArray:
    estimate = estimate_evidence(
        network, rows, n_chains=_CHAINS, n_steps=n_steps, n_expansions=1, seed=seed, engine=engine
    )
    return estimate.per_row


def rival_section(rival: Rival, words: Words) -> dict[str, str]:
    """The comparison in a sentence with advice, and what it rests on."""
    classes = "1 class" if rival.n_classes == 1 else f"{rival.n_classes:,} classes"
    mixture = f"A plain mixture of {classes} describes these {words.rows}"
    size = f"by {abs(rival.gain):.2f} nats (± {rival.error:.2f})"
    sentence = {
        "better": f"{mixture} better {size}: if their probability matters more than their "
        f"{words.causes}, use it.",
        "worse": f"{mixture} worse {size}: the {words.causes} say more than a list of kinds would.",
        "level": f"{mixture} as well within the error, {'better' if rival.gain > 0 else 'worse'} "
        f"{size}: the {words.causes} are worth having for what they explain.",
    }
    judged, learned = f"{rival.n_judged:,} {words.rows}", f"{rival.n_learned:,}"
    rows = {
        "held-out": f"Judged by {judged} that were held out when the model was learned; the "
        f"mixture is learned from {learned} others.",
        "training": f"Judged by {judged} that both have seen: none were held out.",
        "other": f"Judged by {judged}; the mixture is learned from {learned} others of those "
        "given. What the model has seen of them its file does not say.",
    }
    return {"sentence": sentence[rival.verdict], "rows": rows[rival.rows]}


def _parts(
    model: Model, data: Observations, seed: int
) -> tuple[Observations, Observations, Literal["held-out", "training", "other"]]:
    """Rows to learn from and to judge by, and which the latter are."""
    if not same_data(model.metadata, data.fingerprint()):
        learned, judged = data.split(1.0 - _SHARE_JUDGED, seed)
        return learned, judged, "other"
    settings = model.metadata.get("settings")
    if isinstance(settings, dict) and {"held_out", "seed"} <= set(settings):
        share, split = settings["held_out"], settings["seed"]
        # A file may claim anything; these are what learning a model from a file writes.
        known = share is None or (isinstance(share, float) and 0.0 < share < 1.0)
        if known and type(split) is int and split >= 0:
            learned, held_out = hold_out(data, share, split)
            if held_out is not None:
                return learned, held_out, "held-out"
    return data, data, "training"


def _few(rows: Observations, most: int, seed: int) -> Observations:
    if rows.n_rows <= most:
        return rows
    order = np.random.default_rng([seed, most]).permutation(rows.n_rows)
    return rows.take(np.sort(order[:most]))


def _most_judged(network: Network) -> int:
    """As many rows as the chains can pass in a few seconds."""
    sweep = network.n_edges + network.n_hidden
    return min(_JUDGED, _ESTIMATE_WORK // (_CHAINS * sum(_STEPS) * sweep))


def _most_learned(n_hidden: int, rows: Observations) -> int:
    """As many rows as a mixture of equal size can be learned from in a second or two."""
    n_classes = max(1, min(n_hidden, rows.n_rows // _ROWS_PER_CLASS))
    of_columns = 10 * rows.n_visible
    left = max(0, _MIXTURE_WORK // (_ROUNDS[0] * n_classes) - of_columns)
    most = left * rows.n_rows // (_work(rows) - of_columns)
    return max(_FEWER, min(_LEARNED, most))


def _size(n_hidden: int, rows: Observations) -> tuple[int, int]:
    """Number of classes and of rounds that rows and time suffice for."""
    by_work = _MIXTURE_WORK // (_ROUNDS[0] * _work(rows))
    n_classes = max(1, min(n_hidden, rows.n_rows // _ROWS_PER_CLASS, by_work))
    return n_classes, max(_ROUNDS[0], min(_ROUNDS[1], _MIXTURE_WORK // (n_classes * _work(rows))))


def _work(rows: Observations) -> int:
    """What a round costs for a class: products with ones, logarithms and exponentials."""
    entries = min(rows.n_rows * rows.n_visible, 20 * rows.n_active)
    return entries + 10 * (rows.n_rows + rows.n_visible)
