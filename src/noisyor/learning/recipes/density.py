"""A network for the probability of rows: sets of alternatives, learned by Gibbs sampling.

One set of alternatives with edges to all columns is a mixture of Bernoullis, and every further set
makes it richer: the rows are of some kind in several respects at once. How many sets of what size
is decided by held-out rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import progress_bar
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.inference.evidence import EvidenceEstimate, estimate_evidence
from noisyor.learning.gibbs_em import ChainsInMemory, GibbsRounds
from noisyor.learning.judge import hold_out
from noisyor.learning.recipes.fit import FitResult
from noisyor.learning.state import Evaluation, History
from noisyor.network.graph import Network
from noisyor.search.mixture import BernoulliMixture, learn_mixture
from noisyor.search.mixture_start import start_from_mixture
from noisyor.search.restarts import sample_rows

__all__ = ["learn_density"]

_SMOOTHING = 0.7
"""Pseudo-rows of every alternative, to the square root of what is best for the mixture: of a set of
a hundred, many are on in a few rows only, but a further set has fewer to itself than a class."""

_PACE = 0.3
"""How much the counts of one round count, against those of all rounds before."""

_ROUNDS, _PATIENCE = 10, 2
"""Rounds between looks at held-out rows, and looks in a row without a gain after which to stop."""

_MAX_ENTRIES = 2**24
"""Above this many entries, a random subset of the rows is learned from."""

_FEW = 64
"""Alternatives of each of four sets, at most: rows of hundreds of kinds are often of some dozen
kinds in each of several respects."""

_JUDGES = 1000
"""Held-out rows that are looked at, at most."""

_CHAINS, _STEPS = 8, 16
"""Chains and sweeps of an estimate that is only compared with others by the same draws."""


def learn_density(
    X: Any,
    n_components: int | Literal["auto"] = "auto",
    *,
    sets: Sequence[Sequence[int]] | None = None,
    max_rounds: int = 200,
    held_out: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = None,
) -> FitResult:
    """Learn a bipartite network that gives held-out rows a high probability.

    A mixture of Bernoullis comes first (`learn_mixture`). Its classes become a set of alternatives,
    further sets are added (`start_from_mixture`), and rounds of Gibbs sampling follow as long as
    held-out rows gain. The layout of sets that did best on held-out rows is kept, if it is better
    than the first one by more than the standard error of their difference.

    Parameters
    ----------
    X : binary data (n_rows, n_visible). Rows that repeat are worked on once, weights count.
    n_components : number of hidden nodes; ``"auto"`` finds it.
    sets : layouts to try, each the sizes of its sets, in place of `n_components`.
    max_rounds : rounds of Gibbs sampling for each layout, at most.
    held_out : rows that decide; without them a tenth of the rows is held out, and what these
        decided is learned again from all rows.
    seed : of the starts and the samples.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    The network; the record, whose evaluations are estimates of the held-out log p; and settings,
    with the sizes of the sets and what every layout reached.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], 40, axis=0)
    >>> fitted = nor.learning.learn_density(X, sets=[[3]], progress=False)
    >>> fitted.network.alternatives, fitted.settings["sets"]
    (array([0, 0, 0], dtype=int32), [3])
    """
    COUNT_OR_AUTO.check("n_components", n_components)
    COUNT.check("max_rounds", max_rounds)
    seed, rows = check_seed(seed), Observations.of(X)
    if not rows.n_rows:
        raise InvalidDataError("there are no rows to learn from")
    everything = None
    if held_out is None:
        everything = rows
        rows, judges = hold_out(rows, None, seed)
        judges = rows if judges is None else judges
    else:
        judges = Observations.of(held_out, n_visible=rows.n_visible)
    _, rows = sample_rows(rows, _MAX_ENTRIES, seed)
    search = _Search(rows.merged()[0], judges, max_rounds, seed, engine, progress)
    if sets is None:
        sets = _layouts(n_components, search)
    found = [search.learn(list(layout)) for layout in sets]
    best = max(found, key=lambda one: one.score)
    if not search.clearly_better(best, found[0]):
        best = found[0]
    network = best.network if everything is None else search.with_all(best, everything)
    settings = {
        "objective": "probability",
        "sets": best.layout,
        "rounds": best.rounds,
        "seed": seed,
        "tried": [{"sets": one.layout, "held_out": one.score} for one in found],
    }
    evaluations = tuple(Evaluation(step=step, elbo=value) for step, value in best.curve)
    return FitResult(network, History(evaluations=evaluations), settings)


def _layouts(n_components: int | str, search: _Search) -> list[list[int]]:
    """Sizes of sets to try: one set, two, three and, if the number is free, four smaller ones."""
    if isinstance(n_components, str):
        n_classes = search.mixture("auto").n_classes
        half = max(1, n_classes // 2)
        few = min(half, _FEW)
        return [[n_classes], [n_classes, half], [half, half, half], [few, few, few, few]]
    parts = [
        [n_components // n + (part < n_components % n) for part in range(n)] for n in (1, 2, 3)
    ]
    return [[size for size in layout if size] for layout in parts if layout[0]]


@dataclass(frozen=True, eq=False)
class _Found:
    """A layout, the network that it led to, and held-out log p: by row, mean, and on the way."""

    layout: list[int]
    network: Network
    per_row: FloatArray
    score: float
    rounds: int
    curve: list[tuple[int, float]]


class _Search:
    """Merged rows to learn from, rows to judge by, and how to go about it."""

    def __init__(
        self,
        rows: Observations,
        judges: Observations,
        max_rounds: int,
        seed: int,
        engine: EngineLike,
        progress: bool | None,
    ) -> None:
        self.rows, self.judges, self.max_rounds = rows, judges.merged()[0], max_rounds
        self.seed, self.engine, self.progress = seed, engine, progress
        self._mixtures: dict[int, BernoulliMixture] = {}
        self._few, most = self.judges, judges.n_rows
        order = np.random.default_rng([seed, 2]).permutation(most)
        while self._few.n_rows > _JUDGES:
            # Rows are drawn before they are merged, so that frequent ones count as they should.
            most = max(_JUDGES, most // 2)
            self._few = judges.take(np.sort(order[:most])).merged()[0]

    def mixture(self, n_classes: int | Literal["auto"]) -> BernoulliMixture:
        """A mixture of so many classes; each is learned once."""
        if n_classes in self._mixtures:
            return self._mixtures[int(n_classes)]
        mixture = learn_mixture(
            self.rows, n_classes, held_out=self.judges, seed=self.seed, progress=self.progress
        )
        return self._mixtures.setdefault(mixture.n_classes, mixture)

    def learn(self, layout: list[int]) -> _Found:
        """Rounds from the start of a layout, until held-out rows no longer gain."""
        mixture = self.mixture(layout[0])
        network = start_from_mixture(mixture, self.rows, layout[1:], seed=self.seed)
        if len(layout) == 1:
            # A single set is the mixture, which its own rounds have brought to the best already.
            per_row = mixture.log_probability(self._few)
            score = self._few.mean(per_row)
            return _Found(layout, network, per_row, score, 0, [(0, score)])
        rounds = self._rounds(network, self.rows, mixture)
        best, score, per_row, done, best_at, stale = network, -np.inf, np.empty(0), 0, 0, 0
        curve: list[tuple[int, float]] = []
        name = "+".join(str(size) for size in layout)
        with progress_bar(self.max_rounds, f"sets {name}", "rounds", self.progress) as bar:
            while done < self.max_rounds and stale < _PATIENCE:
                count = min(_ROUNDS, self.max_rounds - done)
                network = rounds.advance(count, bar)
                done += count
                estimate = self._estimate(network)
                value = estimate.mean
                curve.append((done, value))
                bar.set_postfix(held_out=f"{value:.3f}")
                stale = 0 if value > score else stale + 1
                if value > score:
                    best, score, best_at, per_row = network, value, done, estimate.per_row
        return _Found(layout, best, per_row, score, best_at, curve)

    def with_all(self, found: _Found, rows: Observations) -> Network:
        """The layout that was found, learned from all rows for as many rounds."""
        _, rows = sample_rows(rows, _MAX_ENTRIES, self.seed)
        rows, classes = rows.merged()[0], self.mixture(found.layout[0])
        classes = learn_mixture(
            rows,
            classes.n_classes,
            smoothing=classes.smoothing,
            max_rounds=classes.rounds,
            seed=self.seed,
            progress=self.progress,
        )
        network = start_from_mixture(classes, rows, found.layout[1:], seed=self.seed)
        if not found.rounds:
            return network
        with progress_bar(found.rounds, "all rows", "rounds", self.progress) as bar:
            return self._rounds(network, rows, classes).advance(found.rounds, bar)

    def _rounds(
        self, network: Network, rows: Observations, mixture: BernoulliMixture
    ) -> GibbsRounds:
        return GibbsRounds(
            network,
            ChainsInMemory(network, rows, all_off=True, engine=self.engine),
            smoothing=_SMOOTHING * mixture.smoothing**0.5,
            smooth_to="frequency",
            pace=_PACE,
            seed=self.seed,
        )

    def clearly_better(self, one: _Found, other: _Found) -> bool:
        """Whether held-out rows prefer one by more than the standard error of the difference."""
        weight, difference = self._few.row_weights, one.per_row - other.per_row
        mean = self._few.mean(difference)
        error = np.sqrt((weight * (difference - mean) ** 2).sum()) / weight.sum()
        return bool(mean > error)

    def _estimate(self, network: Network) -> EvidenceEstimate:
        return estimate_evidence(
            network,
            self._few,
            n_chains=_CHAINS,
            n_steps=_STEPS,
            n_expansions=1,
            seed=self.seed,
            engine=self.engine,
        )
