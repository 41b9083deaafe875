"""Which way to describe a table of many rows: asked of rows that were set aside.

A search for Boolean factors is best where factors draw the table, and takes long where they do not.
Elsewhere causes that start from a linear factorisation are as good and take seconds; so do classes
of a mixture, of which each row has one. One quick start of the search and a few sizes of the others
tell which it is, and how many causes there are.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from noisyor._util.arrays import AnyArray, FloatArray
from noisyor._util.progress import TimeUpError, progress_bar
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.engines.threads import one_blas_thread
from noisyor.inference.likelihood import log_probability
from noisyor.inference.max_product import MaxProduct
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.recipes.job import Work
from noisyor.learning.recipes.number import Choice, fewest, mean_and_error, set_aside
from noisyor.metrics import independent_score
from noisyor.model.builders import bipartite
from noisyor.model.graph import Network
from noisyor.search.cover import Cover, ErrorRates, Matrix, error_rates
from noisyor.search.factor_start import start_from_factors
from noisyor.search.factors import FoundFactors, search_factors
from noisyor.search.mixtures.learn import learn_mixture
from noisyor.search.mixtures.start import start_from_mixture
from noisyor.search.restarts import Keeper, numbers_in, sample_rows
from noisyor.search.topic_start import start_from_topics

__all__ = [
    "Way",
    "by_gibbs",
    "causes_by_factorisation",
    "choose_way",
    "is_nearly_exact",
    "one_start",
]

_NEARLY_EXACT = ErrorRates(false_negative=0.15, false_positive=0.05)
"""Error rates of a cover up to which a table is taken to be made of factors."""

_FEW = 0.5
"""Factors, for each column, up to which they are thought to say something about it."""

_DRAWN = ErrorRates(false_negative=0.15, false_positive=0.1)
"""The same for causes."""

_MOST_ONES = 0.6
"""Share of the ones that factors or causes have to draw: where ones are rare, the rate of those
that come on by themselves is small whatever is drawn."""

_ROWS_OF_START = 500
"""Rows that one quick start of the search sees, at most."""

_ENTRIES_OF_START = 2**18
"""Entries that it sees, and that a linear factorisation does, at most."""

_MAX_ENTRIES = 2**22
"""Entries that Gibbs sampling looks at, at most, to compare sizes."""

_SWEEPS = 30
"""Rounds of Gibbs sampling of a size that is tried."""

_ROUNDS = 80
"""Rounds of a mixture that is only compared."""

_MOST = {"causes": 128, "classes": 256}
"""Sizes that are tried, at most."""

_SMALL = 4
"""After so many sizes one that does not help ends the doubling, before that two in a row do."""

_HELP = 0.02
"""Share of the gain on independent columns from which a size is said to help."""

_ERRORS, _FAR = 2.0, 4.0
"""Standard errors by which the search, or classes, must be better than causes to be preferred; and
by which one of causes and classes is far behind the other."""


class Way(NamedTuple):
    """How to describe a table.

    ``name``: by the ``"search"`` for factors, by ``"causes"`` from a linear factorisation, or by
    ``"classes"``. ``number`` of them, and a ``network`` that was learned from the rows that were
    not set aside; None if the search has to say. ``scores`` are the best of each way, as a mapping
    that JSON can hold.
    """

    name: Literal["search", "causes", "classes"]
    number: Choice | None = None
    network: Network | None = None
    scores: dict[str, float] | None = None


def choose_way(rows: Observations, work: Work) -> Way:
    """The way that gives rows set aside a high log p; causes, unless another is clearly better."""
    seed, engine = work.options.seed, work.engine
    rest, judges = set_aside(rows, seed)
    tried = _Tried(rest, judges, work)
    try:
        found = one_start(rest, "auto", work, keeper=tried.under("start"))
        if is_nearly_exact(found):
            return Way("search")
        tried.sizes()
        searched = by_gibbs(found, rest, seed=seed, engine=engine)
        of_search = log_probability(searched, judges, seed=seed, engine=engine).per_row
    except TimeUpError:
        of_search = None
    return tried.verdict(of_search)


def one_start(
    rows: Observations,
    n_components: int | Literal["auto"],
    work: Work,
    *,
    keeper: Keeper | None = None,
) -> FoundFactors:
    """What one start of the search finds in some of the rows."""
    n_rows = min(_ROWS_OF_START, max(1, _ENTRIES_OF_START // rows.n_visible))
    seed = work.options.seed
    return search_factors(
        sample_rows(rows, n_rows * rows.n_visible, seed)[1],
        n_components,
        n_restarts=1,
        patience=1,
        seed=seed,
        engine=work.engine,
        progress=work.job,
        keeper=keeper,
    )


def is_nearly_exact(found: FoundFactors) -> bool:
    """Whether factors draw the rows that were searched, but for few entries.

    As many factors as columns draw any table, and say nothing.
    """
    n_components, n_visible = found.factors.shape
    if n_components > _FEW * n_visible:
        return False
    cover = Cover.of(found.matrix, found.states, found.factors)
    return _draws_well(cover, found.matrix, found.rates, _NEARLY_EXACT)


def _draws_well(cover: Cover, matrix: Matrix, rates: ErrorRates, limits: ErrorRates) -> bool:
    """Whether a cover draws most ones of a matrix, with rates of errors within the limits.

    A factor of a single column says no more than how common the column is.
    """
    single = np.flatnonzero(cover.factors.sum(axis=1) < 2)
    counts = cover.without(matrix, single.tolist()).counts
    drawn = matrix.n_entries(matrix.ones & (counts > 0))
    few_errors = all(rate <= limit for rate, limit in zip(rates, limits, strict=True))
    return few_errors and drawn >= _MOST_ONES * matrix.n_entries(matrix.ones)


def by_gibbs(found: FoundFactors, rows: Observations, *, seed: int, engine: EngineLike) -> Network:
    """A network of the factors that were found, its parameters learned from rows."""
    network = bipartite(rows.n_visible, max(1, len(found.factors)), noise="per_visible")
    _, some = sample_rows(rows.unique_rows()[0], _MAX_ENTRIES, seed)
    start = start_from_factors(network, found)
    return learn_by_gibbs(start, some, sweeps=_SWEEPS, seed=seed, engine=engine)


def causes_by_factorisation(
    rows: Observations, n_components: int, *, seed: int, engine: EngineLike
) -> Network:
    """Causes that start from a linear factorisation, learned by Gibbs sampling."""
    merged = rows.unique_rows()[0]
    _, few = sample_rows(merged, _ENTRIES_OF_START, seed)
    with one_blas_thread():
        network = start_from_topics(few, n_components, seed=seed)
    _, some = sample_rows(merged, _MAX_ENTRIES, seed)
    return learn_by_gibbs(network, some, sweeps=_SWEEPS, seed=seed, engine=engine)


class _Under:
    """A keeper that keeps everything below a name, so that two searches do not meet."""

    def __init__(self, keeper: Keeper, name: str) -> None:
        self._keeper, self._name = keeper, name

    def load(self, name: str) -> dict[str, AnyArray] | None:
        return self._keeper.load(f"{self._name} {name}")

    def save(self, name: str, arrays: dict[str, AnyArray]) -> None:
        self._keeper.save(f"{self._name} {name}", arrays)


class _Tried:
    """Log p of rows set aside by size, for causes and for classes; what is done is kept on disk."""

    def __init__(self, rest: Observations, judges: Observations, work: Work) -> None:
        self.rest, self.judges, self.work = rest, judges, work
        self.scores: dict[str, dict[int, FloatArray]] = {name: {} for name in _MOST}
        self.networks: dict[tuple[str, int], Network] = {}
        self.independent = independent_score(rest, judges).per_row

    def under(self, name: str) -> Keeper | None:
        """Where something else is kept, under a name."""
        return None if self.work.keeper is None else _Under(self.work.keeper, name)

    def sizes(self) -> None:
        """1, 2, 4, ... causes and classes, and a number between the one chosen and its half.

        Either ends where more do not help, or where it is far behind the other.
        """
        most = {"causes": self.rest.n_visible, "classes": self.rest.n_rows}
        going, size, without = list(_MOST), 1, self.judges.mean(self.independent)
        with progress_bar(None, "sizes", "sizes", self.work.job) as bar:
            while going:
                for name in going:
                    if self._learn(name, size):
                        bar.update(1)
                best = {name: self._best(name) for name in going}
                bar.set_postfix(
                    largest=size, **{name: f"{self.judges.mean(best[name]):.3f}" for name in going}
                )
                size *= 2
                going = [
                    name
                    for name in going
                    if size <= min(_MOST[name], most[name], self.rest.n_rows)
                    and self._helped(name, without)
                    and not self._is_far_behind(name, best)
                ]
            best = {name: self._best(name) for name in self.scores}
            for name, scores in self.scores.items():
                between = 3 * self._choice(name).n_components // 4
                if between > 1 and between not in scores and not self._is_far_behind(name, best):
                    self._learn(name, between)

    def _helped(self, name: str, without: float) -> bool:
        """Whether the last size of a way, or if it is small the one before, was worthwhile."""
        means = [self.judges.mean(per_row) for per_row in self.scores[name].values()]
        before = 2 if len(means) <= _SMALL else 1
        best = max([without, *means[:-before]])
        return len(means) <= before or max(means) > best + _HELP * (max(means) - without)

    def _is_far_behind(self, name: str, best: dict[str, FloatArray]) -> bool:
        """Whether the other is far better; of a few causes and as many classes nobody can tell."""
        if len(self.scores[name]) < _SMALL:
            return False
        return any(self._is_better(other, best[name], _FAR) for other in best.values())

    def verdict(self, of_search: FloatArray | None) -> Way:
        """The way to go, by what each would lead to; the search if there was no time for others."""
        choices = {name: self._choice(name) for name, scores in self.scores.items() if scores}
        best = {name: self.scores[name][one.n_components] for name, one in choices.items()}
        if not best:
            return Way("search")
        if of_search is not None:
            best["search"] = of_search
        scores = {name: self.judges.mean(per_row) for name, per_row in best.items()}
        name = "causes" if "causes" in best else "classes"
        for other in ("classes", "search"):
            if other in best and self._is_better(best[other], best[name], _ERRORS):
                name = other
        if name == "search":
            return Way("search", scores=scores)
        number = choices[name]
        network = self.networks[name, number.n_components]
        if name == "causes" and self._draws(network):
            return Way("search", scores=scores)
        return Way(
            "causes" if name == "causes" else "classes",
            number,
            self.networks[name, number.n_components],
            scores,
        )

    def _draws(self, network: Network) -> bool:
        """Whether causes are factors that draw the rows set aside: then the search is exact.

        One start of the search may have missed them.
        """
        if network.n_hidden > _FEW * network.n_visible or self.work.job.is_over:
            return False
        states = MaxProduct().posterior(network, self.judges, engine=self.work.engine).states
        factors = (network.failure_probability < 0.5).astype(np.uint8)
        matrix = Matrix.of(self.judges)
        cover = Cover.of(matrix, states.toarray(), factors)
        return _draws_well(cover, matrix, error_rates(matrix, cover.counts), _DRAWN)

    def _is_better(self, one: FloatArray, other: FloatArray, n_errors: float) -> bool:
        mean, error = mean_and_error(self.judges, one - other)
        return mean > n_errors * error

    def _choice(self, name: str) -> Choice:
        return fewest(self.scores[name], self.independent, self.judges)

    def _best(self, name: str) -> FloatArray:
        return max(self.scores[name].values(), key=self.judges.mean)

    def _learn(self, name: str, size: int) -> bool:
        """Try a size, unless what it gave is on disk; whether there was something to do."""
        graph = bipartite(
            self.rest.n_visible,
            size,
            noise="per_visible",
            prior_probability=0.5 / size,
            alternatives=np.zeros(size, np.int32) if name == "classes" else None,
        )
        kept = self._load(f"{name} {size}")
        is_new = kept is None
        if kept is None:
            network, per_row = (self._causes if name == "causes" else self._classes)(size)
            self.work.job.check()  # what ran out of time is not what it could be
            kept = {"theta": network.theta, "per_row": per_row}
            self._save(f"{name} {size}", kept)
        self.scores[name][size] = np.array(numbers_in(kept, "per_row", self.judges.n_rows))
        theta = np.array(numbers_in(kept, "theta", graph.n_params))
        self.networks[name, size] = graph.with_theta(theta)
        return is_new

    def _classes(self, size: int) -> tuple[Network, FloatArray]:
        mixture = learn_mixture(
            self.rest,
            size,
            smoothing=1.0,
            max_rounds=_ROUNDS,
            seed=self.work.options.seed,
            progress=self.work.job,
        )
        return start_from_mixture(mixture), mixture.log_probability(self.judges)

    def _causes(self, size: int) -> tuple[Network, FloatArray]:
        seed, engine = self.work.options.seed, self.work.engine
        network = causes_by_factorisation(self.rest, size, seed=seed, engine=engine)
        return network, log_probability(network, self.judges, seed=seed, engine=engine).per_row

    def _load(self, name: str) -> dict[str, AnyArray] | None:
        return None if self.work.keeper is None else self.work.keeper.load(name)

    def _save(self, name: str, arrays: dict[str, AnyArray]) -> None:
        if self.work.keeper is not None:
            self.work.keeper.save(name, arrays)
