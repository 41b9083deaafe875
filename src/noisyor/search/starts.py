"""Starting parameters: from factors, features, a mixture, topics or counts."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.validation import check_count, check_seed
from noisyor.baselines import BernoulliMixture
from noisyor.data.observations import Observations
from noisyor.engines.threads import one_blas_thread
from noisyor.errors import InvalidSettingError
from noisyor.model.builders import bipartite, convolutional
from noisyor.model.forward import edge_matrix
from noisyor.model.names import (
    CANDIDATES_PER_WORD,
    N_WORDS,
    Togetherness,
    distinctive_visibles,
)
from noisyor.model.network import (
    Network,
    probability_from_theta,
    theta_from_failure,
    theta_from_probability,
)
from noisyor.search.cover import PRIOR_ROWS, sample_rows
from noisyor.search.factors import FoundFactors
from noisyor.search.features import OFF_FAILURE, FoundFeatures

__all__ = [
    "EXACT",
    "choose_topics",
    "edge_counts",
    "equivalent_sample_size",
    "failures_from_counts",
    "is_determined_by_counts",
    "noisy_or_em",
    "start_from_counts",
    "start_from_factors",
    "start_from_features",
    "start_from_mixture",
    "start_from_topics",
    "two_class_mixture",
]

_OFF_ROWS, _OFF_SHARE = 0.05, 0.1
"""Prior of an edge that is not in a factor: pseudo-rows, and the share of them in which it
works."""

_UNUSED_PRIOR = 1e-4
"""Prior probability of a hidden node that nothing was found for."""

EXACT = 2e-3
"""Error rate below which parameters are not trained, because errors are too rare to learn from."""

_ALIKE = 100.0
"""Equivalent sample size of the pooled rate above which edges are assumed to fail equally often."""


def start_from_factors(found: FoundFactors) -> Network:
    """Return a bipartite network whose causes are the factors found by `search_factors`.

    Without any factor it has one unused cause.
    """
    failure, n_visible = failures_from_counts(found), found.factors.shape[1]
    weight = np.ones(len(found.states)) if found.matrix.weight is None else found.matrix.weight
    prior = (weight @ found.states + 1.0) / (weight.sum() + 2.0)
    if not len(prior):
        failure, prior = np.full((1, n_visible), 1.0 - _OFF_SHARE), np.array([_UNUSED_PRIOR])
    return bipartite(
        n_visible,
        len(prior),
        noise="per_visible",
        failure_probability=failure,
        prior_probability=prior,
        noise_probability=_noise_from_counts(found),
    )


def start_from_features(found: FoundFeatures, image_shape: tuple[int, int]) -> Network:
    """Return a convolutional network of the features found by `search_features`.

    Without any feature it has one unused feature.
    """
    failure, prior, window = found.failure, found.prior, found.features.shape[1:]
    if not len(prior):
        failure, prior = np.full((1, *window), OFF_FAILURE), np.array([_UNUSED_PRIOR])
    return convolutional(
        image_shape,
        len(prior),
        (window[0], window[1]),
        border=found.border,
        failure_probability=failure,
        prior_probability=prior,
        noise_probability=found.rates.false_positive,
    )


def is_determined_by_counts(found: FoundFactors) -> bool:
    """Return whether errors are rare, or failure rates of edges do not differ significantly.

    In both cases training does not improve the parameters estimated by counting.
    """
    if max(found.rates) < EXACT:
        return True
    zeros, total = edge_counts(found)
    edges = found.factors == 1
    return equivalent_sample_size(zeros[edges], total[edges], found.rates.false_negative) >= _ALIKE


def failures_from_counts(found: FoundFactors) -> FloatArray:
    """Return the failure probability of each edge, (n_components, n_visible).

    An edge of a factor is estimated from the rows that it alone explains, shrunk towards the rate
    of all edges; the less the rates differ, the stronger the shrinkage. Any other edge is estimated
    from the rows of the factor in which the column is 0; without such rows it gets a high failure
    probability below 1.
    """
    zeros, total = edge_counts(found)
    edges, pooled = found.factors == 1, found.rates.false_negative
    weight = equivalent_sample_size(zeros[edges], total[edges], pooled)
    share = (zeros + weight * pooled) / (total + weight)
    off = found.matrix.observed & ~found.matrix.ones
    against = found.matrix.weighted(found.states).T @ off.astype(np.float32)
    other = 1.0 - _OFF_ROWS * _OFF_SHARE / (_OFF_ROWS + against)
    failure = np.where(edges, np.clip(share, 1e-5, 0.9), other)
    return np.asarray(failure, dtype=np.float64)


def _noise_from_counts(found: FoundFactors) -> FloatArray:
    """Return the share of ones among the uncovered entries of each column, (n_visible,)."""
    uncovered = (found.states.astype(np.float32) @ found.factors.astype(np.float32)) == 0
    ones = found.matrix.n_in_columns(uncovered & found.matrix.ones)
    total = found.matrix.n_in_columns(uncovered & found.matrix.observed)
    pooled = found.rates.false_positive
    weight = equivalent_sample_size(ones, total, pooled)
    share = (ones + weight * pooled) / (total + weight)
    # a column that had no such 1 yet may have one tomorrow
    return np.asarray(np.maximum(share, np.minimum(pooled, 1.0 / (total + 2.0))))


def edge_counts(found: FoundFactors) -> tuple[FloatArray, FloatArray]:
    """Count the rows that only one edge covers: those with a 0, and all of them."""
    covered = found.states.astype(np.float32) @ found.factors.astype(np.float32)
    alone = (covered == 1) & found.matrix.observed
    states = found.matrix.weighted(found.states).T
    zeros = states @ (alone & ~found.matrix.ones).astype(np.float32)
    return zeros.astype(np.float64), (states @ alone.astype(np.float32)).astype(np.float64)


def equivalent_sample_size(counts: FloatArray, total: FloatArray, pooled: float) -> float:
    """Return the equivalent sample size of the pooled rate (empirical Bayes).

    It is the candidate value under which the counts are most probable, if the rates have a beta
    distribution with mean ``pooled``.

    Parameters
    ----------
    counts, total : (n,) events and trials of each rate.
    pooled : mean rate.
    """
    if not len(total):
        return PRIOR_ROWS
    weights = PRIOR_ROWS * 2.0 ** np.arange(10)
    a, b = weights[:, None] * pooled, weights[:, None] * (1.0 - pooled)
    likelihood = (betaln(counts + a, total - counts + b) - betaln(a, b)).sum(axis=1)
    return float(weights[np.argmax(likelihood)])


_MAX_ENTRIES = 2**26
"""Documents times words; above this many, a random subset of the documents is factorized."""

_ROUNDS = 100
"""Iterations of the linear factorization. It need not converge, because Gibbs rounds follow."""

_NOISE_SHARE = 0.5
"""Share of the occurrences of a word that no topic explains at the start."""

_LEAK_SHARE, _MAX_LEAK, _SHARE_OF_RAREST = 0.5, 0.01, 0.9
"""Noise of a column whose causes come from a mixture: a share of its frequency, up to a limit, but
at least this share of its probability in the class in which it is rarest."""

_RAREST, _SUREST = 1e-4, 0.95


def start_from_topics(X: Any, n_components: int, *, seed: int = 0) -> Network:
    """Return a bipartite network of topics from a non-negative factorization.

    Documents are weighted by tf-idf, scaled to equal length, and factorized by NMF. Each document
    has shares of its topics; edges, priors and noise are counts weighted by these shares.

    Parameters
    ----------
    X : binary data (n_documents, n_words) in any form that `Observations.of` takes.
    n_components : number of topics, at most the number of words or documents.
    seed : seed of the sample of documents, if there are very many, and of the factorization.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
    >>> from noisyor.search.starts import start_from_topics
    >>> start_from_topics(X, 2).failure_probability.round() + 0.0
    array([[0., 0., 1., 1.],
           [1., 1., 0., 0.]])
    """
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfTransformer

    n_components, seed = check_count("n_components", n_components), check_seed(seed)
    observations = Observations.of(X)
    if n_components > min(observations.n_rows, observations.n_visible):
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but {observations.n_rows:,} documents of "
            f"{observations.n_visible:,} words have "
            f"{min(observations.n_rows, observations.n_visible):,} topics at most"
        )
    _, rows = sample_rows(observations, _MAX_ENTRIES, seed)
    ones, weight = rows.to_csr().astype(np.float64), rows.row_weights
    model = NMF(n_components, init="nndsvd", max_iter=_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        shares = model.fit_transform(TfidfTransformer().fit_transform(ones))
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    shares *= weight[:, None]
    frequency = np.clip((ones.T @ weight) / rows.total_weight, _RAREST, _SUREST)
    size = shares.sum(axis=0) + 1.0
    of_topic = (ones.T @ shares).T + frequency  # one more document, of average words
    noise = _NOISE_SHARE * frequency
    edge = 1.0 - (1.0 - of_topic / size[:, None]) / (1.0 - noise)
    return _in_one_layer(edge, np.maximum(size / rows.total_weight, 0.01), noise)


def _in_one_layer(edge: FloatArray, prior: FloatArray, noise: FloatArray) -> Network:
    """Return a one-layer network of topics with edges to all words, with clipped probabilities.

    ``edge`` (n_topics, n_words), ``prior`` (n_topics,), ``noise`` (n_words,): probabilities.
    """
    n_components, n_visible = edge.shape
    return bipartite(
        n_visible,
        n_components,
        prior="per_component",
        noise="per_visible",
        failure_probability=1.0 - np.clip(edge, _RAREST, _SUREST),
        prior_probability=np.clip(prior, 0.005, 0.5),
        noise_probability=np.clip(noise, 1e-5, 0.5),
    )


def start_from_mixture(mixture: BernoulliMixture) -> Network:
    """Return a bipartite network whose causes are the classes of a mixture of Bernoullis.

    A cause has the prior of its class and switches columns on with the probabilities of the class.
    In the network several causes may be on at once; `learn_by_gibbs` then separates them.

    Parameters
    ----------
    mixture : from `learn_mixture`.
    """
    n_classes, n_visible = mixture.probability.shape
    frequency = mixture.share @ mixture.probability
    leak = np.minimum(_LEAK_SHARE * frequency, _MAX_LEAK)
    if n_classes > 1:
        leak = np.maximum(leak, _SHARE_OF_RAREST * mixture.probability.min(axis=0))
    # A column is on in rows of its class by the cause or by the noise.
    edge = np.maximum(1.0 - (1.0 - mixture.probability) / (1.0 - leak), _RAREST)
    return bipartite(
        n_visible,
        n_classes,
        failure_probability=1.0 - edge,
        prior_probability=np.minimum(mixture.share, _SUREST),
        noise="per_visible",
        noise_probability=leak,
    )


_PART_ROUNDS, _FULL_PART = 60, 0.95
"""Rounds of the factorization into parts, and the quantile of the positive weights of a part, over
rows, at which the part is taken to be on."""

_PART_LEAK = 0.25
"""Share of the frequency of a column that parts leave to its noise at the start."""


def start_from_parts(rows: Observations, n_parts: int, *, seed: int = 0) -> Network:
    """Return a bipartite network whose causes are the parts of a non-negative factorization.

    If rows are unions of causes, the weights of parts add up approximately as the parameters of
    causes do, and the parts are close to the causes.

    Parameters
    ----------
    rows : (n_rows, n_visible); missing entries count as 0 here.
    n_parts : at most the number of rows and of columns.
    seed : seed of the factorization.
    """
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    ones, weight = rows.to_csr().astype(np.float64), rows.row_weights
    root = np.sqrt(weight)[:, None]  # a row of weight w counts as w rows in a sum of squares
    model = NMF(n_parts, init="nndsvda", max_iter=_PART_ROUNDS, tol=1e-3, random_state=seed)
    # scikit-learn takes the root of an error that rounding makes negative where parts are exact.
    with warnings.catch_warnings(), one_blas_thread(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        shares = model.fit_transform((ones.multiply(root)).tocsr()) / root
    full = np.ones(n_parts)
    for part, share in enumerate(shares.T):
        if (share > 1e-9).any():
            full[part] = np.quantile(share[share > 1e-9], _FULL_PART)
    prior = weight @ np.minimum(shares / full, 1.0) / rows.total_weight
    leak = np.clip(_PART_LEAK * (ones.T @ weight) / rows.total_weight, 1e-5, 0.5)
    return bipartite(
        rows.n_visible,
        n_parts,
        failure_probability=np.clip(
            np.exp(-model.components_ * full[:, None]), 1.0 - _SUREST, 1.0 - _RAREST
        ),
        prior_probability=np.clip(prior, 0.005, 0.5),
        noise="per_visible",
        noise_probability=leak,
    )


def choose_topics(network: Network, X: Any, n_components: int) -> Network:
    """Keep the most coherent topics that do not repeat each other.

    The likelihood favors topics that many documents share: senders, greetings, a second topic for
    the same subject. So more candidates are learned than requested. Topics are chosen one after
    another by the mean co-occurrence of their ten words (see `topic_words`) minus the share of
    these words that chosen topics already have. The noise of the words absorbs what the dropped
    topics explained.

    Parameters
    ----------
    network : bipartite, with at least ``n_components`` topics.
    X : binary documents (n_documents, n_words) that it was learned from.
    n_components : topics to keep.

    Returns
    -------
    A bipartite network as from `start_from_topics`; the topics keep their order.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], 10, axis=0)
    >>> failure = [[0.1, 0.1, 1, 1], [0.3, 1, 0.3, 1], [1, 1, 0.1, 0.1], [1, 1, 0.2, 0.2]]
    >>> more = nor.bipartite(4, 4, failure_probability=failure)
    >>> from noisyor.search.starts import choose_topics
    >>> choose_topics(more, X, 2).failure_probability.round() + 0.0
    array([[0., 0., 1., 1.],
           [1., 1., 0., 0.]])
    """
    check_count("n_components", n_components)
    if n_components > network.n_hidden:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but the network has {network.n_hidden:,} topics"
        )
    pairs = Togetherness(X, network.n_visible)
    candidates = distinctive_visibles(network, CANDIDATES_PER_WORD * N_WORDS)
    # Candidates that repeat each other keep their words, so that one of them is chosen.
    words = pairs.words(candidates, N_WORDS)
    kept = _greedily([pairs.mean(chosen) for chosen in words], words, n_components)
    edge = edge_matrix(network, probability=True)[: network.n_visible].T.toarray()
    prior, noise = network.prior_probability, network.noise_probability
    left = np.setdiff1d(np.arange(network.n_hidden), kept)
    silent = np.prod(1.0 - prior[left, None] * edge[left], axis=0)
    return _in_one_layer(edge[kept], prior[kept], 1.0 - (1.0 - noise) * silent)


def _greedily(value: list[float], words: list[list[int]], n: int) -> list[int]:
    """Return the indices of the topics to keep, ascending; the first of equally good ones is
    kept."""
    kept: list[int] = []
    taken: set[int] = set()
    for _ in range(n):
        open_ = [k for k in range(len(words)) if k not in kept]
        worth = [
            value[k] - len(taken.intersection(words[k])) / max(len(words[k]), 1) for k in open_
        ]
        best = open_[int(np.argmax(worth))]
        kept.append(best)
        taken.update(words[best])
    return sorted(kept)


_MIXTURE_ROUNDS = 5
_EM_ROUNDS = 20
_LARGEST_SHARE = 0.3
"""Largest share of the rows in which a hidden node may be on in the first guess."""

_LARGEST_FAILURE = 0.999
"""Failure probability of an edge without evidence: below 1, so that training can change it."""

_CERTAIN = 1e-4
"""Smallest distance of probabilities from 0 and 1, so that few rows do not fix a parameter."""


_COUNT_SMOOTHING = 1.0
"""Pseudo-rows of each parameter. In these, an edge fails, and a leak is on as often as its node."""

_MAX_COUNTED_ROWS = 20_000
"""Largest number of distinct rows that are counted; they are evenly spread over the data."""


def start_from_counts(network: Network, X: Any) -> Network:
    """Return the network with noise, priors and failure probabilities from counts.

    The same arguments always give the same parameters. Fixed parameters keep their value; tied
    parameters are counted together.

    Parameters
    ----------
    network : from `layered`: a node's parents are listed nearest first.
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], [10, 10, 40], axis=0)
    >>> graph = nor.layered(X, 2, n_parents=1, shrink=2)
    >>> start = nor.search.start_from_counts(graph, X)
    >>> start.prior_probability.round(2)
    array([0.17, 0.17])
    """
    observations, _ = Observations.of(X, n_visible=network.n_visible).unique_rows()
    if observations.n_rows > _MAX_COUNTED_ROWS:
        index = np.linspace(0, observations.n_rows - 1, _MAX_COUNTED_ROWS).astype(np.int64)
        observations = observations.take(index)
    rows_on = _rows_by_column(observations.to_csr())
    rows_missing = _rows_by_column(observations.missing_csr())
    weights = observations.row_weights
    rows_on += _hidden_rows(network, rows_on, weights)
    rows_missing += [np.empty(0, dtype=np.int64)] * network.n_hidden
    theta = noisy_or_em(network, rows_on, rows_missing, weights)
    return network.with_theta(np.where(network.free, theta, network.theta))


def _rows_by_column(matrix: Any) -> list[LongArray]:
    """Return the indices of the rows that are 1, for each column."""
    columns = matrix.tocsc()
    return np.split(columns.indices.astype(np.int64), columns.indptr[1:-1])


# ---- in which rows is each hidden node on?


def _hidden_rows(
    network: Network, visible_rows: list[LongArray], weights: FloatArray
) -> list[LongArray]:
    """Return the rows in which each hidden node is probably on, children before parents."""
    first = network.n_visible
    rows: list[LongArray] = [np.empty(0, dtype=np.int64)] * network.n_hidden
    nearest = np.full(network.n_nodes, -1)
    has_parent = np.diff(network.child_ptr) > 0
    nearest[has_parent] = network.parent[network.child_ptr[:-1][has_parent]]
    ptr, outgoing = network.outgoing
    for k in np.argsort(-network.hidden_levels, kind="stable").tolist():
        children = network.edge_child[outgoing[ptr[k] : ptr[k + 1]]]
        lists = [
            visible_rows[child] if child < first else rows[child - first]
            for child in children.tolist()
        ]
        rows[k] = two_class_mixture(lists, nearest[children] == k, weights)
    return rows


def two_class_mixture(lists: list[LongArray], own: Any, weights: FloatArray) -> LongArray:
    """Return the rows in which a common parent of these children is probably on.

    The rows are modeled by a mixture of two classes, parent on and parent off, with independent
    children in each.

    Parameters
    ----------
    lists : rows in which each child is on.
    own : (n_children,) True for children that this node is the nearest parent of.
    weights : (n_rows,) of all rows.
    """
    child = np.repeat(np.arange(len(lists)), [len(rows) for rows in lists])
    some, row = np.unique(np.concatenate(lists), return_inverse=True)
    n_rows, weight = weights.sum(), weights[some]
    n_zero = n_rows - weight.sum()  # rows in which no child is on are all alike
    usual = np.bincount(child, weight[row], len(lists)) / n_rows
    q = _first_guess(row, own[child], weight, n_rows)
    if not q.any():
        q = _first_guess(row, np.ones(len(row), dtype=np.bool_), weight, n_rows)
    q_zero = 0.0
    for _ in range(_MIXTURE_ROUNDS):
        n_on = weight @ q + n_zero * q_zero
        together = np.bincount(child, (weight * q)[row], len(lists))
        on = (together + usual) / (n_on + 1.0)
        off = (usual * n_rows - together + usual) / (n_rows - n_on + 1.0)
        off = np.clip(off, _CERTAIN, 1 - _CERTAIN)
        on = np.clip(np.maximum(on, off), _CERTAIN, 1 - _CERTAIN)  # noisy-OR parents never prevent
        absent = np.log1p(-on) - np.log1p(-off)
        prior = (n_on + 0.5) / (n_rows + 1.0)
        base = np.log(prior / (1 - prior)) + absent.sum()
        score = base + np.bincount(row, (np.log(on / off) - absent)[child], len(some))
        q, q_zero = 1 / (1 + np.exp(-np.clip(score, -50, 50))), 1 / (1 + np.exp(-max(base, -50)))
    return some[q > 0.5].astype(np.int64)


def _first_guess(row: LongArray, counted: Any, weight: FloatArray, n_rows: float) -> FloatArray:
    """Return 1.0 for rows with at least two of the children, or with more if two are common."""
    number = np.bincount(row[counted], minlength=len(weight))
    least = 2
    while weight[number >= least].sum() > _LARGEST_SHARE * n_rows:
        least += 1
    return (number >= least).astype(np.float64)


# ---- parameters, given the rows of every node


class _Events(NamedTuple):
    """Possible reasons why each node is on, for every row in which it is on.

    ``event`` and ``param`` (n_entries,): an active parameter of the event, which is a leak or an
    edge from a parent that is on; ``exposed`` (n_params,): number of rows in which a parameter was
    active, whether its node is on or off; ``weight`` (n_events,): weight of the row of each event.
    """

    event: LongArray
    param: LongArray
    exposed: FloatArray
    weight: FloatArray


def _events(
    network: Network,
    rows_on: list[LongArray],
    rows_missing: list[LongArray],
    weights: FloatArray,
) -> _Events:
    first_event = np.concatenate([[0], np.cumsum([len(rows) for rows in rows_on])])
    n_events = int(first_event[-1])
    observed = weights.sum() - np.array([weights[rows].sum() for rows in rows_missing])
    exposed = np.bincount(network.leak_param, observed, network.n_params).astype(np.float64)
    event = [np.arange(n_events)]
    param = [np.repeat(network.leak_param, np.diff(first_event)).astype(np.int64)]
    ptr, outgoing = network.outgoing
    for k in range(network.n_hidden):
        on = np.zeros(len(weights), dtype=np.bool_)
        on[rows_on[network.n_visible + k]] = True
        n_on = weights @ on
        for edge in outgoing[ptr[k] : ptr[k + 1]].tolist():
            child = network.edge_child[edge]
            at = np.flatnonzero(on[rows_on[child]])
            event.append(first_event[child] + at)
            param.append(np.full(len(at), network.param[edge], dtype=np.int64))
            unseen = weights[rows_missing[child]] @ on[rows_missing[child]]
            exposed[network.param[edge]] += n_on - unseen
    weight = weights[np.concatenate(rows_on)]
    return _Events(np.concatenate(event), np.concatenate(param), exposed, weight)


def noisy_or_em(
    network: Network,
    rows_on: list[LongArray],
    rows_missing: list[LongArray],
    weights: FloatArray,
) -> FloatArray:
    """Return maximum-likelihood parameters (n_params,), given which nodes are on in each row.

    Parameters
    ----------
    network : the graph.
    rows_on, rows_missing : for every node, visible ones first, the rows in which it is on, and in
        which it is unobserved.
    weights : (n_rows,) of all rows.
    """
    events = _events(network, rows_on, rows_missing, weights)
    weight = events.weight[events.event]
    is_leak = network.roles != "failure"
    at_work = np.bincount(events.param, weight, network.n_params)
    rate = (at_work + 0.5) / np.maximum(events.exposed + 1.0, at_work + 1.0)
    bonus = np.where(is_leak, _COUNT_SMOOTHING * rate, 0.0)
    p = np.clip(rate, _CERTAIN, 0.5)
    for _ in range(_EM_ROUNDS):
        theta = theta_from_probability(p)
        total = np.bincount(events.event, theta[events.param], len(events.weight))
        fired = (p[events.param]) / probability_from_theta(total)[events.event]
        caused = np.bincount(events.param, weight * fired, network.n_params)
        p = np.clip((caused + bonus) / (events.exposed + _COUNT_SMOOTHING), 1e-5, 1 - _CERTAIN)
    edges = theta_from_failure(np.minimum(1 - p, _LARGEST_FAILURE))
    return np.where(is_leak, theta_from_probability(p), edges)
