"""Averages of mixtures: several starts instead of the best one.

Mixtures that start from other rows end in other optima, each with errors of its own, and the mean
of their probabilities is better than any of them. It is a mixture too, of all their classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import Progress
from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.search.mixtures.learn import learn_mixture, mixtures_by_size
from noisyor.search.mixtures.model import BernoulliMixture

__all__ = ["average_mixtures", "clear_gain", "learn_again", "learn_members", "pooled"]

_MOST_CLASSES, _MOST_CELLS = 4096, 2**23
"""Classes of an average, and classes times columns, at most."""

_FIRST = 4
"""Members of the smallest average: one of two may not gain where one of four does."""

_LESS = 0.1
"""Share of the best smoothing that is tried as well: an average smooths by itself."""

_WORTH = 1e-3
"""Nats a row that an average has to gain. The best mixture has been chosen among many by the same
rows and is flattered by them, the average is not: there is no need for more."""

_HELD_OUT = 0.1
"""Share of the rows that decide, if none are given."""


def average_mixtures(
    X: Any, *, held_out: Any = None, seed: int = 0, progress: Progress = False
) -> BernoulliMixture:
    """Learn mixtures of Bernoullis from several starts, and average their probabilities.

    The number of classes is found as by `learn_mixture`. The number of starts is doubled as long as
    held-out rows gain; if they gain next to nothing, one mixture is kept.

    Parameters
    ----------
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes.
    held_out : rows that decide. Without them a tenth of the rows is held out, and what these
        decided is learned again from all rows.
    seed : of the rows that classes start from.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    One mixture with the classes of all starts.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> rows = np.random.default_rng(0).random((300, 6)) < [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]
    >>> nor.search.average_mixtures(rows).probability.shape[1]
    6
    """
    seed, rows, everything = check_seed(seed), Observations.of(X), None
    if held_out is None and rows.n_rows > 1:
        everything = rows
        rows, judges = rows.split(1.0 - _HELD_OUT, seed)
    else:
        judges = rows if held_out is None else Observations.of(held_out, n_visible=rows.n_visible)
    rows, judges = rows.unique_rows()[0], judges.unique_rows()[0]
    found = mixtures_by_size(rows, judges, seed=seed, progress=progress)
    members = learn_members(rows, judges, found, seed=seed, progress=progress)
    if everything is not None:
        members = learn_again(members, everything, seed=seed, progress=progress)
    return pooled(members)


def pooled(mixtures: Sequence[BernoulliMixture]) -> BernoulliMixture:
    """The mixture whose probability of a row is the mean of those of the given ones."""
    return BernoulliMixture(
        np.concatenate([one.share for one in mixtures]) / len(mixtures),
        np.concatenate([one.probability for one in mixtures]),
        mixtures[0].smoothing,
    )


def learn_members(
    rows: Observations,
    judges: Observations,
    found: Mapping[int, tuple[BernoulliMixture, float]],
    *,
    seed: int = 0,
    progress: Progress = False,
) -> list[BernoulliMixture]:
    """Mixtures whose average is good for ``judges``: as many as are worth it.

    ``found`` are those of `mixtures_by_size`. Members have the best number of classes and
    smoothing, or twice as many classes, or a tenth of the smoothing, or both: these are worse
    alone, but differ more from each other. If no average is better, the best is the only member.
    """
    best = max(found, key=lambda size: found[size][1])
    learned: dict[tuple[_Kind, int], BernoulliMixture] = {}

    def member(kind: _Kind, start: int) -> BernoulliMixture:
        first = found[kind.n_classes][0]
        if start == 0 and kind.smoothing == first.smoothing:
            return first
        if (kind, start) not in learned:
            options: dict[str, Any] = {"seed": seed + start, "progress": progress}
            learned[kind, start] = learn_mixture(
                rows, kind.n_classes, held_out=judges, smoothing=kind.smoothing, **options
            )
        return learned[kind, start]

    def average(kind: _Kind, number: int) -> _Average:
        members = [member(kind, start) for start in range(number)]
        per_row = pooled(members).log_probability(judges)
        return _Average(kind, members, judges.mean(per_row))

    sizes = [best, 2 * best] if 2 * best in found else [best]
    kinds = [
        _Kind(size, found[size][0].smoothing * share) for size in sizes for share in (1.0, _LESS)
    ]
    alone = average(kinds[0], 1)
    kinds = [kind for kind in kinds if _fits(kind, _FIRST, rows)]
    if best == 1 or not kinds:
        return alone.members
    kept = max((average(kind, _FIRST) for kind in kinds), key=lambda one: one.mean)
    while _fits(kept.kind, 2 * len(kept.members), rows):
        doubled = average(kept.kind, 2 * len(kept.members))
        if doubled.mean <= kept.mean:
            break
        kept = doubled
    return kept.members if kept.mean > alone.mean + _WORTH else alone.members


class _Kind(NamedTuple):
    """What the members of an average have in common."""

    n_classes: int
    smoothing: float


class _Average(NamedTuple):
    """Mixtures of a kind, and the mean log p of the judges under their average."""

    kind: _Kind
    members: list[BernoulliMixture]
    mean: float


def learn_again(
    members: Sequence[BernoulliMixture],
    rows: Observations,
    *,
    seed: int = 0,
    progress: Progress = False,
) -> list[BernoulliMixture]:
    """The same mixtures learned from other rows: same sizes, smoothing and numbers of rounds."""
    rows = rows.unique_rows()[0]
    return [
        learn_mixture(
            rows,
            one.n_classes,
            smoothing=one.smoothing,
            max_rounds=max(1, one.rounds),
            seed=seed + start,
            progress=progress,
        )
        for start, one in enumerate(members)
    ]


def clear_gain(rows: Observations, before: FloatArray, after: FloatArray) -> bool:
    """Whether log p of the rows (n_rows,) rose by more than the standard error of the gain."""
    weight, gain = rows.row_weights, after - before
    mean = rows.mean(gain)
    error = np.sqrt((weight * (gain - mean) ** 2).sum()) / weight.sum()
    return bool(mean > error)


def _fits(kind: _Kind, n_members: int, rows: Observations) -> bool:
    """Whether an average of so many mixtures is not too large."""
    n_classes = n_members * kind.n_classes
    return n_classes <= _MOST_CLASSES and n_classes * rows.n_visible <= _MOST_CELLS
