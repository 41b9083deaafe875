"""Names of nodes: given ones, or names made from the columns that they switch on.

A topic is named after words that distinguish it from others and that documents have together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import check_count
from noisyor.data.observations import Observations
from noisyor.errors import InvalidNetworkError
from noisyor.model.forward import edge_matrix
from noisyor.model.layout import ConvolutionalLayout
from noisyor.model.network import Network, probability_from_theta

Kind = Literal["factors", "topics", "features", "network"]
"""Kind of a model: causes of columns, hierarchy of topics, patches of images, any graph."""

N_WORDS = 10
"""Words that are listed for a topic."""

CANDIDATES_PER_WORD = 2
"""Distinctive words that are considered for each word that is listed."""

_PENALTIES, _MIN_DISTINCT = (0.0, 0.1, 0.2, 0.3, 0.4), 0.95
"""How much more a word has to co-occur with the words of a topic, in normalized pointwise mutual
information, if it is more distinctive of another topic: the first number with which this share of
the listed words is distinct, or else the last. Chosen on Reuters and IMDB."""

_MAX_WORDS_IN_NAME = 3
"""Columns in the name of a cause."""

_MAX_VISIBLES, _MIN_PROBABILITY = 12, 0.05
"""Columns that are listed for a cause, and the smallest probability that it switches one on."""

_MIN_SHARE_OF_LARGEST = 0.25
"""A column may be in the name of a cause if it has at least this share of the largest
probability."""

_MAX_NAME = 100
"""Characters of the name of a column in the name of a cause."""


def visible_label(network: Network, index: int) -> str:
    """Return the name of a visible node, or else its column number or pixel."""
    if network.visible_names is not None:
        return network.visible_names[index]
    if len(network.visible_shape) == 2:
        row, column = divmod(index, network.visible_shape[1])
        return f"pixel {row},{column}"
    return f"column {index}"


def hidden_label(network: Network, index: int) -> str:
    """Return the name of a hidden node, or its number."""
    if network.hidden_names is not None:
        return network.hidden_names[index]
    return f"cause {index}"


def strongest_visibles(network: Network) -> list[list[tuple[int, float]]]:
    """List for each hidden node the visibles that it is most likely to switch on.

    For a node above other hidden nodes, the probability of the likeliest path is used. At most
    twelve are listed, the likeliest first, none below 5 percent.
    """
    probability = probability_from_theta(network.theta[network.param])
    ptr, edges = network.outgoing
    found: list[list[tuple[int, float]]] = [[] for _ in range(network.n_hidden)]
    for k in np.argsort(-network.hidden_levels, kind="stable").tolist():
        best: dict[int, float] = {}
        outgoing = edges[ptr[k] : ptr[k + 1]]
        for edge in outgoing[probability[outgoing] >= _MIN_PROBABILITY].tolist():
            child, sure = int(network.edge_child[edge]), float(probability[edge])
            below = (
                [(child, 1.0)] if child < network.n_visible else found[child - network.n_visible]
            )
            for visible, further in below:
                best[visible] = max(best.get(visible, 0.0), sure * further)
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:_MAX_VISIBLES]
        found[k] = [(visible, sure) for visible, sure in ranked if sure >= _MIN_PROBABILITY]
    return found


def hidden_names(
    network: Network, kind: Kind, words: Sequence[Sequence[int]] | None = None
) -> tuple[str, ...]:
    """Name the hidden nodes of a learned network after the columns that they switch on.

    Topics: ``"topic 12: word, word, word"``, the first of ``words`` (see `topic_words`) or of those
    distinctive words; in several layers ``"layer1-12: word, word, word"``, layer 1 next to the
    words. Factors: ``"cause 3: column, column, column"``, by the most distinctive columns.
    Features: ``"feature 0 at 3,4"``.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     2, 1, failure_probability=[[0.1, 0.2]], visible_names=["fever", "cough"])
    >>> from noisyor.model.names import hidden_names
    >>> hidden_names(network, "factors")
    ('cause 0: fever, cough',)
    """
    if kind == "features":
        return tuple(_placements(network))
    prefix = _numbers(network, kind)
    if kind == "topics" and network.n_layers == 1:
        found = distinctive_visibles(network) if words is None else words
        chosen = [list(best[:_MAX_WORDS_IN_NAME]) for best in found]
    elif network.n_layers == 1:
        chosen = _telling(network)
    else:
        chosen = [[i for i, _ in best[:_MAX_WORDS_IN_NAME]] for best in strongest_visibles(network)]
    labels = (", ".join(visible_label(network, i)[:_MAX_NAME] for i in best) for best in chosen)
    return tuple(
        f"{name}: {words}" if words else name for name, words in zip(prefix, labels, strict=True)
    )


def _telling(network: Network) -> list[list[int]]:
    """Choose the columns for the name of each cause: distinctive ones that it may switch on.

    Columns that all causes switch on are in no name, unless a cause has no others.
    """
    edge = edge_matrix(network, probability=True)[: network.n_visible].T.toarray()
    least = np.maximum(_MIN_PROBABILITY, _MIN_SHARE_OF_LARGEST * edge.max(axis=1, initial=0.0))
    strongest, chosen = strongest_visibles(network), []
    for k, distinctive in enumerate(distinctive_visibles(network, _MAX_VISIBLES)):
        own = [i for i in distinctive if edge[k, i] >= least[k]]
        chosen.append((own or [i for i, _ in strongest[k]])[:_MAX_WORDS_IN_NAME])
    return chosen


def _numbers(network: Network, kind: Kind) -> Iterable[str]:
    if kind != "topics":
        return (f"cause {k}" for k in range(network.n_hidden))
    if network.n_layers == 1:
        return (f"topic {k}" for k in range(network.n_hidden))
    layer = network.n_layers - network.hidden_levels
    index = np.zeros(network.n_hidden, dtype=np.int64)
    for number in range(1, network.n_layers + 1):
        members = np.flatnonzero(layer == number)
        index[members] = np.arange(len(members))
    return (f"layer{layer[k]}-{index[k]}" for k in range(network.n_hidden))


def _placements(network: Network) -> Iterable[str]:
    layout = network.layout
    if not isinstance(layout, ConvolutionalLayout):
        raise InvalidNetworkError(
            "hidden nodes are features at a position only in a convolutional network"
        )
    for k in range(network.n_hidden):
        component, row, column = layout.placement(k)
        yield f"feature {component} at {row},{column}"


def named_after(network: Network, data: Observations, kind: Kind) -> Network:
    """Return the network with names and shape of the columns, and with names of causes."""
    network = replace(network, visible_names=data.column_names, hidden_names=None)
    if len(network.visible_shape) == 1 and len(data.shape) == 2:
        network = replace(network, visible_shape=data.shape)
    words = topic_words(network, data) if kind == "topics" and network.n_layers == 1 else None
    return replace(network, hidden_names=hidden_names(network, kind, words))


# ---- words of topics


def distinctive_visibles(network: Network, n: int = N_WORDS) -> list[list[int]]:
    """List for each hidden node of a bipartite network its distinctive visible nodes.

    Ranked by p(x | h) log(p(x | h) / p(x)): frequent with the node on, and more frequent than
    otherwise. A word that all topics share is in no list.

    Parameters
    ----------
    network : with one layer of hidden nodes.
    n : visible nodes to list, fewer if only some are more frequent than usual.
    """
    check_count("n", n)
    if network.n_layers != 1:
        raise InvalidNetworkError(
            f"the network has {network.n_layers} layers of hidden nodes, expected one"
        )
    edge = edge_matrix(network, probability=True)[: network.n_visible].T.toarray()
    prior, noise = network.prior_probability, network.noise_probability
    off = np.prod(1.0 - prior[:, None] * edge, axis=0) * (1.0 - noise)
    usual = np.clip(1.0 - off, 1e-12, 1.0)
    own = np.clip(1.0 - (1.0 - noise) * (1.0 - edge), 1e-12, 1.0)
    gain = own * np.log(own / usual)
    order = np.argsort(-gain, axis=1, kind="stable")[:, :n]
    return [[int(i) for i in row if gain[k, i] > 0] for k, row in enumerate(order)]


def topic_words(network: Network, X: Any, n: int = N_WORDS) -> list[list[int]]:
    """List for each topic the words that describe it, the most distinctive first.

    The list starts with twice as many distinctive words (`distinctive_visibles`). The word that
    co-occurs least with the others in documents is removed until ``n`` are left. Co-occurrence is
    measured by normalized pointwise mutual information. The network alone does not show it: in
    short texts two words of a topic may be synonyms that never occur together. If topics share many
    words, a word is removed earlier from the lists of topics that it is less distinctive of.

    Parameters
    ----------
    network : with one layer of topics.
    X : binary documents (n_documents, n_words), preferably those that the network was learned from.
    n : words to list, fewer if only some are more frequent in the topic than elsewhere.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> kinds = [[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]
    >>> X = np.repeat(kinds, [9, 4, 4, 9], axis=0)
    >>> topic = nor.bipartite(4, 1, failure_probability=[[0.2, 0.3, 0.6, 0.7]])
    >>> nor.model.topic_words(topic, X, 2)
    [[0, 1]]
    """
    candidates = distinctive_visibles(network, CANDIDATES_PER_WORD * n)
    return Togetherness(X, network.n_visible).distinct_words(candidates, n)


_STANDARD_DEVIATIONS = 2.0
"""Standard deviations subtracted from the number of documents in which two words co-occur. Words
are listed because they co-occur in the training documents, so they co-occur less in others."""


class Togetherness:
    """Co-occurrence of words in documents, relative to independent words.

    The measure is normalized pointwise mutual information, log(p(a, b) / p(a) p(b)) over -log p(a,
    b): -1 for words that never co-occur, 0 for independent words, 1 for words that always occur
    together. It is predicted for as many other documents. Their expected number of co-occurrences
    is the present number minus two standard deviations. They may have none by chance (Poisson), and
    the measure is then -1; so rare words need more evidence.

    Parameters
    ----------
    X : binary documents (n_documents, n_words); a document in which a word is unobserved does not
        count for pairs with that word.
    n_visible : expected number of words; None accepts any number.
    """

    def __init__(self, X: Any, n_visible: int | None = None) -> None:
        rows = Observations.of(X, n_visible=n_visible)
        self._total = rows.total_weight
        weight = sp.diags_array(np.sqrt(rows.row_weights))
        self._ones = sp.csc_array(weight @ rows.to_csr().astype(np.float64))
        self._missing = sp.csc_array(weight @ rows.missing_csr().astype(np.float64))

    def of(self, columns: npt.ArrayLike) -> FloatArray:
        """Return the measure for all pairs of some words, (n, n); 0 for a word and itself."""
        ones, missing = self._ones[:, columns], self._missing[:, columns]
        both = (ones.T @ ones).toarray()
        absent = (missing.T @ missing).toarray()
        seen = self._total - np.diag(absent)[:, None] - np.diag(absent)[None, :] + absent
        seen = np.maximum(seen, 1e-300)
        share = np.diag(both) / np.diag(seen)
        # The standard deviation of the root of a Poisson number is about 1/2.
        expected = np.maximum(np.sqrt(both) - 0.5 * _STANDARD_DEVIATIONS, 0.0) ** 2
        some = -np.expm1(-expected)  # probability of at least one co-occurrence
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = expected / some / seen  # share of documents with both, if there are any
            found = np.log(rate / np.outer(share, share)) / -np.log(rate)
            found = some * np.where(rate < 1, found, 0.0) - (1.0 - some)
        found = np.where(expected > 0, found, -1.0)
        np.fill_diagonal(found, 0.0)
        return found

    def distinct_words(self, candidates: list[list[int]], n: int) -> list[list[int]]:
        """Return the ``n`` words of each list that co-occur most; few of them are in two lists."""
        for penalty in _PENALTIES:
            chosen = self.words(candidates, n, penalty)
            listed = [word for words in chosen for word in words]
            if len(set(listed)) >= _MIN_DISTINCT * len(listed):
                break
        return chosen

    def words(self, candidates: list[list[int]], n: int, penalty: float = 0.0) -> list[list[int]]:
        """Return the ``n`` words of each list that co-occur most, in the order of the list.

        ``penalty`` is subtracted from the co-occurrence of a word that is nearer to the start of
        another list.
        """
        ranks: dict[int, int] = {}
        for words in candidates:
            for rank, word in enumerate(words):
                ranks[word] = min(rank, ranks.get(word, rank))
        chosen = []
        for words in candidates:
            is_shared = np.array([ranks[word] < rank for rank, word in enumerate(words)])
            chosen.append(self._struck(words, n, penalty * is_shared))
        return chosen

    def mean(self, columns: list[int]) -> float:
        """Return the mean over the pairs of some words; -1 if there is no pair."""
        count = len(columns)
        return float(self.of(columns).sum() / (count * (count - 1))) if count > 1 else -1.0

    def _struck(self, words: list[int], n: int, penalty: FloatArray) -> list[int]:
        pairs, left = self.of(words), np.arange(len(words))
        while len(left) > n:
            sums = pairs[np.ix_(left, left)].sum(axis=1) - penalty[left] * (len(left) - 1)
            worst = len(left) - 1 - int(np.argmin(sums[::-1]))  # of equals the less distinctive
            left = np.delete(left, worst)
        return [words[i] for i in left]
