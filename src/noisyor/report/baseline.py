"""Compare the model with a mixture of Bernoullis of equal size on the same held-out rows.

The mixture is scored by its exact log-probability, the model by its own, which is estimated if
there are many causes. The bound of the model counts only one explanation of a row, so comparing
with it would be unfair.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from noisyor.baselines import learn_mixture
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evaluate import Score
from noisyor.inference.sampling import log_probability
from noisyor.learning.validation import hold_out
from noisyor.report.fit_quality import spread
from noisyor.report.inputs import Model, Words, count, same_data

MIN_ROWS = 20
"""With fewer rows, no mixture is learned."""

_ROWS_PER_CLASS = 10
"""Smallest number of rows per class; with fewer, the mixture would memorize them."""

_MAX_LEARNED, _MAX_COMPARED = 4000, 300
"""Largest numbers of rows to learn the mixture from, and to compare on."""

_COMPARED_SHARE = 0.2
"""Share of the rows to compare on, if the rows are not the training data of the model."""

_MIXTURE_WORK, _ROUNDS = 3_000_000_000, (20, 150)
"""Products in all rounds of EM together (a second or two), and rounds at least and at most."""

_MAX_EDGES = 130_000
"""Edges of a network whose log-probabilities can be estimated within seconds."""

_N_STANDARD_ERRORS = 2.0
"""Difference, in standard errors, above which one model counts as better."""


class Baseline(NamedTuple):
    """A mixture compared with the model.

    ``n_classes`` of the mixture; ``gain`` mean log-probability under the mixture minus under the
    model, in nats per row; ``error`` standard error of the gain, with that of the estimate;
    ``n_learned`` rows that the mixture was learned from; ``n_compared`` rows of the comparison;
    ``rows`` where these come from: held out when the model was learned, its training data, or
    other rows.
    """

    n_classes: int
    gain: float
    error: float
    n_learned: int
    n_compared: int
    rows: Literal["held-out", "training", "other"]

    @property
    def verdict(self) -> Literal["better", "worse", "as good"]:
        """The mixture compared with the model; equal within two standard errors."""
        if abs(self.gain) <= _N_STANDARD_ERRORS * self.error:
            return "as good"
        return "better" if self.gain > 0 else "worse"


def compare_with_mixture(
    model: Model, data: Observations, *, seed: int = 0, engine: EngineLike = "auto"
) -> Baseline | None:
    """Learn a mixture with as many classes as the model has hidden nodes, and compare.

    The comparison uses the rows that were held out when the model was learned, if the model file
    records them; the training rows if none were held out; and a fifth of the rows, which the
    mixture does not see, if the rows are not the training data. Returns None if there are too few
    rows or if the model is too large for an estimate within seconds.
    """
    network = model.network
    if data.n_rows < MIN_ROWS or network.n_edges > _MAX_EDGES:
        return None
    learned, compared, rows = _split(model, data, seed)
    learned = learned.take(spread(learned.n_rows, _MAX_LEARNED))
    compared = compared.take(spread(compared.n_rows, _MAX_COMPARED))
    n_classes, rounds = _mixture_size(network.n_hidden, learned)
    mixture = learn_mixture(learned, n_classes, max_rounds=rounds, seed=seed)
    own = log_probability(network, compared, seed=seed, engine=engine)
    gain = Score(mixture.log_probability(compared) - own.per_row, weights=compared.weights)
    error = float(np.hypot(gain.standard_error, own.mean_error))
    return Baseline(n_classes, gain.mean, error, learned.n_rows, compared.n_rows, rows)


def baseline_section(baseline: Baseline, words: Words) -> dict[str, str]:
    """Return the result in one sentence with advice, and the rows it is based on."""
    classes = count(baseline.n_classes, "class", "classes")
    size = f"{abs(baseline.gain):.2f} ± {baseline.error:.2f} nats per {words.row}"
    sentence = {
        "better": f"A mixture of {classes} describes these {words.rows} better than this model, by "
        f"{size}. If log-probability matters more than readable {words.causes}, use the mixture "
        "(nor.baselines.learn_mixture).",
        "worse": f"This model describes these {words.rows} better than a mixture of {classes}, by "
        f"{size}.",
        "as good": f"A mixture of {classes} describes these {words.rows} as well as this model: it "
        f"is {'better' if baseline.gain > 0 else 'worse'} by {size}, within the error.",
    }
    compared = f"{baseline.n_compared:,} {words.rows}"
    rows = {
        "held-out": f"Compared on {compared} that were held out when the model was learned; the "
        f"mixture was learned from {baseline.n_learned:,} others.",
        "training": f"Compared on {compared} that both have seen, because none were held out.",
        "other": f"Compared on {compared}; the mixture was learned from {baseline.n_learned:,} "
        "others. The model file does not say which of them the model has seen.",
    }
    return {"sentence": sentence[baseline.verdict], "rows": rows[baseline.rows]}


def _split(
    model: Model, data: Observations, seed: int
) -> tuple[Observations, Observations, Literal["held-out", "training", "other"]]:
    """Return the rows to learn from, the rows to compare on, and where the latter come from."""
    if not same_data(model.metadata, data.fingerprint()):
        learned, compared = data.split(1.0 - _COMPARED_SHARE, seed)
        return learned, compared, "other"
    settings = model.metadata.get("settings")
    if isinstance(settings, dict) and {"held_out", "seed"} <= set(settings):
        share, split = settings["held_out"], settings["seed"]
        # A file may claim anything; these are the values that `noisyor fit` writes.
        known = share is None or (isinstance(share, float) and 0.0 < share < 1.0)
        if known and type(split) is int and split >= 0:
            learned, held_out = hold_out(data, share, split)
            if held_out is not None:
                return learned, held_out, "held-out"
    return data, data, "training"


def _mixture_size(n_hidden: int, rows: Observations) -> tuple[int, int]:
    """Return the number of classes and of rounds that the rows and the time allow."""
    # Cost of a round per class: products with ones (sparse ones cost more), logs, exponentials.
    entries = min(rows.n_rows * rows.n_visible, 20 * rows.n_active)
    cost = entries + 10 * (rows.n_rows + rows.n_visible)
    by_work = _MIXTURE_WORK // (_ROUNDS[0] * cost)
    n_classes = max(1, min(n_hidden, rows.n_rows // _ROWS_PER_CLASS, by_work))
    return n_classes, max(_ROUNDS[0], min(_ROUNDS[1], _MIXTURE_WORK // (n_classes * cost)))
