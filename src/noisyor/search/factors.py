"""Search for the hidden causes of a binary matrix: many restarts, the best of each kept.

Joint max-product over memberships and factors finds most factors of a matrix in one go, but rarely
all of them. A run with other noise, or with another idea of how often entries are flipped, misses
others. So every new run is refined and pruned by description length (see `cover` and `moves`), then
combined with the best cover so far; the better one stays. The search ends when some restarts in a
row added nothing. With the number of wrong entries as objective, the restarts are linear
factorisations instead, and of each, and of what two of them have together, factors are replaced
while the errors become fewer (`moves.reduce_errors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, BinaryArray
from noisyor._util.progress import Job, Progress, TimeUpError, progress_bar
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, check_choice, check_seed, or_none
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.search.cover import OBJECTIVES, Cover, ErrorRates, Matrix, wrong_entries
from noisyor.search.factor_restarts import ENOUGH_ROWS, STARTS, ErrorStarts, Start, Starts
from noisyor.search.moves import combine, prune
from noisyor.search.restarts import (
    Keeper,
    Restarts,
    numbers_in,
    packed,
    unpacked,
)

__all__ = [
    "FoundFactors",
    "SearchSettings",
    "StartRequest",
    "search_factors",
    "search_with",
]


_PATIENCE = {"description": 2, "errors": 6}
"""Restarts in a row that added nothing, after which the search ends, by objective."""

_FIRST_GUESS = 16
"""Number of factors that a search for their number begins with."""


@dataclass(frozen=True, eq=False)
class FoundFactors:
    """What a search found.

    Attributes
    ----------
    states : uint8 (n_searched, n_components), memberships of the rows that were searched.
    factors : uint8 (n_components, n_columns), most frequent first.
    rates : of errors.
    scores : of the best cover after each restart.
    errors : number of entries of the searched rows that the cover gets wrong, counted by weight.
    rows : (n_searched,) numbers of the searched rows.
    matrix : those rows, dense, and their weights if they have any.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
    >>> found = nor.search.search_factors(X, 2, n_restarts=1)
    >>> found.states.shape, found.factors.shape, found.errors
    ((20, 2), (2, 4), 0)
    """

    states: BinaryArray
    factors: BinaryArray
    rates: ErrorRates
    scores: tuple[float, ...]
    errors: float
    rows: npt.NDArray[np.int64]
    matrix: Matrix


def search_factors(
    X: Any,
    n_components: int | Literal["auto"],
    *,
    n_restarts: int = 12,
    patience: int | None = None,
    objective: Literal["description", "errors"] = "description",
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = False,
    keeper: Keeper | None = None,
) -> FoundFactors:
    """Find sets of columns that switch on together: a Boolean factorisation.

    Parameters
    ----------
    X : binary data (n_rows, n_columns) in any form that `Observations.of` takes; NaN is unobserved.
        In a large table, rows that repeat are searched once, with their number as weight.
    n_components : number of factors at most; only those supported by the data (MDL) are kept.
        ``"auto"`` raises it until some are left over.
    n_restarts : at most; of joint max-product, or with ``objective="errors"`` of a non-negative
        factorisation.
    patience : stop after so many restarts in a row that added nothing; default 2, with
        ``objective="errors"`` 6.
    objective : ``"description"`` keeps the factors supported by the data and is what a network
        should start from. ``"errors"`` minimises the number of wrong observed entries for the given
        number of factors: false negatives and false positives count the same, memberships and
        factors are free, and a factor is dropped only if that costs nothing. It cannot tell the
        number of factors: more of them have fewer errors.
    seed : of the noise and of the sample of rows, for data with more than some million entries.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only. When the time of a job is
        over, the best so far is returned.
    keeper : where the best so far is kept after each restart. A search that finds something there
        goes on from it, and ends as if it had not been stopped.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]], 10, axis=0)
    >>> found = nor.search.search_factors(X, 2, n_restarts=2)
    >>> sorted(found.factors.tolist()), found.errors
    ([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]], 0)
    """
    settings = SearchSettings(n_components, n_restarts, patience, objective, seed)
    return search_with(
        OwnStarts, Observations.of(X), settings, engine=engine, progress=progress, keeper=keeper
    )


class SearchSettings(NamedTuple):
    """What is searched for, see `search_factors`."""

    n_components: int | Literal["auto"]
    n_restarts: int
    patience: int | None
    objective: Literal["description", "errors"]
    seed: int


class StartRequest(NamedTuple):
    """One start: its kind, its number, and how many factors are wanted."""

    kind: Start
    number: int
    max_components: int


class StartSource(Protocol):
    """Where the starts of a search are computed."""

    def announce(self, requests: Sequence[StartRequest]) -> None:
        """These will probably be asked for, in this order."""
        ...

    def get(self, request: StartRequest) -> Cover:
        """A refined and pruned cover from one run."""
        ...


class OwnStarts:
    """Starts that are computed here, when they are asked for."""

    def __init__(self, starts: Starts) -> None:
        self._starts = starts

    def announce(self, requests: Sequence[StartRequest]) -> None:
        """Nothing is done beforehand."""

    def get(self, request: StartRequest) -> Cover:
        """See `StartSource`."""
        return self._starts.start(*request)


def search_with(
    source: Callable[[Starts], StartSource],
    observations: Observations,
    settings: SearchSettings,
    *,
    engine: EngineLike,
    progress: Progress,
    keeper: Keeper | None = None,
) -> FoundFactors:
    """The search of `search_factors`; ``source`` says where its starts are computed."""
    n_components, n_restarts, _, objective, seed = settings
    patience = _checked_patience(n_components, n_restarts, settings.patience, objective)
    distinct, numbers = observations, np.arange(observations.n_rows)
    if observations.n_rows > ENOUGH_ROWS:
        distinct, numbers = observations.unique_rows()
    kind = ErrorStarts if objective == "errors" else Starts
    job = Job.of(progress, ["search"])
    starts = kind(distinct, OBJECTIVES[objective], check_seed(seed), engine, job)
    search = _Search(starts, source(starts), keeper)
    with progress_bar(n_restarts, "search", "restarts", job) as bar:
        first = None
        if isinstance(n_components, str):
            first = search.first_guess(min(2, n_restarts), patience)
            max_components = first.n_components + first.n_components // 4 + 1
        else:
            max_components = int(n_components)
        cover, scores = search.run(max_components, n_restarts, patience, first, bar=bar, keep=True)
    order = np.argsort(-starts.observations.row_weights @ cover.states, kind="stable")
    rows, line = _repetitions(starts.rows, numbers)
    searched = observations.take(rows)
    if len(starts.rows) < distinct.n_rows and starts.observations.weights is not None:
        scale = starts.observations.weights / distinct.row_weights[starts.rows]
        searched = searched.with_weights(searched.row_weights * scale[line])
    matrix = Matrix(starts.matrix.ones[line], starts.matrix.observed[line], searched.weights)
    return FoundFactors(
        states=cover.states[line][:, order],
        factors=cover.factors[order],
        rates=cover.rates,
        scores=tuple(scores),
        errors=wrong_entries(matrix, cover.counts[line]),
        rows=rows,
        matrix=matrix,
    )


def _repetitions(
    searched: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All rows that repeat one of those searched, and which of them each repeats.

    ``searched`` are distinct rows, ``numbers`` those of all rows, as from
    `Observations.unique_rows`.
    """
    place = np.full(numbers.max() + 1, -1, dtype=np.int64)
    place[searched] = np.arange(len(searched))
    line = place[numbers]
    rows = np.flatnonzero(line >= 0)
    return rows, line[rows]


def _checked_patience(
    n_components: object, n_restarts: object, patience: int | None, objective: str
) -> int:
    """Refuse settings that make no sense; the patience, with its default filled in."""
    check_choice("objective", objective, tuple(OBJECTIVES))
    COUNT_OR_AUTO.check("n_components", n_components)
    COUNT.check("n_restarts", n_restarts)
    or_none(COUNT).check("patience", patience)
    if n_components == "auto" and objective == "errors":
        raise InvalidSettingError(
            "n_components='auto' needs objective='description': more factors always have fewer "
            "errors"
        )
    return _PATIENCE[objective] if patience is None else patience


class _Found(NamedTuple):
    """The best cover after some restarts, and the best score that each kind of start had alone."""

    best: Cover
    alone: dict[Start, float]


class _Search:
    """The restarts of a search, and what is kept of them."""

    def __init__(self, starts: Starts, source: StartSource, keeper: Keeper | None) -> None:
        self.starts, self.source, self.keeper = starts, source, keeper
        self.matrix, self.engine, self.score = starts.matrix, starts.engine, starts.score

    def first_guess(self, n_restarts: int, patience: int) -> Cover:
        """Double the number of factors until some are left over; the cover by those that stay."""
        largest = int(max(1, min(self.matrix.ones.shape)))
        size, cover = min(_FIRST_GUESS, largest), None
        kept = self._load("guess")
        if kept is not None:
            size, cover = int(numbers_in(kept, "size", 1)[0]), self._cover_in(kept)
        while True:
            if kept is None:
                cover, _ = self.run(size, n_restarts, patience, cover)
                self._save("guess", cover, size=[size])
            assert cover is not None
            if cover.n_components < 0.8 * size or size == largest:
                return cover
            size, kept = min(2 * size, largest), None

    def run(
        self,
        max_components: int,
        n_restarts: int,
        patience: int,
        first: Cover | None = None,
        *,
        bar: Any = None,
        keep: bool = False,
    ) -> tuple[Cover, list[float]]:
        """Best cover of at most ``max_components`` factors, and its score after each restart."""
        kept = self._load("restarts") if keep else None
        restarts, found = Restarts(patience), None
        if kept is not None:
            restarts = Restarts(patience, numbers_in(kept, "scores"))
            scores = numbers_in(kept, "alone", len(STARTS), gaps=True)
            pairs = zip(STARTS, scores, strict=True)
            alone = {start: score for start, score in pairs if not np.isnan(score)}
            found = _Found(self._cover_in(kept), alone)
        try:
            done = len(restarts.scores)
            more = self._restarts(max_components, range(done, n_restarts), first, found, bar)
            for found in more if restarts.worthwhile else ():
                restarts.add(self.score(found.best))
                if keep:
                    each = [found.alone.get(start, np.nan) for start in STARTS]
                    self._save("restarts", found.best, scores=restarts.scores, alone=each)
                if not restarts.worthwhile:
                    break
            assert found is not None
            best = prune(self.matrix, found.best, max_components, engine=self.engine)
        except TimeUpError:
            best = self._at_most(self.starts.draft if found is None else found.best, max_components)
        return best, restarts.scores

    def _restarts(
        self,
        max_components: int,
        numbers: range,
        first: Cover | None,
        found: _Found | None,
        bar: Any,
    ) -> Iterator[_Found]:
        """What there is after each restart, ``first`` being the cover after the first one."""
        known = [(n, self.starts.kind(n)) for n in numbers if n or first is None]
        self.source.announce(
            [StartRequest(kind, n, max_components) for n, kind in known if kind is not None]
        )
        for number in numbers:
            if found is None:
                if first is None:
                    first = self.source.get(StartRequest(STARTS[0], 0, max_components))
                    first = self.starts.repair(first, 0, max_components)
                found = _Found(first, {STARTS[0]: self.score(first)})
                yield found
                continue
            best, alone = found
            kind = self.starts.kind(number)
            if kind is None:
                kind = max((start for start in STARTS if start in alone), key=alone.__getitem__)
            if bar is not None:
                bar.update(1)
                bar.set_postfix(causes=best.n_components, errors=best.errors(self.matrix))
            new = self.source.get(StartRequest(kind, number, max_components))
            score = max(self.score(new), alone.get(kind, -np.inf))
            both = combine(self.matrix, best, new, max_components, engine=self.engine)
            chosen = max((best, new, both), key=self.score)
            best = self.starts.repair(chosen, number, max_components)
            found = _Found(best, {**alone, kind: score})
            yield found

    def _at_most(self, cover: Cover, max_components: int) -> Cover:
        """The cover without the factors in excess that gain least."""
        excess = max(0, cover.n_components - max_components)
        order = np.argsort(cover.leave_one_out_gain(self.matrix), kind="stable")
        return cover.without(self.matrix, order[:excess].tolist())

    def _load(self, name: str) -> dict[str, AnyArray] | None:
        return None if self.keeper is None else self.keeper.load(name)

    def _save(self, name: str, cover: Cover, **numbers: list[Any]) -> None:
        if self.keeper is not None:
            bits = {**packed("states", cover.states), **packed("factors", cover.factors)}
            arrays = {key: np.array(values, np.float64) for key, values in numbers.items()}
            self.keeper.save(name, {**bits, **arrays})

    def _cover_in(self, kept: dict[str, AnyArray]) -> Cover:
        states = unpacked(kept, "states", (len(self.starts.rows), None))
        shape = (states.shape[1], self.matrix.ones.shape[1])
        return self.starts.cover(states, unpacked(kept, "factors", shape))
