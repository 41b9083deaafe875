"""Restarts of the search for factors: where each begins, and how what it found is repaired."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.progress import Job
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, NoiseKey
from noisyor.engines.threads import one_blas_thread
from noisyor.inference.joint import JointMaxProduct, factorize
from noisyor.search.cover import Cover, Matrix, Objective
from noisyor.search.moves import combine, merge, prune, reduce_errors, refine
from noisyor.search.restarts import draw_rows, sample_rows

__all__ = ["ENOUGH_ROWS", "STARTS", "ErrorStarts", "Start", "Starts"]


class Start(NamedTuple):
    """A run of joint max-product: assumed flip probability, and factors per factor asked for."""

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
"""Kinds of starts tried before the one that did best gets every second turn."""

_ITERATIONS, _DAMPING = 200, 0.6

_MAX_ENTRIES = 2**18
"""Above this many entries, a random subset of the rows is searched."""

_MAX_PRODUCTS = 2**26
"""Rows x factors x columns of a joint run; its memory is eight bytes for each."""

_REPAIRS = 4
"""Searches for factors of what a cover leaves over, at most, after each restart."""

_FEWEST_ROWS = 100
"""A joint run on fewer rows than this tells little; a linear factorisation is used then."""

ENOUGH_ROWS = 1000
"""Rows that cost so little that repetitions are kept: each of them tries noise of its own."""

_EXTRA = 8
"""Further factors of a start with more than asked for: of a handful, half again is not many."""


class Starts:
    """The searched rows, also as a dense matrix, and covers of them to begin with."""

    def __init__(
        self,
        observations: Observations,
        objective: Objective,
        seed: int,
        engine: EngineLike,
        job: Job,
    ) -> None:
        self.rows, self.observations = sample_rows(observations, _MAX_ENTRIES, seed)
        self.matrix = Matrix.of(self.observations)
        self.objective, self.seed, self.engine = objective, seed, engine
        self.job = job
        share = self.matrix.n_entries(self.matrix.ones) / max(
            self.matrix.n_entries(self.matrix.observed), 1
        )
        self.density = float(np.clip(share, 1e-3, 0.9))
        self.draft = self.cover(
            np.zeros((len(self.rows), 0)), np.zeros((0, self.matrix.ones.shape[1]))
        )
        """What there is if the time is over before the first restart is."""

    def cover(self, states: npt.ArrayLike, factors: npt.ArrayLike) -> Cover:
        """A cover of the searched rows."""
        return Cover.of(self.matrix, states, factors, self.objective)

    def score(self, cover: Cover) -> float:
        """How good a cover is; larger is better."""
        return cover.score(self.matrix)

    def __getstate__(self) -> dict[str, Any]:
        # Who computes a start elsewhere has a clock of its own.
        return {**vars(self), "job": Job(["search"], show=False)}

    def kind(self, number: int) -> Start | None:
        """Kind of the start with a number; None for the one that did best so far."""
        if number >= _TRIED_FIRST and number % 2:
            return None
        return STARTS[number % len(STARTS)]

    def start(self, start: Start, number: int, max_components: int) -> Cover:
        """A refined and pruned cover from one run."""
        size = int(np.ceil(start.excess * max_components)) + (_EXTRA if start.excess > 1 else 0)
        affordable = _MAX_PRODUCTS // (size * self.matrix.ones.shape[1])
        n_rows = len(self.rows)
        if affordable < min(n_rows, _FEWEST_ROWS):
            cover = self._linear_start(max_components, number)
        else:
            cover = self._joint_start(start, size, number, affordable)
        if not self.draft.n_components:
            self.draft = cover
        cover = refine(self.matrix, cover, engine=self.engine)
        cover = prune(self.matrix, cover, max_components, engine=self.engine)
        self.draft = max((self.draft, cover), key=self.score)
        return cover

    def repair(self, cover: Cover, number: int, max_components: int) -> Cover:
        """Merge factors, and look for factors of what is not covered; they replace lesser ones."""
        size = max(2, max_components // 20)
        for attempt in range(_REPAIRS):
            cover = merge(self.matrix, cover, engine=self.engine)
            covered = cover.counts > 0
            rows = np.flatnonzero((self.matrix.ones & ~covered).any(axis=1))
            rows = rows[: max(1, _MAX_PRODUCTS // (size * covered.shape[1]))]
            if not len(rows) or not cover.n_components:
                break
            # what is covered already may be covered again: to the joint run it is unobserved
            found = factorize(
                Observations.of(
                    self.observations.take(rows),
                    missing=covered[rows],
                    row_ids=np.arange(len(rows)),
                ),
                size,
                JointMaxProduct(iterations=_ITERATIONS, damping=_DAMPING),
                state_probability=_share(cover.states, self.matrix.weight),
                feature_probability=_share(cover.factors),
                flip_probability=0.02,
                seed=self.seed + 1_000_003 * number + attempt,
                engine=self.engine,
                progress=self.job,
            )
            states = np.zeros((len(self.rows), size), dtype=np.uint8)
            states[rows] = found.states
            more = cover.with_bits(self.matrix, states, found.features)
            both = combine(self.matrix, cover, more, max_components, engine=self.engine)
            if both.score(self.matrix) <= cover.score(self.matrix) + 1e-6:
                break
            cover = both
        return cover

    def _joint_start(self, start: Start, size: int, number: int, n_rows: int) -> Cover:
        chosen = self._rows_of_start(number, n_rows)
        rows = self.observations.take(chosen)
        if self.matrix.weight is not None:  # a row that was drawn twice has noise of its own
            rows = Observations.of(rows, row_ids=np.arange(len(chosen)))
        found = factorize(
            rows,
            size,
            JointMaxProduct(iterations=_ITERATIONS, damping=_DAMPING),
            density=self.density,
            flip_probability=start.flip_probability,
            seed=self.seed + 1_000_003 * number,
            engine=self.engine,
            progress=self.job,
        )
        states = np.zeros((len(self.rows), size), dtype=np.uint8)
        states[chosen] = found.states
        return self.cover(states, found.features)

    def _rows_of_start(self, number: int, n_rows: int) -> npt.NDArray[np.int64]:
        """Rows that a start sees: all if they are at most ``n_rows``, else rows of its own.

        Joint max-product knows no weights. So rows with weights are drawn by them, with repetition,
        and about as many as there are: more would cost time and gain nothing.
        """
        generator, weight = np.random.default_rng((self.seed, number)), self.matrix.weight
        everything = len(self.rows)
        if weight is not None:
            enough = max(everything, min(round(weight.sum()), ENOUGH_ROWS))
            return draw_rows(weight, min(enough, n_rows), generator)
        if n_rows < everything:
            return np.sort(generator.permutation(everything)[:n_rows])
        return np.arange(everything)

    def _linear_start(self, max_components: int, number: int) -> Cover:
        """Threshold a non-negative factorisation, for data too wide for a joint run."""
        from sklearn.decomposition import NMF
        from sklearn.exceptions import ConvergenceWarning

        size = min(max_components, *self.matrix.ones.shape)
        model = NMF(
            size,
            init="nndsvda" if number == 0 else "random",
            max_iter=100,
            random_state=self.seed + number,
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
        """The ones as sparse rows; squared errors of these are those of rows with weights."""
        plain = self.observations.to_csr().astype(np.float64)
        if self.matrix.weight is not None:
            plain.data *= np.repeat(np.sqrt(self.matrix.weight), np.diff(plain.indptr))
        return plain


class ErrorStarts(Starts):
    """The same for fewest wrong entries.

    Joint runs look for factors supported by the data. For a given number of factors, starts from
    linear factorisations and factors replaced a few at a time are quicker and end with fewer
    errors.
    """

    def kind(self, number: int) -> Start | None:
        """There is one kind only."""
        return STARTS[0]

    def start(self, start: Start, number: int, max_components: int) -> Cover:
        """The cover of a linear factorisation, with factors replaced."""
        with one_blas_thread():
            cover = self._linear_start(max_components, number)
        return self._reduced(cover, 2 * number, max_components)

    def repair(self, cover: Cover, number: int, max_components: int) -> Cover:
        """Replace factors of what was put together; the first start is alone."""
        return self._reduced(cover, 2 * number + 1, max_components) if number else cover

    def _reduced(self, cover: Cover, step: int, max_components: int) -> Cover:
        key = NoiseKey(self.seed, step)
        new = reduce_errors(self.matrix, cover, max_components, key, engine=self.engine)
        return max((cover, new), key=self.score)  # of equal errors, that with fewer bits


def _share(bits: BinaryArray, weight: FloatArray | None = None) -> float:
    """Share of ones, kept away from 0 and 1; rows may have weights."""
    return float(np.clip(np.average(bits.mean(1), weights=weight), 1e-3, 0.5))
