"""Search for the causes of a binary matrix: many starts, the best of each kept.

Joint max-product over memberships and factors finds most causes of a matrix in one go, but rarely
all of them. A run with other noise or another idea of how often entries are flipped misses others.
So every new run is refined and pruned by description length (see `cover`), then combined with the
best cover so far; the better one stays. The search ends when some runs in a row added nothing.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.cover import Cover, Matrix, Rates, combine, merge, prune, refine
from noisyor.engines.threads import resolve_threads
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.joint import JointMaxProduct, factorize
from noisyor.inference.settings import check_seed, is_whole
from noisyor.observations import Observations
from noisyor.progress import progress_bar
from noisyor.searching import best_of_starts, sample_rows

__all__ = ["FoundFactors", "search_factors"]


class _Start(NamedTuple):
    """A run of joint max-product: assumed flip probability, and causes per cause asked for."""

    flip_probability: float
    excess: float


_STARTS = (
    _Start(0.02, 1.0),
    _Start(0.05, 1.5),
    _Start(0.0, 1.0),
    _Start(0.05, 1.0),
    _Start(0.1, 1.5),
)
_TRIED_FIRST = 3
"""Kinds of starts tried before the one that did best gets every second turn."""

_ITERATIONS, _DAMPING = 200, 0.6

_MOST_ENTRIES = 2**24
"""Entries of the part of the data that is searched; beyond, a sample of rows is."""

_MOST_PRODUCTS = 2**26
"""Rows x causes x columns of a joint run; its memory is eight bytes for each."""

_REPAIRS = 4
"""Searches for causes of what a cover leaves over, at most, after each start."""

_FEWEST_ROWS = 100
"""A joint run on fewer rows than this tells little; a linear factorisation starts then."""

_SPARE = 8
"""Further causes of a start with more than asked for: of a handful, half again is not many."""

_FIRST_GUESS = 16
"""Number of causes that a search for their number begins with."""


@dataclass(frozen=True, eq=False)
class FoundFactors:
    """What a search found.

    ``states`` uint8 (n_searched, n_causes) memberships of the rows ``rows`` (n_searched,) that were
    searched; ``factors`` uint8 (n_causes, n_columns), most frequent first; ``rates`` of errors;
    ``scores`` of the best cover after each start; ``errors`` entries of those rows it gets wrong.
    """

    states: npt.NDArray[np.uint8]
    factors: npt.NDArray[np.uint8]
    rates: Rates
    scores: tuple[float, ...]
    errors: int
    rows: npt.NDArray[np.int64]


def search_factors(
    X: Any,
    n_hidden: int | Literal["auto"],
    *,
    starts: int = 12,
    patience: int = 2,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | None = False,
) -> FoundFactors:
    """Find sets of columns that switch on together: a Boolean factorisation.

    Parameters
    ----------
    X : binary data in any form that `Observations.of` takes; NaN is unobserved.
    n_hidden : number of causes at most; causes that the data do not pay for are not kept.
        ``"auto"`` raises it until some are left over.
    starts : runs of joint max-product at most.
    patience : stop after so many runs in a row that added nothing.
    seed : of the noise and of the sample of rows, for data with more than some million entries.
    n_threads : default all cores. The result does not depend on it.
    progress : show a progress bar; None shows it on a terminal only.
    """
    observations = Observations.of(X)
    if not observations.n_rows:
        raise InvalidDataError("there are no rows to search for causes")
    for name, value in (("starts", starts), ("patience", patience)):
        if value < 1:
            raise InvalidSettingError(f"{name} must be at least 1, got {value}")
    if n_hidden != "auto" and not (is_whole(n_hidden) and n_hidden >= 1):
        raise InvalidSettingError(f"n_hidden must be at least 1 or 'auto', got {n_hidden!r}")
    search = _Search(observations, check_seed(seed), resolve_threads(n_threads))
    with progress_bar(starts, "search", "starts", progress) as bar:
        first = None
        if n_hidden == "auto":
            first = search.first_guess(patience)
            most = first.n_causes + first.n_causes // 4 + 1
        else:
            most = int(n_hidden)
        cover, scores = search.run(most, starts, patience, first, bar)
    order = np.argsort(-cover.states.sum(0, dtype=np.int64), kind="stable")
    return FoundFactors(
        states=cover.states[:, order],
        factors=cover.factors[order],
        rates=cover.rates,
        scores=tuple(scores),
        errors=cover.errors(search.matrix),
        rows=search.rows,
    )


class _Search:
    """The searched rows as a dense matrix, and the starts."""

    def __init__(self, observations: Observations, seed: int, n_threads: int) -> None:
        self.rows, observations = sample_rows(observations, _MOST_ENTRIES, seed)
        dense = observations.to_dense()
        self.matrix = Matrix(dense > 0, ~np.isnan(dense))  # NaN > 0 is False
        self.observations, self.seed, self.n_threads = observations, seed, n_threads
        seen = int(self.matrix.observed.sum())
        self.density = float(np.clip(self.matrix.ones.sum() / max(seen, 1), 1e-3, 0.9))

    def first_guess(self, patience: int) -> Cover:
        """Double the number of causes until some are left over; the cover by those that are not."""
        largest = int(max(1, min(self.matrix.ones.shape)))
        most, cover = min(_FIRST_GUESS, largest), None
        while True:
            cover, _ = self.run(most, 2, patience, cover)
            if cover.n_causes < 0.8 * most or most == largest:
                return cover
            most = min(2 * most, largest)

    def run(
        self, most: int, starts: int, patience: int, first: Cover | None = None, bar: Any = None
    ) -> tuple[Cover, list[float]]:
        """Best cover of at most ``most`` causes, and its score after each start."""
        first = first or self._repair(self._start(_STARTS[0], 0, most), 0, most)
        alone = {_STARTS[0]: self._score(first)}

        def improve(best: Cover, number: int) -> Cover:
            kind = _STARTS[number % len(_STARTS)]
            if number >= _TRIED_FIRST and number % 2:
                kind = max(alone, key=lambda start: alone[start])
            if bar is not None:
                bar.update(1)
                bar.set_postfix(causes=best.n_causes, errors=best.errors(self.matrix))
            new = self._start(kind, number, most)
            alone[kind] = max(self._score(new), alone.get(kind, -np.inf))
            both = combine(self.matrix, best, new, most, n_threads=self.n_threads)
            return self._repair(max((best, new, both), key=self._score), number, most)

        best, scores = best_of_starts(first, improve, self._score, starts, patience)
        return prune(self.matrix, best, most, n_threads=self.n_threads), scores

    def _score(self, cover: Cover) -> float:
        return cover.score(self.matrix)

    def _start(self, start: _Start, number: int, most: int) -> Cover:
        """A refined and pruned cover from one run."""
        size = int(np.ceil(start.excess * most)) + (_SPARE if start.excess > 1 else 0)
        affordable = _MOST_PRODUCTS // (size * self.matrix.ones.shape[1])
        n_rows = len(self.rows)
        if affordable < min(n_rows, _FEWEST_ROWS):
            cover = self._linear_start(most, number)
        else:
            cover = self._joint_start(start, size, number, min(n_rows, affordable))
        cover = refine(self.matrix, cover, n_threads=self.n_threads)
        return prune(self.matrix, cover, most, n_threads=self.n_threads)

    def _repair(self, cover: Cover, number: int, most: int) -> Cover:
        """Merge causes, and look for causes of what is not covered; they replace lesser ones."""
        for attempt in range(_REPAIRS):
            cover = merge(self.matrix, cover, n_threads=self.n_threads)
            covered = cover.counts > 0
            left = self.matrix.ones & ~covered
            size = max(2, most // 20)
            rows = np.flatnonzero(left.any(axis=1))
            rows = rows[: max(1, _MOST_PRODUCTS // (size * left.shape[1]))]
            if not len(rows) or not cover.n_causes:
                break
            # what is covered already may be covered again: to the joint run it is unobserved
            unknown = (covered | ~self.matrix.observed)[rows]
            found = factorize(
                np.where(unknown, np.nan, left[rows].astype(np.float32)),
                size,
                JointMaxProduct(iterations=_ITERATIONS, damping=_DAMPING),
                activation_probability=_share(cover.states),
                feature_probability=_share(cover.factors),
                flip_probability=0.02,
                seed=self.seed + 1_000_003 * number + attempt,
                n_threads=self.n_threads,
            )
            states = np.zeros((len(self.rows), size), dtype=np.uint8)
            states[rows] = found.activations
            more = Cover.of(self.matrix, states, found.features)
            both = combine(self.matrix, cover, more, most, n_threads=self.n_threads)
            if both.score(self.matrix) <= cover.score(self.matrix) + 1e-6:
                break
            cover = both
        return cover

    def _joint_start(self, start: _Start, size: int, number: int, n_rows: int) -> Cover:
        chosen = np.arange(len(self.rows))
        if n_rows < len(chosen):  # each start sees rows of its own
            order = np.random.default_rng((self.seed, number)).permutation(len(chosen))
            chosen = np.sort(order[:n_rows])
        found = factorize(
            self.observations.take(chosen),
            size,
            JointMaxProduct(iterations=_ITERATIONS, damping=_DAMPING),
            density=self.density,
            flip_probability=start.flip_probability,
            seed=self.seed + 1_000_003 * number,
            n_threads=self.n_threads,
        )
        states = np.zeros((len(self.rows), size), dtype=np.uint8)
        states[chosen] = found.activations
        return Cover.of(self.matrix, states, found.features)

    def _linear_start(self, most: int, number: int) -> Cover:
        """Threshold a non-negative factorisation, for data too wide for a joint run."""
        from sklearn.decomposition import NMF
        from sklearn.exceptions import ConvergenceWarning

        size = min(most, *self.matrix.ones.shape)
        model = NMF(
            size,
            init="nndsvda" if number == 0 else "random",
            max_iter=100,
            random_state=self.seed + number,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # refinement follows anyway
            left = model.fit_transform(self.observations.to_csr().astype(np.float64))
        right = model.components_
        scale = np.sqrt(
            np.maximum(right.max(1), 1e-12) / np.maximum(left.max(0), 1e-12)
        )  # both factors get the same largest entry
        return Cover.of(self.matrix, left * scale >= 0.5, right / scale[:, None] >= 0.5)


def _share(bits: npt.NDArray[np.uint8]) -> float:
    """Share of ones, kept away from 0 and 1."""
    return float(np.clip(bits.mean(), 1e-3, 0.5))
