"""Learn a mixture of Bernoulli products: the simplest model of rows that are of several kinds.

Expectation-maximisation takes a second where a network takes a minute, so a mixture is both what a
network has to beat and a good place to start one from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from typing import Any, Literal

import numpy as np

from noisyor._util.progress import Progress, TimeUpError, progress_bar
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, POSITIVE, Rule, check_seed
from noisyor.data.observations import Observations
from noisyor.search.mixtures.model import SUREST, BernoulliMixture, Block, blocks_of

__all__ = ["learn_mixture", "mixtures_by_size"]

_HELD_OUT = 0.1
"""Share of the rows by which the number of classes and of rounds is chosen, if none are given."""

_CHECK_EVERY, _PATIENCE = 5, 3
"""Rounds between looks at the held-out rows, and looks in a row without a gain after which to stop.
"""

_TOLERANCE, _WORTH, _SHARE_WORTH = 1e-5, 2e-4, 1e-5
"""Gain in nats a row below which there is nothing more to learn: of a round, and of held-out rows
between two looks, also as a share of their log p."""

_MOST = 512
"""Number of classes at which a search for it ends."""

_SMOOTHINGS, _STEP, _LARGEST, _FEWEST = (0.2, 2.0), 10.0, 2000.0, 8
"""Pseudo-rows that are tried first: the best varies by the set, by a tenth of a nat and more. As
long as the largest leads, one that is so many times larger joins, from so many classes on: rare
words need hundreds."""

_CLEAR, _HOPELESS = 32, 0.01
"""Number of classes from which a smoothing that is behind twice in a row is no longer tried, and
share of log p by which one is behind for good: with a few classes the optima that starts end in
differ by some thousandths of it, whatever the smoothing."""

_SMOOTHING = Rule(lambda value: value == "auto" or POSITIVE.valid(value), "positive or 'auto'")

_STARTS, _MANY, _TRIAL = 8, 32, 10
"""Starts of a few classes, at most; number of classes from which one will do; rounds of each."""

_OWN_SHARE = 0.3
"""How much of a class at the start is the row that it is named after; the rest is the average."""


def learn_mixture(
    X: Any,
    n_components: int | Literal["auto"] = "auto",
    *,
    held_out: Any = None,
    smoothing: float | Literal["auto"] = "auto",
    max_rounds: int = 300,
    seed: int = 0,
    progress: Progress = False,
) -> BernoulliMixture:
    """Learn a mixture of Bernoulli products by expectation-maximisation.

    Parameters
    ----------
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes. A row of weight w
        counts as w rows; rows that repeat are worked on once; NaN is unobserved.
    n_components : number of classes. ``"auto"`` doubles it until the probability of held-out rows
        no longer rises.
    held_out : rows that decide about the number of classes and of rounds. Without them ``"auto"``
        holds out a tenth of the rows and learns what these decided again from all rows; otherwise
        the rounds end when nothing is gained.
    smoothing : pseudo-rows of every class, with the average of each column, somewhat more or less
        by how full the rows of the class are. ``"auto"`` tries some and takes what is best for
        held-out rows; without these it is 1.
    max_rounds : rounds at most.
    seed : of the rows that classes start from.
    progress : show a progress bar; None shows it on a terminal only.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> mixture = nor.search.learn_mixture(X, 2)
    >>> mixture.share.round(1), bool(np.ptp(mixture.probability, axis=0).min() > 0.9)
    (array([0.5, 0.5]), True)
    """
    COUNT_OR_AUTO.check("n_components", n_components)
    COUNT.check("max_rounds", max_rounds)
    _SMOOTHING.check("smoothing", smoothing)
    seed, rows = check_seed(seed), Observations.of(X)
    judges = None if held_out is None else Observations.of(held_out, n_visible=rows.n_visible)
    everything = None
    if judges is None and n_components == "auto" and rows.n_rows > 1:
        everything = rows
        rows, judges = rows.split(1.0 - _HELD_OUT, seed)
    rows, judges = rows.unique_rows()[0], None if judges is None else judges.unique_rows()[0]
    tried = (1.0,) if judges is None else _SMOOTHINGS
    if not isinstance(smoothing, str):
        tried = (smoothing,)
    with progress_bar(None, "mixture", "rounds", progress) as bar:
        learners = [_Learner(rows, judges, one, max_rounds, seed, bar) for one in tried]
        if isinstance(n_components, str):
            found = list(_doubled(learners))
        else:
            found = list(_of_size(learners, n_components).values())
        best = max(found, key=lambda one: one[1])[0]
        if everything is not None:
            merged = everything.unique_rows()[0]
            learn = _Learner(merged, None, best.smoothing or 1.0, best.rounds + 1, seed, bar)
            best = learn.mixture(best.n_classes)[0]
    return best


def mixtures_by_size(
    rows: Observations, judges: Observations, *, seed: int = 0, progress: Progress = False
) -> dict[int, tuple[BernoulliMixture, float]]:
    """The mixtures that a search for the number of classes passes through, by their number.

    With each the mean log p of ``judges`` that chose its rounds and its smoothing; the search ends
    where more classes have not helped twice. What starts from several sizes learns each once.
    """
    rows, judges = rows.unique_rows()[0], judges.unique_rows()[0]
    with progress_bar(None, "mixture", "rounds", progress) as bar:
        learners = [_Learner(rows, judges, one, 300, check_seed(seed), bar) for one in _SMOOTHINGS]
        return {found[0].n_classes: found for found in _doubled(learners)}


def _doubled(learners: list[_Learner]) -> Iterator[tuple[BernoulliMixture, float]]:
    """The best mixture of 1, 2, 4, ... classes by any learner, and the mean log p that chose it."""
    most = min(_MOST, learners[0].rows.n_rows)
    size, best_size, best_value, behind = 1, 1, -np.inf, Counter[_Learner]()
    while size <= most:
        found = _of_size(learners, size)
        first = max(found, key=lambda learn: found[learn][1])
        yield found[first]
        value = found[first][1]
        # Twice in a row no better than noise: more classes only learn the rows by heart.
        if value <= best_value and best_size < size // 2:
            break
        if value > best_value:
            best_size, best_value = size, value
        for learn in found:
            behind[learn] = 0 if learn is first or size < _CLEAR else behind[learn] + 1
        least = value - _HOPELESS * abs(value) if size >= _FEWEST else -np.inf
        learners = [learn for learn in found if behind[learn] < 2 and found[learn][1] > least]
        size *= 2


def _of_size(
    learners: list[_Learner], n_classes: int
) -> dict[_Learner, tuple[BernoulliMixture, float]]:
    """A mixture of so many classes by every learner, and by those that join them."""
    found = {learn: learn.mixture(n_classes) for learn in learners}
    while len(found) > 1 and n_classes >= _FEWEST:
        first, last = max(found, key=lambda learn: found[learn][1]), list(found)[-1]
        if first is not last or last.smoothing >= _LARGEST:
            break
        smoother = copy(last)
        smoother.smoothing *= _STEP
        found[smoother] = smoother.mixture(n_classes)
    return found


class _Learner:
    """Rows to learn from and to judge by, both merged, and the settings of the rounds."""

    def __init__(
        self,
        rows: Observations,
        judges: Observations | None,
        smoothing: float,
        max_rounds: int,
        seed: int,
        bar: Any,
    ) -> None:
        self.rows, self.judges, self.bar = rows, judges, bar
        self.smoothing, self.max_rounds, self.seed = smoothing, max_rounds, seed
        weight = rows.row_weights
        seen = rows.total_weight - rows.missing_csr().T @ weight
        self.base = (rows.to_csr().T @ weight + 0.5) / (seen + 1.0)

    def mixture(self, n_classes: int) -> tuple[BernoulliMixture, float]:
        """The best mixture of so many classes on the way, and the mean log p that chose it."""
        blocks = blocks_of(self.rows, n_classes, rough=True)
        mixture = self._best_start(n_classes, blocks)
        judges = [] if self.judges is None else blocks_of(self.judges, n_classes, rough=True)
        best, best_value, before, stale = mixture, -np.inf, -np.inf, 0
        for number in range(max(1, self.max_rounds - mixture.rounds)):
            after, total = mixture.improved(blocks, self.base, self.smoothing)
            value = total / self.rows.total_weight
            try:
                self.bar.update(1)
            except TimeUpError:
                break
            if self.judges is None:
                best, best_value = mixture, value
                if value - before < _TOLERANCE and number:
                    break
            elif number % _CHECK_EVERY == 0:
                judged = self.judges.mean(mixture.log_p_of(judges))
                worth = max(_WORTH, _SHARE_WORTH * abs(judged))
                stale = 0 if judged > best_value + worth else stale + 1
                if judged > best_value:
                    best, best_value = mixture, judged
                if stale >= _PATIENCE:
                    break
            mixture, before = after, value
        return best, best_value

    def _best_start(self, n_classes: int, blocks: list[Block]) -> BernoulliMixture:
        """Of several starts the one that is best after some rounds, if there are few classes.

        Two of a handful may start from rows of one kind, and a round cannot undo that.
        """
        n_starts = 1 if n_classes == 1 else max(1, min(_STARTS, _MANY // n_classes))
        if n_starts == 1:
            return self._start(n_classes, 0)
        best, best_value = None, -np.inf
        for number in range(n_starts):
            mixture = self._start(n_classes, number)
            for _ in range(min(_TRIAL, self.max_rounds)):
                mixture, value = mixture.improved(blocks, self.base, self.smoothing)
            if value > best_value:
                best, best_value = mixture, value
        assert best is not None
        return best

    def _start(self, n_classes: int, number: int) -> BernoulliMixture:
        """Classes near random rows; unobserved entries of these count as average."""
        generator = np.random.default_rng([self.seed, n_classes, *([number] if number else [])])
        weight = self.rows.row_weights / self.rows.total_weight
        chosen = np.sort(generator.choice(self.rows.n_rows, n_classes, p=weight))
        own = self.rows.take(chosen).to_dense().astype(np.float64)
        own = np.where(np.isnan(own), self.base, own)
        probability = _OWN_SHARE * own + (1.0 - _OWN_SHARE) * self.base
        share = np.full(n_classes, 1.0 / n_classes)
        probability = np.clip(probability, 1.0 - SUREST, SUREST)
        return BernoulliMixture(share, probability, self.smoothing)
