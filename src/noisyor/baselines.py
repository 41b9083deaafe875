"""Three simple models of binary rows, to compare a noisy-OR network with.

Each has a method ``log_probability(X)``, which returns exact log-probabilities of rows with missing
values summed out. Compare them on held-out rows with `noisyor.estimate_evidence` of a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.progress import Progress, TimeUpError, progress_bar
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, POSITIVE, Rule, check_choice, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.threads import one_blas_thread, resolve_threads, run_blocks

__all__ = ["chow_liu", "independent_columns", "learn_mixture"]

_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """A model in which every column is on by itself.

    Attributes
    ----------
    probability : (n_visible,) probability that each column is on.
    """

    probability: FloatArray

    def log_probability(self, X: Any) -> FloatArray:
        """Return the log-probability of every row (n_rows,); missing values are summed out."""
        rows = Observations.of(X, n_visible=len(self.probability))
        on, off = np.log(self.probability), np.log1p(-self.probability)
        total = off.sum() + rows.to_csr() @ (on - off) - rows.missing_csr() @ off
        return np.asarray(total, dtype=np.float64)


def independent_columns(X: Any) -> IndependentColumns:
    """Count how often each column is on.

    One row is added to the training rows in which every column is half on, so that a column that
    was never on does not make a row impossible. Missing values do not count; a row of weight w
    counts as w rows.

    Parameters
    ----------
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> nor.baselines.independent_columns(np.array([[1, 0], [1, 0], [0, 0]])).probability
    array([0.625, 0.125])
    """
    rows = Observations.of(X)
    weight = rows.row_weights
    seen = rows.total_weight - rows.missing_csr().T @ weight
    return IndependentColumns((rows.to_csr().T @ weight + 0.5) / (seen + 1.0))


# ---------------------------------------------------------------------------------------------
# Mixture of Bernoullis
# ---------------------------------------------------------------------------------------------

_MAX_PROBABILITY = 1.0 - 1e-6
"""Largest probability that a class may give a column; one minus it is the smallest."""

_MAX_SHARE_SMOOTHING = 2.0
"""Largest number of pseudo-rows in the share of a class."""

_BLOCK, _MIN_ROWS_PER_COLUMN, _DENSE = 2**17, 0.25, 0.03
"""Rows times classes of a block, whose responsibilities fit into a cache; least number of rows of a
block per column; share of ones above which products of dense matrices are faster."""

_SINGLE_PRECISION = 2**17
"""Rows times classes from which EM runs in single precision, twice as fast: its sums are averages
over many rows. Log-probabilities that users see always have double precision."""

_HELD_OUT = 0.1
"""Share of the rows held out to choose the number of classes."""

_TOLERANCE = 1e-5
"""Gain in nats per row below which EM counts as converged."""

_MAX_CLASSES = 512
"""Number of classes at which the search for this number ends."""

_SMOOTHINGS = (1.0, 10.0)
"""Pseudo-rows that are compared with the number of classes; sparse text needs many."""

_MANY = 32
"""With this many classes one start is enough: with few classes the optima of different starts
differ more."""

_MAX_STARTS, _START_ROUNDS, _OWN_SHARE = 8, 10, 0.3
"""Starts for few classes, EM rounds of each before the best is chosen, and the weight of the random
row that a class starts from; the rest is the average of all rows."""

_SPLIT, _MIN_SPLIT, _SPLIT_ROUNDS, _POWER_ROUNDS = 0.7, 0.01, 15, 12
"""Standard deviations by which the halves of a class are moved apart, the smallest probability that
a half starts with, EM rounds between two splits, and rounds of the power method."""

_SMOOTHING = Rule(lambda value: value == "auto" or POSITIVE.valid(value), "positive or 'auto'")


@dataclass(frozen=True, eq=False)
class BernoulliMixture:
    """A mixture of classes within which columns are independent.

    Attributes
    ----------
    share : (n_classes,) probability of each class.
    probability : (n_classes, n_visible) probability of each column given the class.
    smoothing, rounds : pseudo-rows per class and rounds of EM that the mixture was learned with.
    """

    share: FloatArray
    probability: FloatArray
    smoothing: float = 0.0
    rounds: int = 0

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.share)

    def log_probability(self, X: Any) -> FloatArray:
        """Return the log-probability of every row (n_rows,); missing values are summed out."""
        rows = Observations.of(X, n_visible=self.probability.shape[1])
        return _log_probability(self, _split_rows(rows, self.n_classes))

    def responsibilities(self, X: Any) -> FloatArray:
        """Return the probability of every class given each row (n_rows, n_classes)."""
        rows = Observations.of(X, n_visible=self.probability.shape[1])
        blocks, logs = _split_rows(rows, self.n_classes), _logs(self, np.float64)
        return np.concatenate(_map_blocks(lambda block: _posterior(logs, block)[0], blocks))


def learn_mixture(
    X: Any,
    n_components: int | Literal["auto"] = "auto",
    *,
    smoothing: float | Literal["auto"] = "auto",
    max_rounds: int = 300,
    start: Literal["rows", "split"] = "rows",
    seed: int = 0,
    progress: Progress = False,
) -> BernoulliMixture:
    """Learn a mixture of Bernoullis by expectation-maximization (EM).

    Parameters
    ----------
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes. A row of weight w
        counts as w rows; NaN is missing.
    n_components : number of classes. ``"auto"`` doubles it until the log-probability of a tenth of
        the rows, which is held out, no longer rises, and then learns the best number from all rows.
    smoothing : pseudo-rows added to every class. They hold the average of each column, scaled by
        how full the rows of the class are. ``"auto"`` is 1, or 1 or 10, whichever the held-out rows
        prefer, if they also choose the number of classes.
    max_rounds : largest number of EM rounds.
    start : ``"rows"`` places every class near a random row. ``"split"`` grows the mixture from one
        class: classes are split along their direction of largest variance. It uses no random
        numbers, so that seeds make no difference.
    seed : seed of the rows that classes start from.
    progress : show a progress bar; None shows it on a terminal only.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> mixture = nor.baselines.learn_mixture(X, 2)
    >>> mixture.share.round(1), bool(np.ptp(mixture.probability, axis=0).min() > 0.9)
    (array([0.5, 0.5]), True)
    """
    COUNT_OR_AUTO.check("n_components", n_components)
    COUNT.check("max_rounds", max_rounds)
    _SMOOTHING.check("smoothing", smoothing)
    check_choice("start", start, ("rows", "split"))
    seed, rows = check_seed(seed), Observations.of(X)
    fixed = _SMOOTHINGS[0] if isinstance(smoothing, str) else smoothing
    with progress_bar(None, "mixture", "rounds", progress) as bar:
        if isinstance(n_components, str):
            training, validation = rows, rows
            if rows.n_rows > 1:
                training, validation = rows.split(1.0 - _HELD_OUT, seed)
            learner = _Learner(training, max_rounds, start, seed, bar)
            smoothings = _SMOOTHINGS if isinstance(smoothing, str) else (smoothing,)
            n_components, fixed = _best_size(learner, validation, smoothings)
        return _Learner(rows, max_rounds, start, seed, bar).learn(n_components, fixed)


def _best_size(
    learner: _Learner, validation: Observations, smoothings: Sequence[float]
) -> tuple[int, float]:
    """Try 1, 2, 4, ... classes until two in a row gain nothing; return best size and smoothing."""
    # More smoothings, and rounds that end when validation rows gain nothing, led to no better
    # mixtures of nine tables of 16 to 500 columns.
    size, stale = 1, 0
    best = (-np.inf, 1, smoothings[0])
    while size <= min(_MAX_CLASSES, learner.rows.n_rows) and stale < 2:
        before = best[0]
        for smoothing in smoothings:
            mixture = learner.learn(size, smoothing)
            score = validation.mean(mixture.log_probability(validation))
            if score > best[0]:
                best = (score, size, smoothing)
        stale = 0 if best[0] > before else stale + 1
        size *= 2
    return best[1:]


class _Learner:
    """Training rows with the settings of EM."""

    def __init__(
        self, rows: Observations, max_rounds: int, start: str, seed: int, bar: Any
    ) -> None:
        self.rows = rows.unique_rows()[0]  # rows that repeat are worked on once
        self.max_rounds, self.start, self.seed, self.bar = max_rounds, start, seed, bar
        self.average = independent_columns(self.rows).probability

    def learn(self, n_classes: int, smoothing: float) -> BernoulliMixture:
        """Run EM until it converges; return its last mixture."""
        blocks = _split_rows(self.rows, n_classes, fast=True)
        first = self._grow if self.start == "split" else self._best_start
        mixture = after = first(n_classes, smoothing, blocks)
        before = -np.inf
        for index in range(max(1, self.max_rounds - mixture.rounds)):
            mixture = after
            after, total = _em_round(mixture, blocks, self.average, smoothing)
            value = total / self.rows.total_weight
            try:
                self.bar.update(1)
            except TimeUpError:
                break
            if value - before < _TOLERANCE and index:
                break
            before = value
        return mixture

    def _best_start(
        self, n_classes: int, smoothing: float, blocks: list[_Block]
    ) -> BernoulliMixture:
        """Return the start that is best after a few rounds; with many classes there is only one.

        Two of a handful of classes may start from rows of one kind, which EM cannot undo.
        """
        n_starts = 1 if n_classes == 1 else max(1, min(_MAX_STARTS, _MANY // n_classes))
        starts = [self._start(n_classes, smoothing, index) for index in range(n_starts)]
        if n_starts == 1:
            return starts[0]
        found = []
        for mixture in starts:
            for _ in range(min(_START_ROUNDS, self.max_rounds)):
                mixture, value = _em_round(mixture, blocks, self.average, smoothing)
            found.append((mixture, value))
        return max(found, key=itemgetter(1))[0]

    def _start(self, n_classes: int, smoothing: float, index: int) -> BernoulliMixture:
        """Place classes near random rows; missing values of these rows count as average."""
        generator = np.random.default_rng([self.seed, n_classes, *([index] if index else [])])
        weight = self.rows.row_weights / self.rows.total_weight
        chosen = np.sort(generator.choice(self.rows.n_rows, n_classes, p=weight))
        own = self.rows.take(chosen).to_dense().astype(np.float64)
        own = np.where(np.isnan(own), self.average, own)
        probability = _OWN_SHARE * own + (1.0 - _OWN_SHARE) * self.average
        share = np.full(n_classes, 1.0 / n_classes)
        probability = np.clip(probability, 1.0 - _MAX_PROBABILITY, _MAX_PROBABILITY)
        return BernoulliMixture(share, probability, smoothing)

    def _grow(self, n_classes: int, smoothing: float, blocks: list[_Block]) -> BernoulliMixture:
        """Split classes in two until there are enough; a few rounds of EM follow each doubling."""
        mixture = BernoulliMixture(np.ones(1), self.average[None], smoothing)
        while mixture.n_classes < n_classes:
            direction, variance = _main_directions(mixture, blocks)
            n_split = min(mixture.n_classes, n_classes - mixture.n_classes)
            split = np.sort(np.argsort(-variance, kind="stable")[:n_split])
            shift = _SPLIT * direction[split]
            share, probability = mixture.share.copy(), mixture.probability.copy()
            share[split] /= 2.0
            share = np.append(share, share[split])
            probability = np.vstack([probability, probability[split] - shift])
            probability[split] += shift
            probability = np.clip(probability, _MIN_SPLIT, 1.0 - _MIN_SPLIT)
            mixture = BernoulliMixture(share, probability, smoothing, mixture.rounds)
            if mixture.n_classes < n_classes:
                for _ in range(_SPLIT_ROUNDS):
                    mixture, _ = _em_round(mixture, blocks, self.average, smoothing)
        return replace(mixture, rounds=0)


class _Block(NamedTuple):
    """Some rows: ``ones`` and ``missing`` (n, n_visible), sparse, dense or None; weights (n,)."""

    ones: Any
    missing: Any
    weight: FloatArray


def _split_rows(rows: Observations, n_classes: int, fast: bool = False) -> list[_Block]:
    """Split rows into blocks whose responsibilities fit into a cache; ``fast``: see above."""
    step = max(1, _BLOCK // n_classes, int(_MIN_ROWS_PER_COLUMN * rows.n_visible))
    single = fast and rows.n_rows * n_classes >= _SINGLE_PRECISION
    dtype, blocks = np.float32 if single else np.float64, []
    for begin in range(0, rows.n_rows, step):
        part = rows.take(slice(begin, begin + step))
        ones = part.to_csr().astype(dtype)
        if part.n_active > _DENSE * part.n_rows * part.n_visible:
            ones = ones.toarray()
        missing = part.missing_csr().astype(dtype) if part.n_missing else None
        blocks.append(_Block(ones, missing, part.row_weights))
    return blocks


def _map_blocks(function: Callable[[_Block], _Value], blocks: list[_Block]) -> list[_Value]:
    """Apply a function to all blocks on several threads; results keep the order of the blocks."""
    found: list[Any] = [None] * len(blocks)

    def run(begin: int, end: int) -> None:
        for index in range(begin, end):
            found[index] = function(blocks[index])

    with one_blas_thread():
        run_blocks(run, len(blocks), resolve_threads(None), first_piece=1)
    return found


_Logs = tuple[FloatArray, FloatArray, FloatArray]


def _logs(mixture: BernoulliMixture, dtype: Any) -> _Logs:
    """Return log odds and log of one minus p (n_visible, n_classes), and log p of no ones."""
    log_on, log_off = np.log(mixture.probability), np.log1p(-mixture.probability)
    return (
        np.ascontiguousarray((log_on - log_off).T, dtype=dtype),
        np.ascontiguousarray(log_off.T, dtype=dtype),
        (log_off.sum(axis=1) + np.log(mixture.share)).astype(dtype),
    )


def _posterior(logs: _Logs, block: _Block) -> tuple[FloatArray, FloatArray]:
    """Return the responsibilities (n, n_classes) and log p of the rows (n,)."""
    odds, off, all_off = logs
    joint = np.asarray(block.ones @ odds)
    joint += all_off
    if block.missing is not None:
        joint -= block.missing @ off
    top = joint.max(axis=1, keepdims=True)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=1, keepdims=True)
    joint /= total
    return joint, (top.astype(np.float64) + np.log(total))[:, 0]


def _log_probability(mixture: BernoulliMixture, blocks: list[_Block]) -> FloatArray:
    logs = _logs(mixture, blocks[0].ones.dtype)
    return np.concatenate(_map_blocks(lambda block: _posterior(logs, block)[1], blocks))


def _em_round(
    mixture: BernoulliMixture, blocks: list[_Block], average: FloatArray, smoothing: float
) -> tuple[BernoulliMixture, float]:
    """Return the mixture after one round of EM, and log p of the rows before the round."""
    logs = _logs(mixture, blocks[0].ones.dtype)

    def expect(block: _Block) -> tuple[float, FloatArray, FloatArray, FloatArray | None]:
        belongs, log_p = _posterior(logs, block)
        belongs *= block.weight[:, None].astype(belongs.dtype)
        missing = None if block.missing is None else block.missing.T @ belongs
        size = belongs.sum(axis=0, dtype=np.float64)
        return float(log_p @ block.weight), size, block.ones.T @ belongs, missing

    value, size = 0.0, np.zeros(mixture.n_classes)
    on, seen = np.zeros_like(mixture.probability), np.zeros_like(mixture.probability)
    for block_value, block_size, block_on, missing in _map_blocks(expect, blocks):
        value += block_value
        size += block_size
        on += block_on.T
        if missing is not None:
            seen -= missing.T
    seen += size[:, None]
    # Rows differ above all in how many ones they have, so pseudo-rows follow their class: their
    # odds are the average odds times the square root of how much fuller the rows of the class are.
    fuller = ((on.sum(axis=1) + average.sum()) / (seen @ average + average.sum()))[:, None] ** 0.5
    pseudo = fuller * average / (1.0 - average + fuller * average)
    probability = (on + smoothing * pseudo) / (seen + smoothing)
    share = size + min(smoothing, _MAX_SHARE_SMOOTHING)
    share /= share.sum()
    probability = np.clip(probability, 1.0 - _MAX_PROBABILITY, _MAX_PROBABILITY)
    return BernoulliMixture(share, probability, smoothing, mixture.rounds + 1), value


def _main_directions(
    mixture: BernoulliMixture, blocks: list[_Block]
) -> tuple[FloatArray, FloatArray]:
    """Return the direction of largest variance within each class, and its weighted variance.

    Directions (n_classes, n_visible) are one standard deviation long. Variances (n_classes,) count
    the rows of the class, so that large classes are split first. Missing values do not vary.
    """
    dtype = blocks[0].ones.dtype
    logs = _logs(mixture, dtype)
    center = mixture.probability.astype(dtype)
    direction = np.full(center.shape, center.shape[1] ** -0.5, dtype=dtype)
    size, variance = np.zeros(mixture.n_classes), np.zeros(mixture.n_classes)
    for _ in range(_POWER_ROUNDS):
        along = direction * center

        def project(block: _Block, direction: Any = direction, along: Any = along) -> Any:
            belongs, _ = _posterior(logs, block)
            belongs *= block.weight[:, None].astype(dtype)
            value = np.asarray(block.ones @ direction.T) - along.sum(axis=1)
            if block.missing is not None:
                value += block.missing @ along.T
            value *= belongs
            back = np.asarray(block.ones.T @ value).T - center * value.sum(axis=0)[:, None]
            if block.missing is not None:
                back += center * np.asarray(block.missing.T @ value).T
            return back, belongs.sum(axis=0)

        parts = _map_blocks(project, blocks)
        product = sum(part[0].astype(np.float64) for part in parts)
        size = sum(part[1].astype(np.float64) for part in parts)
        variance = np.linalg.norm(product, axis=1)
        direction = (product / np.maximum(variance, 1e-300)[:, None]).astype(dtype)
    length = np.sqrt(variance / np.maximum(size, 1e-300))
    return direction.astype(np.float64) * length[:, None], variance


# ---------------------------------------------------------------------------------------------
# Chow-Liu tree
# ---------------------------------------------------------------------------------------------

_TREE_BLOCK = 4096
"""Rows whose messages are passed at once."""


@dataclass(frozen=True, eq=False)
class ChowLiuTree:
    """A tree of columns: every column depends on its parent only.

    Attributes
    ----------
    parent : (n_visible,) index of the parent of each column, -1 for the root.
    order : (n_visible,) indices of the columns, every parent before its children.
    probability : (n_visible, 2) probability of each column if its parent is off and if it is on;
        both are the same for the root.
    """

    parent: LongArray
    order: LongArray
    probability: FloatArray

    def log_probability(self, X: Any) -> FloatArray:
        """Return the log-probability of every row (n_rows,); missing values are summed out."""
        rows = Observations.of(X, n_visible=len(self.parent))
        parts = [
            self._pass_messages(rows.take(slice(begin, begin + _TREE_BLOCK)))
            for begin in range(0, rows.n_rows, _TREE_BLOCK)
        ]
        return np.concatenate(parts)

    def _pass_messages(self, rows: Observations) -> FloatArray:
        """Sum out columns from the leaves to the root."""
        values = rows.to_dense().astype(np.float64).T
        log_on, log_off = np.log(self.probability), np.log1p(-self.probability)
        # Messages to each column: log-probability of what is below it (n, 2), if off and if on.
        below: dict[int, FloatArray] = {}
        result = np.zeros(rows.n_rows)
        for column in self.order[::-1].tolist():
            belief = below.pop(column, np.zeros((rows.n_rows, 2)))
            belief[values[column] == 1.0, 0] = -np.inf
            belief[values[column] == 0.0, 1] = -np.inf
            off = belief[:, :1] + log_off[column]
            message = np.logaddexp(off, belief[:, 1:] + log_on[column])
            if self.parent[column] < 0:
                result += message[:, 0]
            elif (above := int(self.parent[column])) in below:
                below[above] += message
            else:
                below[above] = message
        return result


def chow_liu(X: Any, *, smoothing: float = 0.1) -> ChowLiuTree:
    """Learn the tree over the columns that gives the rows the largest likelihood.

    It is the spanning tree with the largest sum of mutual information between neighbors (Chow and
    Liu 1968). Counting takes memory and time quadratic in the number of columns.

    Parameters
    ----------
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes. A row of weight w
        counts as w rows. With missing values, each pair of columns is counted in the rows in which
        both are known.
    smoothing : pseudo-rows added to each of the four cells of a pair of columns.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0], [0, 0, 1]])
    >>> nor.baselines.chow_liu(X).parent.tolist()
    [-1, 0, 0]
    """
    POSITIVE.check("smoothing", smoothing)
    rows = Observations.of(X)
    weight, n_visible = rows.row_weights, rows.n_visible
    ones = rows.to_csr().astype(np.float64)
    on, total = np.tile(ones.T @ weight, (n_visible, 1)).T, rows.total_weight
    both, seen = _weighted_product(ones, weight, ones), np.full((n_visible, n_visible), total)
    if rows.n_missing:
        missing = rows.missing_csr().astype(np.float64)
        on = on - _weighted_product(ones, weight, missing)
        absent = missing.T @ weight
        seen = seen - absent[:, None] - absent + _weighted_product(missing, weight, missing)
    counts = np.empty((2, 2, n_visible, n_visible))  # [value of i, value of j, i, j]
    counts[1, 1], counts[1, 0], counts[0, 1] = both, on - both, on.T - both
    counts[0, 0] = seen - both - counts[1, 0] - counts[0, 1]
    counts += smoothing
    joint = counts / counts.sum(axis=(0, 1))
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    information = (joint * np.log(joint / independent)).sum(axis=(0, 1))
    # SciPy reads zero as "no edge"; a constant shift of all edges changes no tree.
    edges = minimum_spanning_tree(-(information + 1.0) * ~np.eye(n_visible, dtype=bool))
    order, above = breadth_first_order(edges, 0, directed=False)
    parent = np.where(above < 0, -1, above).astype(np.int64)
    child = np.arange(n_visible)
    given = counts[:, :, child, parent]
    probability = (given[1] / given.sum(axis=0)).T
    probability[0] = counts[1, :, 0, 0].sum() / counts[:, :, 0, 0].sum()  # the root
    return ChowLiuTree(parent, order.astype(np.int64), probability)


def _weighted_product(left: Any, weight: FloatArray, right: Any) -> FloatArray:
    """Return ``left.T @ diag(weight) @ right`` of sparse matrices as a dense array."""
    return np.asarray((left.multiply(weight[:, None]).tocsr().T @ right).toarray())
