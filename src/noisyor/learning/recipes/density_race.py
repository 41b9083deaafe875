"""Layouts of sets of alternatives that race each other, beside mixtures and their averages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.progress import Progress, TimeUpError, progress_bar
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evidence import explore_configurations
from noisyor.inference.exact import log_p_by_states, states_can_be_summed
from noisyor.learning.gibbs_em import ChainsInMemory, GibbsRounds
from noisyor.learning.recipes.kept_looks import KeptLooks
from noisyor.model.graph import Network
from noisyor.search.mixtures.average import clear_gain, learn_again, pooled
from noisyor.search.mixtures.model import BernoulliMixture
from noisyor.search.mixtures.start import start_from_mixture
from noisyor.search.restarts import Keeper, sample_rows

__all__ = ["Found", "Search", "not_too_many"]

_SMOOTHING = 0.7
"""Pseudo-rows of every alternative, to the square root of what is best for the mixture: of a set of
a hundred, many are on in a few rows only, but a further set has fewer to itself than a class."""

_PACE = 0.3
"""How much the counts of one round count, against those of all rounds before."""

_LOOKS = (20, 60)
"""Rounds after which layouts are compared on held-out rows: half of them go on, then one does."""

_MORE, _PATIENCE = 80, 2
"""Rounds between later looks, and looks in a row without a gain after which to stop."""

_STARTS = 2
"""Starts of the layout that leads at the second look: rounds may end in a worse optimum."""

_MAX_ROWS, _MAX_ONES = 2**18, 2**24
"""With more rows, or more ones in them, a random subset of the rows is learned from."""

_FIRST_JUDGES, _JUDGES = 300, 1000
"""Held-out rows that are looked at, at most: at the first look, and later."""

_SAMPLES, _STAY, _FIRST_EFFORT, _EFFORT = 2, 4, (4, 12), (8, 16)
"""Chains and steps of an estimate, at the first look and later: those of a look are only compared
with each other, by the same draws."""


@dataclass(eq=False)
class Found:
    """A layout on its way: its network, held-out log p of every row looked at and their mean.

    ``rounds`` and ``curve``: at which number of rounds the network was best, and the mean at every
    look. ``sampler`` goes on with it, ``done`` is how far it is; a mixture has none, but
    ``members``, the mixtures whose average it is. ``start`` is the number of its start;
    ``is_rough`` if held-out rows had at most a first look.
    """

    layout: list[int]
    network: Network
    per_row: FloatArray
    score: float = -np.inf
    rounds: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)
    sampler: GibbsRounds | None = None
    members: list[BernoulliMixture] = field(default_factory=list)
    done: int = 0
    start: int = 0
    is_rough: bool = True


class Search:
    """Merged rows to learn from, rows to judge by, and how to go about it."""

    def __init__(
        self,
        rows: Observations,
        judges: Observations,
        max_rounds: int,
        seed: int,
        engine: EngineLike,
        progress: Progress,
        keeper: Keeper | None,
    ) -> None:
        self.rows, self.judges, self.max_rounds = rows, judges.unique_rows()[0], max_rounds
        self.seed, self.engine, self.progress = seed, engine, progress
        self._kept = KeptLooks(rows, self.judges, seed, progress, keeper)
        self._mixtures: dict[int, tuple[BernoulliMixture, float]] = {}
        order = np.random.default_rng([seed, 2]).permutation(judges.n_rows)
        self._few = _at_most(_JUDGES, judges, order)
        self._fewest = _at_most(_FIRST_JUDGES, judges, order)

    def best_size(self) -> int:
        """Number of classes of the mixture that is best for the judges."""
        found = self._kept.by_size()
        self._mixtures |= found
        return max(found, key=lambda size: found[size][1])

    def mixture(self, n_classes: int) -> BernoulliMixture:
        """A mixture of so many classes; each is learned once."""
        if n_classes not in self._mixtures:
            self._mixtures |= self._kept.of_size(n_classes)
        return self._mixtures[n_classes][0]

    def plain(self, layout: list[int]) -> Found:
        """A single set: the mixture, which its own rounds have brought to the best already."""
        return self._average([self.mixture(layout[0])])

    def averaged(self) -> list[Found]:
        """The average of several mixtures of about the best size, if it is better than one."""
        members = self._kept.members(self._mixtures)
        return [self._average(members)] if len(members) > 1 else []

    def _average(self, members: list[BernoulliMixture]) -> Found:
        mixture = pooled(members)
        per_row = mixture.log_probability(self._few)
        score, layout = self._few.mean(per_row), [mixture.n_classes]
        network = start_from_mixture(mixture)
        return Found(layout, network, per_row, score, curve=[(0, score)], members=members)

    def race(
        self, layouts: list[list[int]], hurdles: Sequence[Found] = ()
    ) -> tuple[Found | None, list[Found]]:
        """The best of several layouts, None if none came to a close look, and all that set out.

        ``hurdles`` are mixtures that the leader has to be ahead of, one at each look: where it is
        not, the race is over.
        """
        if not layouts:
            return None, []
        runners = [self._start(layout, 0) for layout in layouts]
        everyone = list(runners)
        total = len(runners) * _LOOKS[0] + _STARTS * _LOOKS[1] + self.max_rounds
        with progress_bar(total, "sets", "rounds", self.progress) as bar, suppress(TimeUpError):
            for look, hurdle in zip_longest(_LOOKS, hurdles):
                first = look == _LOOKS[0]
                for runner in runners:
                    self._advance(runner, look, bar, first=first)
                runners.sort(key=lambda one: -one.score)
                if hurdle is not None and runners[0].score <= self._height(hurdle, first):
                    runners = []
                    break
                runners = runners[: -(-len(runners) // 2)] if first else runners[:1]
            again = [self._start(one.layout, n) for one in runners for n in range(1, _STARTS)]
            everyone += again
            for runner in again:
                self._advance(runner, _LOOKS[-1], bar)
            for best in sorted(runners + again, key=lambda one: -one.score)[:1]:
                while best.done < min(self.max_rounds, best.rounds + _PATIENCE * _MORE):
                    self._advance(best, best.done + _MORE, bar)
        close = [one for one in everyone if not one.is_rough]
        return max(close, key=lambda one: one.score, default=None), everyone

    def _height(self, hurdle: Found, first: bool) -> float:
        """Mean log p that a mixture gives the rows of a look."""
        if not first:
            return hurdle.score
        return self._fewest.mean(pooled(hurdle.members).log_probability(self._fewest))

    def _start(self, layout: list[int], number: int) -> Found:
        """Start a layout, for the first time or another one."""
        network, sampler = self._sampler(layout, self.rows, self.mixture(layout[0]), number)
        return Found(layout, network, np.empty(0), sampler=sampler, start=number)

    def _sampler(
        self, layout: list[int], rows: Observations, mixture: BernoulliMixture, number: int
    ) -> tuple[Network, GibbsRounds]:
        network = start_from_mixture(mixture, rows, layout[1:], seed=self.seed + number)
        return network, GibbsRounds(
            network,
            ChainsInMemory(network, rows, all_off=True, engine=self.engine),
            smoothing=_SMOOTHING * mixture.smoothing**0.5,
            smooth_to="frequency",
            pace=_PACE,
            seed=self.seed + number,
        )

    def _advance(self, runner: Found, look: int, bar: Any, *, first: bool = False) -> None:
        """Rounds up to a number of them, and a look at held-out rows."""
        sampler = runner.sampler
        assert sampler is not None
        look = min(look, self.max_rounds)

        def advance() -> tuple[Network, FloatArray]:
            network = runner.network
            if look > runner.done:
                network = sampler.advance(look - runner.done, bar)
            return network, self._log_probability(network, first)

        name = f"{runner.layout} {runner.start}"
        network, per_row = self._kept.look(name, len(runner.curve), sampler, advance)
        runner.done = look
        value = (self._fewest if first else self._few).mean(per_row)
        bar.set_postfix(sets="+".join(map(str, runner.layout)), held_out=f"{value:.3f}")
        runner.curve.append((look, value))
        # A first look is rougher, and later ones are not compared with it.
        if value > runner.score or runner.is_rough:
            runner.network, runner.score, runner.per_row = network, value, per_row
            runner.rounds, runner.is_rough = look, first

    def with_all(self, found: Found, rows: Observations) -> Network:
        """The layout that was found, learned from all rows for as many rounds."""
        rows = not_too_many(rows, self.seed)
        members = found.members or [self.mixture(found.layout[0])]
        members = learn_again(members, rows, seed=self.seed, progress=self.progress)
        if found.sampler is None:
            return start_from_mixture(pooled(members))
        rows, classes = rows.unique_rows()[0], members[0]
        network, sampler = self._sampler(found.layout, rows, classes, found.start)
        with progress_bar(found.rounds, "all rows", "rounds", self.progress) as bar:
            for before, look in pairwise([0, *(look for look, _ in found.curve)]):
                if before < look <= found.rounds:
                    network = sampler.advance(look - before, bar)
        return network

    def clearly_better(self, one: Found, other: Found) -> bool:
        """Whether held-out rows prefer one by more than the standard error of the difference."""
        return clear_gain(self._few, other.per_row, one.per_row)

    def _log_probability(self, network: Network, first: bool) -> FloatArray:
        """Log p of the judges; chains start from fewer samples than in `estimate_evidence`."""
        if states_can_be_summed(network):
            return log_p_by_states(network, self._fewest if first else self._few)
        n_chains, n_steps = _FIRST_EFFORT if first else _EFFORT
        return explore_configurations(
            network,
            self._fewest if first else self._few,
            n_samples=_SAMPLES,
            n_expansions=1,
            n_chains=n_chains,
            n_steps=n_steps,
            n_stay=_STAY,
            seed=self.seed,
            engine=self.engine,
        ).log_evidence


def _at_most(most: int, judges: Observations, order: LongArray) -> Observations:
    """Distinct rows, at most so many, of the first in this order.

    Rows are drawn before they are merged, so that frequent ones count as they should.
    """
    few, drawn = judges.unique_rows()[0], judges.n_rows
    while few.n_rows > most:
        drawn = max(most, drawn // 2)
        few = judges.take(np.sort(order[:drawn])).unique_rows()[0]
    return few


def not_too_many(rows: Observations, seed: int) -> Observations:
    """All rows, or a random subset of a large table."""
    of_row = max(1.0, rows.n_active / rows.n_rows)
    count = max(1, min(_MAX_ROWS, int(_MAX_ONES / of_row)))
    return sample_rows(rows, count * rows.n_visible, seed)[1]
