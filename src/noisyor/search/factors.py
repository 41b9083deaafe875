"""Search for the hidden causes of a binary matrix: many restarts, the best of each kept.

Joint max-product over memberships and factors finds most factors of a matrix in one run, but rarely
all of them. A run with other noise, or with another assumed flip probability, misses others. So
every new run is refined and pruned by description length (see `noisyor.search.cover`), then
combined with the best cover so far; the better one stays. The search ends when some restarts in a
row added nothing. With ``objective="hamming"`` the first covers are linear factorizations and sets
of columns instead, and most later covers recombine the factors of two good ones; in every cover,
factors are replaced while the number of wrong entries falls (`reduce_errors`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.progress import Progress, TimeUpError, progress_bar
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, check_choice, or_none
from noisyor.data.observations import Observations
from noisyor.engines.context import CheckpointStore, Context, Stored
from noisyor.engines.contract import EngineLike, NoiseKey
from noisyor.engines.threads import one_blas_thread
from noisyor.errors import InvalidSettingError
from noisyor.inference.joint import JointMaxProduct, pmp_factorize
from noisyor.search.cover import (
    OBJECTIVES,
    Cover,
    ErrorRates,
    Matrix,
    combine,
    coverage_gain,
    draw_rows,
    is_worthwhile,
    merge,
    prune,
    reduce_errors,
    refine,
    sample_rows,
    wrong_entries,
)

_PATIENCE = {"mdl": 2, "hamming": 12}
"""Number of restarts in a row without an improvement after which the search ends, by objective."""

_FIRST_GUESS = 16
"""Number of factors that a search for their number begins with."""


@dataclass(frozen=True, eq=False)
class FoundFactors:
    """What a search found.

    Attributes
    ----------
    states : uint8 (n_searched, n_components), memberships of the rows that were searched.
    factors : uint8 (n_components, n_columns), most frequent first.
    rates : error rates.
    scores : scores of the best cover after each restart.
    errors : number of entries of the searched rows that the cover gets wrong, counted by weight.
    rows : (n_searched,) numbers of the searched rows.
    matrix : those rows, dense, and their weights if they have any.
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
    objective: Literal["mdl", "hamming"] = "mdl",
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = False,
    time_limit: float | None = None,
    store: CheckpointStore | None = None,
) -> FoundFactors:
    """Find sets of columns that switch on together: a Boolean factorization.

    Parameters
    ----------
    X : binary data (n_rows, n_columns) in any form that `Observations.of` takes; NaN is unobserved.
        In a large table, rows that repeat are searched once, with their number as weight.
    n_components : number of factors at most; only those supported by the data (MDL) are kept.
        ``"auto"`` raises it until some are left over.
    n_restarts : number of restarts at most: of joint max-product, or with
        ``objective="hamming"`` of six covers each. The first six covers start from non-negative
        factorizations and from sets of columns, most later ones from factors of two good covers.
    patience : stop after this many restarts in a row that added nothing; default 2, with
        ``objective="hamming"`` 12.
    objective : ``"mdl"`` keeps the factors supported by the data (minimum description length) and
        is what a network should start from. ``"hamming"`` minimizes the number of wrong observed
        entries for the given number of factors: false negatives and false positives count the
        same, and a factor is dropped only if that costs nothing. It cannot choose the number of
        factors: more of them have fewer errors.
    seed : seed of the noise, and of the sample of rows if the data have more than some million
        entries.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.
    time_limit : seconds after which the best factors so far are returned.
    store : keeps the best factors after each restart. A search that finds stored factors continues
        from them and returns the same result as an undisturbed search.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]], 10, axis=0)
    >>> found = nor.search.search_factors(X, 2, n_restarts=2)
    >>> sorted(found.factors.tolist()), found.errors
    ([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]], 0)
    """
    settings = SearchSettings(n_components, n_restarts, patience, objective)
    context = Context.of(engine, seed, progress, time_limit, store)
    return search_rows(Observations.of(X), settings, context)


class SearchSettings(NamedTuple):
    """Settings of a search, see `search_factors`."""

    n_components: int | Literal["auto"]
    n_restarts: int = 12
    patience: int | None = None
    objective: Literal["mdl", "hamming"] = "mdl"
    iterations: int = 200
    """Iterations of every joint run."""
    repairs: int = 4
    """Largest number of searches for factors of uncovered entries after each restart."""


def search_rows(
    observations: Observations, settings: SearchSettings, context: Context
) -> FoundFactors:
    """Run the search of `search_factors` in a context."""
    n_components, n_restarts = settings.n_components, settings.n_restarts
    patience = _checked_patience(settings)
    distinct, numbers = observations, np.arange(observations.n_rows)
    if observations.n_rows > ENOUGH_ROWS:
        distinct, numbers = observations.unique_rows()
    kind = ErrorSearch if settings.objective == "hamming" else FactorSearch
    search = kind(distinct, settings, context)
    with progress_bar(n_restarts, "search", "restarts", context.job) as bar:
        first = None
        if isinstance(n_components, str):
            first = search.first_guess(min(2, n_restarts), patience)
            max_components = first.n_components + first.n_components // 4 + 1
        else:
            max_components = int(n_components)
        cover, scores = search.run(max_components, n_restarts, patience, first, bar=bar, keep=True)
    order = np.argsort(-search.observations.row_weights @ cover.states, kind="stable")
    rows, line = _repetitions(search.rows, numbers)
    searched = observations.take(rows)
    if len(search.rows) < distinct.n_rows and search.observations.weights is not None:
        scale = search.observations.weights / distinct.row_weights[search.rows]
        searched = searched.with_weights(searched.row_weights * scale[line])
    matrix = Matrix(search.matrix.ones[line], search.matrix.observed[line], searched.weights)
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
    """Return all rows that repeat a searched row, and the searched row of each.

    ``searched`` are distinct rows, ``numbers`` those of all rows, as from
    `Observations.unique_rows`.
    """
    index = np.full(numbers.max() + 1, -1, dtype=np.int64)
    index[searched] = np.arange(len(searched))
    line = index[numbers]
    rows = np.flatnonzero(line >= 0)
    return rows, line[rows]


def _checked_patience(settings: SearchSettings) -> int:
    """Reject impossible settings; return the patience, with its default filled in."""
    n_components, n_restarts, patience, objective, *_ = settings
    check_choice("objective", objective, OBJECTIVES)
    COUNT_OR_AUTO.check("n_components", n_components)
    COUNT.check("n_restarts", n_restarts)
    or_none(COUNT).check("patience", patience)
    if n_components == "auto" and objective == "hamming":
        raise InvalidSettingError(
            "n_components='auto' needs objective='mdl': more factors always have fewer errors"
        )
    return _PATIENCE[objective] if patience is None else patience


class Start(NamedTuple):
    """Settings of a joint run: flip probability, and candidates per requested factor."""

    flip_probability: float
    excess: float


STARTS = (
    Start(0.02, 1.0),
    Start(0.05, 1.5),
    Start(0.0, 1.0),
    Start(0.05, 1.0),
    Start(0.1, 1.5),
)

_TRIED_FIRST = 3
"""Number of kinds of starts that are tried before the best kind gets every second restart."""

_DAMPING = 0.6

_MAX_ENTRIES = 2**18
"""Above this many entries, a random subset of the rows is searched."""

_MAX_PRODUCTS = 2**26
"""Rows x factors x columns of a joint run; its memory is eight bytes for each."""

_FEWEST_ROWS = 100
"""Joint runs need at least this many rows; with fewer, a linear factorization is used."""

ENOUGH_ROWS = 1000
"""Up to this many rows, repeated rows are kept, because each repetition has its own noise."""

_EXTRA = 8
"""Factors added to a start that has more factors than requested, besides their proportion."""


class FactorSearch:
    """The searched rows, also as a dense matrix, and the restarts of the search."""

    def __init__(
        self, observations: Observations, settings: SearchSettings, context: Context
    ) -> None:
        self._joint = JointMaxProduct(iterations=settings.iterations, damping=_DAMPING)
        self._repairs = settings.repairs
        self.rows, self.observations = sample_rows(observations, _MAX_ENTRIES, context.seed)
        self.matrix = Matrix.of(self.observations)
        self.objective, self.context = settings.objective, context
        n_observed = max(self.matrix.n_entries(self.matrix.observed), 1)
        share = self.matrix.n_entries(self.matrix.ones) / n_observed
        self.density = float(np.clip(share, 1e-3, 0.9))
        nothing = np.zeros((0, self.matrix.ones.shape[1]))
        self.draft = self.cover(np.zeros((len(self.rows), 0)), nothing)
        """The result if the time limit ends before the first restart."""

    def cover(self, states: npt.ArrayLike, factors: npt.ArrayLike) -> Cover:
        """Build a cover of the searched rows."""
        return Cover.of(self.matrix, states, factors, self.objective)

    def score(self, cover: Cover) -> float:
        """Return the score of a cover; larger is better."""
        return cover.score(self.matrix)

    def first_guess(self, n_restarts: int, patience: int) -> Cover:
        """Double the number of factors until some are unused; return the cover without those."""
        largest = int(max(1, min(self.matrix.ones.shape)))
        size, cover = min(_FIRST_GUESS, largest), None
        kept = self.context.store.load("guess")
        if kept is not None:
            size, cover = kept.count("size", largest), self.cover_in(kept)
        while True:
            if kept is None:
                cover, _ = self.run(size, n_restarts, patience, cover)
                self.save("guess", cover, size=[size])
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
        """Return the best cover of at most ``max_components`` factors, and the score by restart.

        ``first`` is the cover after the first restart, if known; ``keep`` uses the store.
        """
        best, scores, alone = None, list[float](), dict[Start, float]()
        kept = self.context.store.load("restarts") if keep else None
        if kept is not None:
            best, scores = self.cover_in(kept), list(kept.numbers("scores"))
            pairs = zip(STARTS, kept.numbers("alone", len(STARTS), gaps=True), strict=True)
            alone = {start: score for start, score in pairs if not np.isnan(score)}
        try:
            while len(scores) < n_restarts and is_worthwhile(scores, patience):
                if best is not None:
                    best = self.restart(best, len(scores), max_components, alone, bar)
                else:
                    best = self.first_cover(max_components) if first is None else first
                    alone[STARTS[0]] = self.score(best)
                scores.append(self.score(best))
                if keep:
                    each = [alone.get(start, np.nan) for start in STARTS]
                    self.save("restarts", best, scores=scores, alone=each)
            assert best is not None
            best = prune(self.matrix, best, max_components, engine=self.context.engine)
        except TimeUpError:
            best = self._at_most(self.draft if best is None else best, max_components)
        return best, scores

    def first_cover(self, max_components: int) -> Cover:
        """Return the cover of the first restart."""
        return self.repair(self.start(STARTS[0], 0, max_components), 0, max_components)

    def restart(
        self, best: Cover, number: int, max_components: int, alone: dict[Start, float], bar: Any
    ) -> Cover:
        """Return the best cover after another restart.

        ``alone`` has the best score of each kind of start by itself, and is brought up to date.
        """
        kind = self.kind(number)
        if kind is None:
            kind = max((start for start in STARTS if start in alone), key=alone.__getitem__)
        self.show(bar, best)
        new = self.start(kind, number, max_components)
        both = combine(self.matrix, best, new, max_components, engine=self.context.engine)
        chosen = max((best, new, both), key=self.score)
        repaired = self.repair(chosen, number, max_components)
        alone[kind] = max(self.score(new), alone.get(kind, -np.inf))
        return repaired

    def show(self, bar: Any, best: Cover) -> None:
        """Show that another restart begins; raise `TimeUpError` if the time is over."""
        if bar is not None:
            bar.update(1)
            bar.set_postfix(causes=best.n_components, errors=best.errors(self.matrix))

    def _at_most(self, cover: Cover, max_components: int) -> Cover:
        """Drop the factors in excess that gain least."""
        excess = max(0, cover.n_components - max_components)
        order = np.argsort(cover.leave_one_out_gain(self.matrix), kind="stable")
        return cover.without(self.matrix, order[:excess].tolist())

    def save(self, name: str, cover: Cover, **numbers: list[Any]) -> None:
        """Store a cover and lists of numbers."""
        if self.context.job.is_cut_short:
            return  # a run without a limit would have come to another cover
        arrays = {key: np.array(values, np.float64) for key, values in numbers.items()}
        bits = {"states": cover.states, "factors": cover.factors}
        self.context.store.save(name, {**bits, **arrays})

    def cover_in(self, kept: Stored) -> Cover:
        """Return a cover that was stored."""
        states = kept.bits("states", (len(self.rows), None))
        shape = (states.shape[1], self.matrix.ones.shape[1])
        return self.cover(states, kept.bits("factors", shape))

    def kind(self, number: int) -> Start | None:
        """Return the kind of a start by its index; None for the kind that did best so far."""
        if number >= _TRIED_FIRST and number % 2:
            return None
        return STARTS[number % len(STARTS)]

    def start(self, start: Start, number: int, max_components: int) -> Cover:
        """Return a refined and pruned cover from one run."""
        size = int(np.ceil(start.excess * max_components)) + (_EXTRA if start.excess > 1 else 0)
        affordable = _MAX_PRODUCTS // (size * self.matrix.ones.shape[1])
        n_rows = len(self.rows)
        if affordable < min(n_rows, _FEWEST_ROWS):
            cover = self._linear_start(max_components, number)
        else:
            cover = self._joint_start(start, size, number, affordable)
        if not self.draft.n_components:
            self.draft = cover
        cover = refine(self.matrix, cover, engine=self.context.engine)
        cover = prune(self.matrix, cover, max_components, engine=self.context.engine)
        self.draft = max((self.draft, cover), key=self.score)
        return cover

    def repair(self, cover: Cover, number: int, max_components: int) -> Cover:
        """Merge factors, and replace weak factors by new ones for entries that are not covered."""
        size = max(2, max_components // 20)
        for attempt in range(self._repairs):
            cover = merge(self.matrix, cover, engine=self.context.engine)
            covered = cover.counts > 0
            rows = np.flatnonzero((self.matrix.ones & ~covered).any(axis=1))
            rows = rows[: max(1, _MAX_PRODUCTS // (size * covered.shape[1]))]
            if not len(rows) or not cover.n_components:
                break
            # what is covered already may be covered again: to the joint run it is unobserved
            found = pmp_factorize(
                Observations.of(
                    self.observations.take(rows),
                    missing=covered[rows],
                    row_ids=np.arange(len(rows)),
                ),
                size,
                self._joint,
                state_probability=_share(cover.states, self.matrix.weight),
                feature_probability=_share(cover.factors),
                flip_probability=0.02,
                seed=self.context.seed + 1_000_003 * number + attempt,
                engine=self.context.engine,
                progress=self.context.job,
            )
            states = np.zeros((len(self.rows), size), dtype=np.uint8)
            states[rows] = found.states
            more = cover.with_bits(self.matrix, states, found.features)
            both = combine(self.matrix, cover, more, max_components, engine=self.context.engine)
            if both.score(self.matrix) <= cover.score(self.matrix) + 1e-6:
                break
            cover = both
        return cover

    def _joint_start(self, start: Start, size: int, number: int, n_rows: int) -> Cover:
        chosen = self._rows_of_start(number, n_rows)
        rows = self.observations.take(chosen)
        if self.matrix.weight is not None:  # a row that was drawn twice has noise of its own
            rows = Observations.of(rows, row_ids=np.arange(len(chosen)))
        found = pmp_factorize(
            rows,
            size,
            self._joint,
            density=self.density,
            flip_probability=start.flip_probability,
            seed=self.context.seed + 1_000_003 * number,
            engine=self.context.engine,
            progress=self.context.job,
        )
        states = np.zeros((len(self.rows), size), dtype=np.uint8)
        states[chosen] = found.states
        return self.cover(states, found.features)

    def _rows_of_start(self, number: int, n_rows: int) -> npt.NDArray[np.int64]:
        """Return the rows for a start: all, or its own sample if there are too many.

        Joint max-product has no weights. So about as many rows as there are are drawn with
        replacement, in proportion to their weights.
        """
        generator, weight = np.random.default_rng((self.context.seed, number)), self.matrix.weight
        everything = len(self.rows)
        if weight is not None:
            enough = max(everything, min(round(weight.sum()), ENOUGH_ROWS))
            return draw_rows(weight, min(enough, n_rows), generator)
        if n_rows < everything:
            return np.sort(generator.permutation(everything)[:n_rows])
        return np.arange(everything)

    def _linear_start(self, max_components: int, number: int) -> Cover:
        """Threshold a non-negative factorization, for data too wide for a joint run."""
        from sklearn.decomposition import NMF
        from sklearn.exceptions import ConvergenceWarning

        size = min(max_components, *self.matrix.ones.shape)
        model = NMF(
            size,
            init="nndsvda" if number == 0 else "random",
            max_iter=100,
            random_state=self.context.seed + number,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # refinement follows anyway
            left = model.fit_transform(self._weighted_csr())
        if self.matrix.weight is not None:
            left /= np.sqrt(self.matrix.weight)[:, None]
        right = model.components_
        scale = np.sqrt(
            np.maximum(right.max(1), 1e-12) / np.maximum(left.max(0), 1e-12)
        )  # both factors get the same largest entry
        return self.cover(left * scale >= 0.5, right / scale[:, None] >= 0.5)

    def _weighted_csr(self) -> Any:
        """Return the ones as sparse rows, scaled so that squared errors count by weight."""
        plain = self.observations.to_csr().astype(np.float64)
        if self.matrix.weight is not None:
            plain.data *= np.repeat(np.sqrt(self.matrix.weight), np.diff(plain.indptr))
        return plain


_COVERS = 6
"""Number of covers of one restart of `ErrorSearch`."""

_NEW = 2
"""Number of new starts among the covers of every later restart; five factors recombine poorly."""

_MOST_COVERS = 10
"""Largest number of good covers that are kept and recombined."""

_ALIKE = 0.1
"""Covers that differ in fewer entries than this share of the wrong ones are alike: one is kept."""


class ErrorSearch(FactorSearch):
    """A search for the smallest number of wrong entries.

    Joint runs look for factors supported by the data. For a given number of factors, starts from
    linear factorizations and from columns, with factors replaced a few at a time, are quicker and
    end with fewer errors. The best covers are kept, and pairs of them are recombined: good covers
    have many factors in common, and each has some that the others miss.
    """

    def __init__(
        self, observations: Observations, settings: SearchSettings, context: Context
    ) -> None:
        super().__init__(observations, settings, context)
        self.covers: list[Cover] = []
        """Good covers that are not alike, best first."""
        gains = coverage_gain(self.matrix, self.draft.rates, settings.objective)
        self._gains = self.matrix.weighted(gains)

    def first_cover(self, max_components: int) -> Cover:
        """Make the first covers; return the best."""
        return self._best_of_more(0, max_components)

    def restart(
        self, best: Cover, number: int, max_components: int, alone: dict[Start, float], bar: Any
    ) -> Cover:
        """Make new covers and recombine good ones; return the best."""
        self.show(bar, best)
        return self._best_of_more(_COVERS * number, max_components)

    def save(self, name: str, cover: Cover, **numbers: list[Any]) -> None:
        """Store all good covers side by side, and their numbers of factors."""
        states = np.hstack([one.states for one in self.covers])
        together = self.cover(states, np.vstack([one.factors for one in self.covers]))
        super().save(name, together, sizes=[one.n_components for one in self.covers], **numbers)

    def cover_in(self, kept: Stored) -> Cover:
        """Restore all good covers; return the best."""
        together = super().cover_in(kept)
        ends = np.cumsum(kept.sizes("sizes", together.n_components))[:-1]
        parts = np.split(together.states, ends, axis=1), np.split(together.factors, ends)
        self.covers = [self.cover(*part) for part in zip(*parts, strict=True)]
        return self.covers[0]

    def _best_of_more(self, first: int, max_components: int) -> Cover:
        """Make six covers, numbered from ``first``; return the best of all."""
        for number in range(first, first + _COVERS):
            with one_blas_thread():
                if number >= _COVERS and number % _COVERS >= _NEW:
                    cover = self._recombined(max_components, number)
                elif number % 2:
                    cover = self._column_start(max_components, number)
                else:
                    cover = self._linear_start(max_components, number)
            key = NoiseKey(self.context.seed, number)
            new = reduce_errors(self.matrix, cover, max_components, key, engine=self.context.engine)
            self._keep(max((cover, new), key=self.score))  # of equal errors, that with fewer bits
            self.draft = self.covers[0]
            self.context.job.check()
        return self.covers[0]

    def _keep(self, cover: Cover) -> None:
        """Add a cover to the good ones, unless a better one is like it; drop the worst."""
        alike = [one for one in self.covers if self._are_alike(one, cover)]
        score = self.score(cover)
        if all(score >= self.score(one) for one in alike):
            others = [one for one in self.covers if not any(one is other for other in alike)]
            others = sorted([*others, cover], key=self.score, reverse=True)
            self.covers = others[:_MOST_COVERS]

    def _are_alike(self, one: Cover, other: Cover) -> bool:
        differs = ((one.counts > 0) != (other.counts > 0)) & self.matrix.observed
        return self.matrix.n_entries(differs) <= _ALIKE * one.errors(self.matrix)

    def _recombined(self, max_components: int, number: int) -> Cover:
        """Take half of the factors of a good cover, and those of another one that add most."""
        generator = np.random.default_rng((self.context.seed, number))
        order = generator.permutation(len(self.covers))
        one, other = self.covers[order[0]], self.covers[order[-1]]
        half = (max_components + generator.integers(2)) // 2
        taken = generator.permutation(one.n_components)[:half]
        states, factors = one.states[:, taken], one.factors[taken]
        covered = self.cover(states, factors).counts > 0
        free = np.where(covered, np.float32(0), self._gains)
        added: list[int] = []
        while len(taken) + len(added) < max_components and other.n_components:
            gains = ((other.states.T.astype(np.float32) @ free) * other.factors).sum(1)
            best = int(gains.argmax())
            if gains[best] <= 0:
                break
            added.append(best)
            free[np.ix_(other.states[:, best] > 0, other.factors[best] > 0)] = 0
        return self.cover(
            np.hstack([states, other.states[:, added]]), np.vstack([factors, other.factors[added]])
        )

    def _column_start(self, max_components: int, number: int) -> Cover:
        """Choose columns as memberships; every other column gets the chosen one that fits it best.

        In a matrix with more columns than rows, rows are chosen as factors. With nearly as many
        factors as columns this start has few errors, and other starts have many.
        """
        ones, weights = self.matrix.ones, self._gains
        is_wide = ones.shape[1] > len(ones)
        if is_wide:
            ones, weights = ones.T, weights.T
        # (chosen, column): errors fewer than without any factor
        gains = np.maximum(ones.T.astype(np.float32) @ weights, 0)
        generator, n_columns = np.random.default_rng((self.context.seed, number)), len(gains)
        chosen: list[int] = []
        best, is_free = np.zeros(n_columns, dtype=np.float32), np.ones(n_columns, dtype=bool)
        for _ in range(min(max_components, n_columns)):
            total = np.where(is_free, np.maximum(gains, best).sum(1), -np.inf)
            if number > 1:  # the first start of this kind is greedy, others leave half to chance
                total[generator.random(n_columns) < 0.5] -= total.max() + 1
            chosen.append(int(total.argmax()))
            is_free[chosen[-1]], best = False, np.maximum(best, gains[chosen[-1]])
        parent = gains[chosen].argmax(0)
        factors = (np.arange(len(chosen))[:, None] == parent) & (best > 0)
        states = ones[:, chosen]
        return self.cover(factors.T, states.T) if is_wide else self.cover(states, factors)


def _share(bits: BinaryArray, weight: FloatArray | None = None) -> float:
    """Return the share of ones, kept away from 0 and 1; rows may have weights."""
    return float(np.clip(np.average(bits.mean(1), weights=weight), 1e-3, 0.5))
