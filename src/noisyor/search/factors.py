"""Search for the causes of a binary matrix: many starts, the best of each kept.

Joint max-product over memberships and factors finds most causes of a matrix in one go, but rarely
all of them. A run with other noise or another idea of how often entries are flipped misses others.
So every new run is refined and pruned by description length (see `cover`), then combined with the
best cover so far; the better one stays. The search ends when some runs in a row added nothing.
With the number of wrong entries as objective the starts are linear factorisations instead.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.progress import progress_bar
from noisyor._util.validation import check_seed, is_whole
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.joint_max_product import JointMaxProduct, factorize
from noisyor.search.cover import Cover, combine, merge, prune, refine, replace
from noisyor.search.objectives import OBJECTIVES, Matrix, Objective, Rates
from noisyor.search.restarts import best_of_starts, sample_rows

__all__ = ["FoundFactors", "cover_rows", "search_factors"]


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

_PATIENCE = {"description": 2, "errors": 6}
"""Starts in a row that added nothing, after which the search ends, by objective."""

_MOST_ENTRIES = 2**18
"""Entries of the part of the data that is searched; beyond, a sample of rows is."""

_MOST_PRODUCTS = 2**26
"""Rows x causes x columns of a joint run; its memory is eight bytes for each."""

_REPAIRS = 4
"""Searches for causes of what a cover leaves over, at most, after each start."""

_REPLACEMENTS = 20
"""Replacements in a row that did not lower the errors, after which a start is done."""

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
    patience: int | None = None,
    objective: Literal["description", "errors"] = "description",
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> FoundFactors:
    """Find sets of columns that switch on together: a Boolean factorisation.

    Parameters
    ----------
    X : binary data in any form that `Observations.of` takes; NaN is unobserved.
    n_hidden : number of causes at most; causes that the data do not pay for are not kept.
        ``"auto"`` raises it until some are left over.
    starts : at most; of joint max-product, or with ``objective="errors"`` of a non-negative
        factorisation.
    patience : stop after so many starts in a row that added nothing; default 2, with
        ``objective="errors"`` 6.
    objective : ``"description"`` keeps the causes that the data pay for and is what a network
        should start from. ``"errors"`` minimises the number of wrong observed entries for the given
        number of causes: a missed one and a spurious one count the same, memberships and factors
        are free, and a cause is dropped only if that costs nothing. It cannot tell the number of
        causes: more of them have fewer errors.
    seed : of the noise and of the sample of rows, for data with more than some million entries.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.
    """
    observations = Observations.of(X)
    if not observations.n_rows:
        raise InvalidDataError("there are no rows to search for causes")
    for name, value in (("starts", starts), ("patience", patience)):
        if value is not None and value < 1:
            raise InvalidSettingError(f"{name} must be at least 1, got {value}")
    if n_hidden != "auto" and not (is_whole(n_hidden) and n_hidden >= 1):
        raise InvalidSettingError(f"n_hidden must be at least 1 or 'auto', got {n_hidden!r}")
    if objective not in tuple(OBJECTIVES):
        expected = " or ".join(map(repr, OBJECTIVES))
        raise InvalidSettingError(f"objective must be {expected}, got {objective!r}")
    if n_hidden == "auto" and objective == "errors":
        raise InvalidSettingError(
            "n_hidden='auto' needs objective='description': more causes always have fewer errors"
        )
    kind = _ErrorSearch if objective == "errors" else _Search
    patience = _PATIENCE[objective] if patience is None else patience
    search = kind(observations, OBJECTIVES[objective], check_seed(seed), engine)
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


def cover_rows(
    X: Any, factors: npt.ArrayLike, *, engine: EngineLike = "auto"
) -> npt.NDArray[np.uint8]:
    """Memberships with which given factors draw rows with few wrong entries.

    The factor that lowers the errors of a row most is added until none does; then single
    memberships are switched while that helps. So no row has more errors than without any factor,
    and no single switch leaves it with fewer. Of equal memberships the fewer are taken. Unobserved
    entries do not count.

    Parameters
    ----------
    X : binary data (n_rows, n_columns) in any form that `Observations.of` takes; NaN is unobserved.
    factors : (n_causes, n_columns) of 0 and 1, such as those of `search_factors`.
    engine : as in `explain`.

    Returns
    -------
    uint8 (n_rows, n_causes).
    """
    given = np.asarray(factors)
    if given.ndim != 2 or not np.isin(given, (0, 1)).all():
        raise InvalidDataError(
            f"factors are (n_causes, n_columns) of 0 and 1, got shape {given.shape}"
            + ("" if given.ndim != 2 else " with other values")
        )
    plain = given.astype(np.uint8)
    observations = Observations.of(X, n_visible=plain.shape[1])
    objective = OBJECTIVES["errors"]
    states = np.zeros((observations.n_rows, len(plain)), dtype=np.uint8)
    block = max(1, _MOST_ENTRIES // max(1, plain.shape[1]))
    for begin in range(0, len(states), block):
        rows = slice(begin, begin + block)
        matrix = _dense(observations.take(rows))
        cover = Cover.of(matrix, states[rows], plain, objective)
        weights = objective.weights(matrix, cover.rates)
        cover = cover.with_bits(matrix, _greedy_states(weights, plain), plain)
        while True:  # a pass of the kernel gives up on a row after some sweeps
            better = refine(matrix, cover, factors=False, engine=engine)
            if np.array_equal(better.states, cover.states):
                break
            cover = better
        states[rows] = cover.states
    return states


class _Search:
    """The searched rows as a dense matrix, and the starts."""

    def __init__(
        self, observations: Observations, objective: Objective, seed: int, engine: EngineLike
    ) -> None:
        self.rows, observations = sample_rows(observations, _MOST_ENTRIES, seed)
        self.matrix = _dense(observations)
        self.observations, self.objective = observations, objective
        self.seed, self.engine = seed, engine
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
            both = combine(self.matrix, best, new, most, engine=self.engine)
            return self._repair(max((best, new, both), key=self._score), number, most)

        best, scores = best_of_starts(first, improve, self._score, starts, patience)
        return prune(self.matrix, best, most, engine=self.engine), scores

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
        cover = refine(self.matrix, cover, engine=self.engine)
        return prune(self.matrix, cover, most, engine=self.engine)

    def _repair(self, cover: Cover, number: int, most: int) -> Cover:
        """Merge causes, and look for causes of what is not covered; they replace lesser ones."""
        for attempt in range(_REPAIRS):
            cover = merge(self.matrix, cover, engine=self.engine)
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
                engine=self.engine,
            )
            states = np.zeros((len(self.rows), size), dtype=np.uint8)
            states[rows] = found.activations
            more = cover.with_bits(self.matrix, states, found.features)
            both = combine(self.matrix, cover, more, most, engine=self.engine)
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
            engine=self.engine,
        )
        states = np.zeros((len(self.rows), size), dtype=np.uint8)
        states[chosen] = found.activations
        return Cover.of(self.matrix, states, found.features, self.objective)

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
        return Cover.of(
            self.matrix, left * scale >= 0.5, right / scale[:, None] >= 0.5, self.objective
        )


class _ErrorSearch(_Search):
    """The same for fewest wrong entries.

    Joint runs look for causes that pay for themselves. For a given number of causes, starts from
    linear factorisations and causes replaced a few at a time are quicker and end with fewer errors.
    """

    def _start(self, start: _Start, number: int, most: int) -> Cover:
        cover = refine(self.matrix, self._linear_start(most, number), engine=self.engine)
        return prune(self.matrix, cover, most, engine=self.engine)

    def _repair(self, cover: Cover, number: int, most: int) -> Cover:
        """Replace a few causes at a time, drawn by chance, while that helps now and then."""
        generator = np.random.default_rng((self.seed, number))
        stale = 0
        while stale < _REPLACEMENTS and cover.errors(self.matrix):
            few = int(generator.integers(1, max(2, most // 4) + 1))
            causes = generator.permutation(cover.n_causes)[:few].tolist()
            new = replace(self.matrix, cover, causes, most, generator, engine=self.engine)
            stale = 0 if new.errors(self.matrix) < cover.errors(self.matrix) else stale + 1
            cover = max((cover, new), key=self._score)
        return cover


def _greedy_states(
    weights: npt.NDArray[np.float32], factors: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]:
    """Memberships (n_rows, n_causes): add the factor that gains most, while one gains."""
    plain = factors.astype(np.float32)
    states = np.zeros((len(weights), len(factors)), dtype=np.uint8)
    rows, left = np.arange(len(weights)), weights.copy()
    while len(rows) and len(factors):
        gain = left @ plain.T  # whole numbers: exact, in whatever order they are added
        best = gain.argmax(1)
        pays = gain[np.arange(len(rows)), best] > 0
        rows, left, best = rows[pays], left[pays], best[pays]
        states[rows, best] = 1
        left[factors[best] > 0] = 0  # what is covered gains nothing any more
    return states


def _dense(observations: Observations) -> Matrix:
    """Rows as a dense matrix."""
    dense = observations.to_dense()
    return Matrix(dense > 0, ~np.isnan(dense))  # NaN > 0 is False


def _share(bits: npt.NDArray[np.uint8]) -> float:
    """Share of ones, kept away from 0 and 1."""
    return float(np.clip(bits.mean(), 1e-3, 0.5))
