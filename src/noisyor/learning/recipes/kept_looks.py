"""What the recipe for probability has learned, on disk, so that a stop costs one look at most.

The recipe is deterministic. A run that goes on asks for the same mixtures and the same looks in the
same order, is given those that were kept, and continues where there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from noisyor._util.arrays import AnyArray, FloatArray
from noisyor._util.progress import Job, Progress
from noisyor.data.observations import Observations
from noisyor.learning.gibbs_em import GibbsRounds
from noisyor.model.graph import Network
from noisyor.search.mixtures.average import learn_members
from noisyor.search.mixtures.learn import learn_mixture, mixtures_by_size
from noisyor.search.mixtures.model import BernoulliMixture
from noisyor.search.restarts import Keeper, numbers_in

__all__ = ["KeptLooks"]

Mixtures = dict[int, tuple[BernoulliMixture, float]]
"""By number, with the mean log p of held-out rows; see `mixtures_by_size`."""


class KeptLooks:
    """Mixtures and looks of a race, each computed once even if the run is stopped in between.

    Parameters
    ----------
    rows, judges : to learn from and to judge by, both merged.
    seed : of the mixtures.
    progress : what ran out of time is not what it could be, and is not kept.
    keeper : where things are kept; None keeps nothing.
    """

    def __init__(
        self,
        rows: Observations,
        judges: Observations,
        seed: int,
        progress: Progress,
        keeper: Keeper | None,
    ) -> None:
        self._rows, self._judges, self._keeper = rows, judges, keeper
        self._seed, self._progress = seed, progress

    def by_size(self) -> Mixtures:
        """See `mixtures_by_size`."""
        return self._mixtures(
            "by size",
            lambda: mixtures_by_size(
                self._rows, self._judges, seed=self._seed, progress=self._progress
            ),
        )

    def of_size(self, n_classes: int) -> Mixtures:
        """A single mixture of so many classes, its score unknown."""
        learn = partial(learn_mixture, held_out=self._judges, seed=self._seed)
        return self._mixtures(
            f"of {n_classes}",
            lambda: {n_classes: (learn(self._rows, n_classes, progress=self._progress), -np.inf)},
        )

    def members(self, found: Mixtures) -> list[BernoulliMixture]:
        """See `learn_members`."""
        learn = partial(learn_members, self._rows, self._judges, found, seed=self._seed)
        kept = self._mixtures(
            "averaged",
            lambda: {n: (one, -np.inf) for n, one in enumerate(learn(progress=self._progress))},
        )
        return [mixture for mixture, _ in kept.values()]

    def _mixtures(self, name: str, learn: Callable[[], Mixtures]) -> Mixtures:
        """What ``learn`` returns, or returned before the stop."""
        kept = self._load(f"mixtures {name}")
        if kept is None:
            found = learn()
            self._save(f"mixtures {name}", _packed(found))
            return found
        keys = numbers_in(kept, "keys")
        sizes = [int(size) for size in numbers_in(kept, "sizes", len(keys))]
        scores = numbers_in(kept, "scores", len(keys), gaps=True)
        share = np.array(numbers_in(kept, "share", sum(sizes)))
        probability = np.array(numbers_in(kept, "probability", sum(sizes) * self._rows.n_visible))
        probability = probability.reshape(-1, self._rows.n_visible)
        smoothing = numbers_in(kept, "smoothing", len(keys))
        rounds = numbers_in(kept, "rounds", len(keys))
        found, end = {}, np.cumsum([0, *sizes])
        for n, key in enumerate(keys):
            part = slice(end[n], end[n + 1])
            score = -np.inf if np.isnan(scores[n]) else scores[n]
            mixture = BernoulliMixture(share[part], probability[part], smoothing[n], int(rounds[n]))
            found[int(key)] = mixture, score
        return found

    def look(
        self,
        runner: str,
        number: int,
        sampler: GibbsRounds,
        advance: Callable[[], tuple[Network, FloatArray]],
    ) -> tuple[Network, FloatArray]:
        """The network at a runner's look of this number, and log p of every row looked at.

        What ``advance`` returns, with the sampler after it; or what it did before the stop.
        """
        name = f"looks {runner}"
        kept = self._load(name) or {}
        if f"theta {number}" in kept:
            theta = numbers_in(kept, f"theta {number}", sampler.network.n_params)
            if f"theta {number + 1}" not in kept:  # the chains are those of the last look
                sampler.restore(kept)
            network = sampler.network.with_theta(np.array(theta))
            return network, np.array(numbers_in(kept, f"per_row {number}"))
        network, per_row = advance()
        looks = {key: kept[key] for key in kept if key.split()[0] in ("theta", "per_row")}
        looks |= {f"theta {number}": network.theta, f"per_row {number}": per_row}
        if self._keeper is not None:
            self._save(name, {**looks, **sampler.state()})
        return network, per_row

    def _load(self, name: str) -> Mapping[str, AnyArray] | None:
        return None if self._keeper is None else self._keeper.load(name)

    def _save(self, name: str, arrays: dict[str, AnyArray]) -> None:
        over = isinstance(self._progress, Job) and self._progress.is_over
        if self._keeper is not None and not over:
            self._keeper.save(name, arrays)


def _packed(found: Mixtures) -> dict[str, AnyArray]:
    """Mixtures as arrays."""
    mixtures = [mixture for mixture, _ in found.values()]
    scores = np.array([score for _, score in found.values()])
    numbers = {
        "keys": list(found),
        "sizes": [one.n_classes for one in mixtures],
        "smoothing": [one.smoothing for one in mixtures],
        "rounds": [one.rounds for one in mixtures],
    }
    return {
        **{name: np.array(values, np.float64) for name, values in numbers.items()},
        "scores": np.where(np.isfinite(scores), scores, np.nan),
        "share": np.concatenate([one.share for one in mixtures]),
        "probability": np.concatenate([one.probability.ravel() for one in mixtures]),
    }
