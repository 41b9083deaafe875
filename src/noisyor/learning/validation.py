"""Held-out rows and the number of components: score networks, drop hidden nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import TimeUpError, progress_bar
from noisyor._util.validation import BELOW_ONE, check_seed, or_none
from noisyor.baselines import independent_columns
from noisyor.data.observations import Observations
from noisyor.engines.context import Context
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import Score
from noisyor.inference.max_product import MaxProduct, log_joint, method_for
from noisyor.inference.sampling import LogProbability, log_probability
from noisyor.model.builders import with_causes
from noisyor.model.network import Network
from noisyor.search.cover import sample_rows

__all__ = [
    "SizeCurve",
    "Validation",
    "choose_size",
    "drop_hidden",
    "hold_out",
    "leave_one_out_gain",
    "prune_hidden",
    "split_validation",
    "validate",
]

_SHARE = 0.1
_FEW_ROWS = 20
_MOST_ROWS = 1000
"""Largest number of held-out rows whose log p is estimated."""

_VALIDATION_SHARE = 0.25
"""Share of the rows that choose the number of components."""

_MAX_VALIDATION_ROWS = 10_000
"""Above this many validation rows, a random subset of them chooses."""

_STEP, _CLEARLY = 0.75, 4.0
"""Ratio of two successive sizes that are compared. Sizes are compared down to one that is this many
standard errors worse than the best."""

_RESOLUTION = 0.05
"""Sizes that differ by at most this share are not told apart, if they are above 20."""

_MAX_CHAINS = 64
"""Largest number of chains for a row that occurs often."""


class Validation(NamedTuple):
    """Scores of the held-out rows, or of the training rows if no rows were held out.

    ``log_p`` of these rows, or of a random thousand of them; ``score`` is the paper's Elbo^MP;
    ``reference`` is log p under independent columns; ``n_active`` is the number of causes that are
    on in some explanation; ``n_held_out`` the number of held-out rows, 0 if none.
    """

    log_p: LogProbability
    score: Score
    reference: Score
    n_active: int
    n_held_out: int


def hold_out(
    data: Observations, share: float | None, seed: int
) -> tuple[Observations, Observations | None]:
    """Split rows into rows to learn from and held-out rows, or None.

    ``share`` of the rows is held out; None stands for a tenth if there are at least 20 rows, and
    for none otherwise. A row with an integer weight counts as that many rows: some of them may be
    held out and others not.
    """
    or_none(BELOW_ONE).check("held_out", share)
    seed = check_seed(seed)
    if share is None:
        share = _SHARE if data.total_weight >= _FEW_ROWS else 0.0
    if share == 0:
        return data, None
    weights = data.weights
    if weights is None or (weights != np.round(weights)).any():
        return data.split(1.0 - share, seed)
    n_held = int(data.total_weight) - int(data.total_weight * (1.0 - share) + 1e-9)
    if not 0 < n_held < data.total_weight:
        raise InvalidSettingError(
            f"held out, a share of {share!r} leaves no row in one part of {data.total_weight:g}"
        )
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(
        weights.astype(np.int64), n_held, method="marginals"
    )
    return _counted(data, weights - drawn), _counted(data, drawn)


def _counted(data: Observations, times: npt.NDArray[Any]) -> Observations:
    """Return the distinct rows, with their numbers of occurrences as weights."""
    there = times > 0
    return data.with_weights(None).take(there).with_weights(times[there])


def validate(
    network: Network,
    train: Observations,
    held_out: Observations | None,
    *,
    engine: EngineLike = "auto",
) -> Validation:
    """Explain the held-out rows, or the training rows if there are none, and score them."""
    rows = train if held_out is None else held_out
    some = rows
    if rows.n_rows > _MOST_ROWS:
        order = np.random.default_rng(0).permutation(rows.n_rows)
        some = rows.take(np.sort(order[:_MOST_ROWS]))
    posterior = method_for(network).posterior(network, rows, engine=engine)
    return Validation(
        log_p=log_probability(network, some, engine=engine),
        score=Score(posterior.log_joint, weights=rows.weights),
        reference=Score(independent_columns(train).log_probability(rows), weights=rows.weights),
        n_active=round(float(rows.row_weights @ np.diff(posterior.states.indptr))),
        n_held_out=0 if held_out is None else round(held_out.total_weight),
    )


class SizeCurve(NamedTuple):
    """Validation log-likelihood by number of components.

    Attributes
    ----------
    chosen : the fewest components that are at most one standard error below the best size; 1 if no
        size is more than one standard error better than independent columns.
    n_components : sizes that were compared, ascending.
    log_p : mean log-likelihood of the validation rows at each size, in nats.
    standard_error : standard error of the difference between each size and the best; 0 at the best.
    n_rows : number of validation rows.
    """

    chosen: int
    n_components: list[int]
    log_p: list[float]
    standard_error: list[float]
    n_rows: int

    @classmethod
    def of(cls, per_row: Mapping[int, FloatArray], weights: FloatArray) -> SizeCurve:
        """Build the curve from log p of every validation row (n_rows,) at each size."""
        sizes = sorted(per_row)
        means = [float(np.average(per_row[size], weights=weights)) for size in sizes]
        best = sizes[int(np.argmax(means))]
        lost = [Score(per_row[best] - per_row[size], weights=weights) for size in sizes]
        chosen = next(
            size
            for size, score in zip(sizes, lost, strict=True)
            if size == best or score.mean <= score.standard_error
        )
        errors = [0.0 if s == best else e.standard_error for s, e in zip(sizes, lost, strict=True)]
        return cls(chosen, sizes, means, errors, round(float(weights.sum())))

    def between(self) -> int | None:
        """Return a size to score next: beside the best one or below the chosen one; or None."""
        sizes, best = self.n_components, int(np.argmax(self.log_p))
        chosen = sizes.index(self.chosen)
        for lower, upper in ((best - 1, best), (best, best + 1), (chosen - 1, chosen)):
            if lower >= 0 and upper < len(sizes):
                gap = sizes[upper] - sizes[lower]
                if gap > max(1.0, _RESOLUTION * sizes[upper]):
                    return sizes[lower] + gap // 2
        return None

    def below_best(self, size: int) -> float:
        """Return how far a size is below the best, in standard errors."""
        index = self.n_components.index(size)
        lost = max(self.log_p) - self.log_p[index]
        return lost / max(self.standard_error[index], 1e-12) if lost > 0 else 0.0


def split_validation(rows: Observations, seed: int) -> tuple[Observations, Observations]:
    """Split rows into training rows and validation rows, a few thousand of them at most."""
    training, validation = hold_out(rows, _VALIDATION_SHARE, seed)
    assert validation is not None
    if validation.n_rows > _MAX_VALIDATION_ROWS:
        order = np.random.default_rng([seed, 4]).permutation(validation.n_rows)
        validation = validation.take(np.sort(order[:_MAX_VALIDATION_ROWS]))
    return training, validation


def estimate_log_p(network: Network, validation: Observations, context: Context) -> Score:
    """Estimate log p of validation rows, to compare networks.

    Two chains per row are enough: a choice depends more on the number of rows than on the error of
    each estimate. A row that occurs w times has about 2w chains, because its error counts w times.
    """
    rows, numbers = validation.unique_rows()
    # Powers of two, so that few calls have all rows.
    chains = 2 ** np.floor(np.log2(np.clip(2.0 * rows.row_weights, 2, _MAX_CHAINS)))
    value = np.zeros(rows.n_rows)
    for number in np.unique(chains):
        some = np.flatnonzero(chains == number)
        value[some] = log_probability(
            network,
            rows.take(some),
            n_chains=int(number),
            seed=context.seed,
            engine=context.engine,
        ).per_row
    return Score(value[numbers], weights=validation.weights)


def choose_size(
    starts: Sequence[Network],
    training: Observations,
    validation: Observations,
    refit: Callable[[Network], Network],
    context: Context,
) -> tuple[Network, SizeCurve | None]:
    """Find the fewest hidden nodes that are at most one standard error below the best size.

    The hidden nodes are ranked once, by how far the bound of the training rows falls without each.
    Networks of the first nodes of that list are refitted and scored: at first each size is three
    quarters of the one before, until one is clearly worse than the best; then, by bisection, sizes
    around the best one and below the chosen one. If no size is more than one standard error better
    than independent columns, one hidden node is chosen. When the time limit is reached, the choice
    is among the sizes scored so far.

    Parameters
    ----------
    starts : bipartite networks, learned from the training rows, each of another size. Smaller
        sizes start from the first of them; sizes between two of them start from the larger one.
    training, validation : rows.
    refit : adapts the parameters of a network that has lost hidden nodes.
    context : engine, seed and deadline.

    Returns
    -------
    The chosen network, and the curve; None if there was no time to score any size.
    """
    networks, per_row = {network.n_hidden: network for network in starts}, {}
    ranks: dict[int, npt.NDArray[np.int64]] = {}

    def score(size: int, bar: Any) -> SizeCurve:
        """Score one size, which starts from the next larger one, and return the curve so far."""
        larger = min(known for known in networks if known >= size)
        if larger > size:
            if larger not in ranks:
                gain = leave_one_out_gain(networks[larger], training, engine=context.engine)
                ranks[larger] = np.argsort(np.argsort(-gain, kind="stable"))
            order = ranks[larger]
            networks[size] = refit(drop_hidden(networks[larger], np.flatnonzero(order >= size)))
            ranks[size] = order[order < size]
        per_row[size] = estimate_log_p(networks[size], validation, context).per_row
        bar.update(1)
        return SizeCurve.of(per_row, validation.row_weights)

    curve = None
    try:
        with progress_bar(None, "sizes", "sizes", context.job) as bar:
            for network in starts:
                curve = score(network.n_hidden, bar)
            size = starts[0].n_hidden
            assert curve is not None
            while size > 1 and curve.below_best(size) <= _CLEARLY:
                size = max(1, int(size * _STEP))
                curve = score(size, bar)
            while (between := curve.between()) is not None:
                curve = score(between, bar)
            independent = independent_columns(training).log_probability(validation)
            best = curve.n_components[int(np.argmax(curve.log_p))]
            gained = Score(per_row[best] - independent, weights=validation.weights)
            if gained.mean <= gained.standard_error:
                curve = score(1, bar)._replace(chosen=1)
    except TimeUpError:
        if curve is None:
            return starts[0], None
    return networks[curve.chosen], curve


# ---- hidden nodes that a bipartite network can do without

# If a hidden node is taken away, others may do what it did, or noise: as often, but without knowing
# in which rows. What the bound loses by that is the gain from keeping the node. It is supported by
# the data if the rows lose more than it takes to write its edges down (minimum description length).

_METHOD = MaxProduct(icm=5)
"""ICM, because messages alone do not choose between two similar hidden nodes."""

_MAX_ENTRIES = 2**17
"""Above this many entries, hidden nodes are compared on a random subset of the rows."""

_DOUBTFUL = 8
"""Number of hidden nodes that are evaluated exactly in each round, besides those in excess."""

_EDGE = 0.1
"""Parameter above which an edge counts in the description length."""

_CLEAR = float(np.log(2.0))
"""Parameter of an edge that works more often than not."""


def leave_one_out_gain(network: Network, X: Any, *, engine: EngineLike = "auto") -> FloatArray:
    """Return how far the mean bound falls without each hidden node, (n_hidden,).

    Parameters
    ----------
    network : any network.
    X : observations in any form that `Observations.of` takes.
    engine : as in `explain`.
    """
    rows = network.rows_of(X)
    modes = _METHOD.posterior(network, rows, engine=engine).states.toarray()
    states = np.asarray(modes, dtype=np.uint8)
    value = log_joint(network, states, rows, engine)
    gain = np.zeros(network.n_hidden)
    for node in range(network.n_hidden):
        on = np.flatnonzero(states[:, node])
        if len(on):
            without = states[on]
            without[:, node] = 0
            lost = value[on] - log_joint(network, without, rows.take(on), engine)
            if rows.weights is not None:
                lost = lost * rows.weights[on]
            gain[node] = lost.sum() / rows.total_weight
    return gain


def prune_hidden(
    network: Network,
    X: Any,
    max_components: int,
    *,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Network:
    """Drop hidden nodes that the data do not support (MDL); at least one stays.

    Parameters
    ----------
    network : from `bipartite`, all parameters free.
    X : observations in any form that `Observations.of` takes.
    max_components : number of hidden nodes to keep at most.
    seed : seed of the sample of rows, where there are many.
    engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> failure = [[0.1, 0.1, 0.1, 1, 1, 1], [1, 1, 1, 0.1, 0.1, 0.1], [1, 1, 1, 0.1, 0.1, 0.1]]
    >>> network = nor.bipartite(6, 3, failure_probability=failure, noise_probability=0.01)
    >>> rows = nor.sample(network, 100, seed=0).visible
    >>> from noisyor.learning.validation import prune_hidden
    >>> prune_hidden(network, rows, 3).n_hidden  # two of the three are alike
    2
    """
    observations = network.rows_of(X)
    n_rows = observations.total_weight
    _, rows = sample_rows(observations, _MAX_ENTRIES, seed)
    try:
        return _pruned(network, rows, n_rows, max_components, engine)
    except TimeUpError:  # those that switch on least must go without a closer look
        weight = network.prior_probability * (1.0 - network.failure_probability).sum(axis=1)
        excess = max(0, network.n_hidden - max_components)
        return _without(network, np.argsort(weight, kind="stable")[:excess].tolist(), [])


def _pruned(
    network: Network, rows: Observations, n_rows: float, max_components: int, engine: EngineLike
) -> Network:
    while network.n_hidden > 1:
        excess = max(0, network.n_hidden - max_components)
        edges = (network.theta_of("failure") > _EDGE).sum(axis=1)
        length = 0.5 * np.log(n_rows) * (edges + 1)
        alone = n_rows * leave_one_out_gain(network, rows, engine=engine)
        order = np.argsort(alone - length, kind="stable")[: excess + _DOUBTFUL]
        whole = _bound(network, rows, engine)
        loss = np.full((2, network.n_hidden), np.inf)  # noise takes over, or other nodes do
        for node in order:
            for by_noise in (1, 0):
                without = _without(network, [node], [node] if by_noise else [])
                loss[by_noise, node] = n_rows * (whole - _bound(without, rows, engine))
        dropped = _to_drop(network, loss.min(axis=0), length, excess)
        if not dropped:
            break
        network = _without(network, dropped, [k for k in dropped if loss[1, k] < loss[0, k]])
    return network


def drop_hidden(network: Network, nodes: npt.ArrayLike) -> Network:
    """Return a bipartite network without some hidden nodes; noise absorbs their effect."""
    dropped = np.asarray(nodes, dtype=np.int64).tolist()
    return _without(network, dropped, dropped)


def _bound(network: Network, rows: Observations, engine: EngineLike) -> float:
    return rows.mean(_METHOD.bounds(network, rows, engine=engine).elbo)


def _to_drop(network: Network, loss: FloatArray, length: FloatArray, excess: int) -> list[int]:
    """Return the nodes to drop in one round: those without support, or the least supported.

    Of nodes with a common column only one is dropped per round, because the others may then become
    necessary. One node always stays.
    """
    clear = network.theta_of("failure") > _CLEAR
    order = np.argsort(loss - length, kind="stable")
    chosen: list[int] = []
    for node in order[:-1]:
        if loss[node] < length[node] and not (clear[chosen] & clear[node]).any():
            chosen.append(int(node))
    return chosen if chosen or not excess else [int(order[0])]


def _without(network: Network, nodes: list[int], by_noise: list[int]) -> Network:
    """Return the network without some nodes; per-column noise absorbs those in ``by_noise``."""
    kept = np.setdiff1d(np.arange(network.n_hidden), nodes)
    failure, prior = network.failure_probability, network.prior_probability
    noise = network.noise_probability
    if len(network.group("noise")) > 1:
        for node in by_noise:
            noise = 1.0 - (1.0 - noise) * (1.0 - prior[node] * (1.0 - failure[node]))
    return with_causes(network, failure[kept], prior[kept], noise)
