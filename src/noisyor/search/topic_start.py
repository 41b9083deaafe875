"""A start for a given number of topics: documents factorised, and of more topics the best."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import check_count, check_seed
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.model.builders import bipartite
from noisyor.model.forward import edge_matrix
from noisyor.model.names import Togetherness, topic_words
from noisyor.model.network import Network
from noisyor.search.restarts import sample_rows

__all__ = ["choose_topics", "start_from_topics"]

_MAX_ENTRIES = 2**26
"""Documents times words; above this many, a random subset of the documents is factorised."""

_ROUNDS = 100
"""Of the linear factorisation. What it leaves open is for the rounds that follow."""

_NOISE_SHARE = 0.5
"""Share of the occurrences of a word that no topic explains at the start."""

_RAREST, _SUREST = 1e-4, 0.95


def start_from_topics(X: Any, n_components: int, *, seed: int = 0) -> Network:
    """A bipartite network with an edge from every topic to every word, roughly right.

    Documents are weighted as in information retrieval (rare words count more, documents count
    alike) and factorised without negative numbers. A document belongs to its topics by the shares
    of these; edges, priors and noise are what counts by these shares say.

    Parameters
    ----------
    X : binary data (n_documents, n_words) in any form that `Observations.of` takes.
    n_components : number of topics, at most the number of words or documents.
    seed : of the sample of documents, if there are very many, and of the factorisation.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
    >>> nor.search.start_from_topics(X, 2).failure_probability.round() + 0.0
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
    """Topics with edges to all words, none of them so sure that it could not change any more.

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


def choose_topics(network: Network, X: Any, n_components: int) -> Network:
    """The topics whose words are most often met together, and that do not say the same.

    The likelihood of documents rewards whatever many of them share: senders, greetings, a second
    topic for the same matter. So more topics are learned than are asked for, and one after another
    is kept: that with the highest mean over the pairs of its ten words, see `topic_words`, less the
    share of those words that the topics kept before have. What the others switch on goes to the
    noise of the words, and learning goes on from there.

    Parameters
    ----------
    network : bipartite, with at least ``n_components`` topics.
    X : binary documents (n_documents, n_words) that it was learned from.
    n_components : topics to keep.

    Returns
    -------
    A network of the kind of `start_from_topics`, its topics in the order that they had.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], 10, axis=0)
    >>> failure = [[0.1, 0.1, 1, 1], [0.3, 1, 0.3, 1], [1, 1, 0.1, 0.1], [1, 1, 0.2, 0.2]]
    >>> more = nor.bipartite(4, 4, failure_probability=failure)
    >>> nor.search.choose_topics(more, X, 2).failure_probability.round() + 0.0
    array([[0., 0., 1., 1.],
           [1., 1., 0., 0.]])
    """
    check_count("n_components", n_components)
    if n_components > network.n_hidden:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but the network has {network.n_hidden:,} topics"
        )
    pairs = Togetherness(X, network.n_visible)
    words = topic_words(network, pairs)
    kept = _greedily([pairs.mean(chosen) for chosen in words], words, n_components)
    edge = edge_matrix(network, probability=True)[: network.n_visible].T.toarray()
    prior, noise = network.prior_probability, network.noise_probability
    left = np.setdiff1d(np.arange(network.n_hidden), kept)
    silent = np.prod(1.0 - prior[left, None] * edge[left], axis=0)
    return _in_one_layer(edge[kept], prior[kept], 1.0 - (1.0 - noise) * silent)


def _greedily(value: list[float], words: list[list[int]], n: int) -> list[int]:
    """Numbers of the topics to keep, in order; of equals the first."""
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
