"""Of more topics than are asked for those that are worth a place."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._util.validation import check_count
from noisyor.errors import InvalidSettingError
from noisyor.network.graph import Network
from noisyor.network.parameters import probability_from_theta
from noisyor.network.topic_words import Togetherness, topic_words
from noisyor.search.topic_start import topics_in_one_layer

__all__ = ["choose_topics"]


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
    edge = np.zeros((network.n_hidden, network.n_visible))
    edge[network.parent, network.edge_child] = probability_from_theta(network.theta[network.param])
    prior, noise = network.prior_probability, network.noise_probability
    left = np.setdiff1d(np.arange(network.n_hidden), kept)
    silent = np.prod(1.0 - prior[left, None] * edge[left], axis=0)
    return topics_in_one_layer(edge[kept], prior[kept], 1.0 - (1.0 - noise) * silent)


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
