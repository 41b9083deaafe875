"""Names of nodes: given ones, or names made from the columns that they switch on.

A topic is named after words that distinguish it from others and that documents have together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import gammaln

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
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

CANDIDATES_PER_WORD, _REPLACEMENTS_PER_WORD = 2, 8
"""Distinctive words for each listed word: that a topic is known by, and that may be listed."""

_REPETITION = 0.6
"""Advantage over all other candidates, in mean normalized pointwise mutual information with the
words of a topic, that a word needs to be listed for a second topic. Chosen on titles of Reuters and
arXiv."""

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

    A list starts with the most distinctive words (`distinctive_visibles`), if possible such as are
    not more distinctive of another topic. A word counts its mean co-occurrence with the other words
    of the list in documents, minus 0.6 if another list has it, too. As long as one of the ``8 n``
    most distinctive words counts more than a listed word, it takes its place. So a word is in two
    lists only if it fits both much better than any other word. Co-occurrence is measured by
    normalized pointwise mutual information. The network alone does not show it: in short texts two
    words of a topic may be synonyms that never occur together.

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
    candidates = distinctive_visibles(network, _REPLACEMENTS_PER_WORD * n)
    return coherent_words(Observations.of(X, n_visible=network.n_visible), candidates, n)


def coherent_words(X: Any, candidates: Sequence[Sequence[int]], n: int) -> list[list[int]]:
    """Return up to ``n`` words of each list that co-occur in documents; see `topic_words`.

    Parameters
    ----------
    X : binary documents (n_documents, n_words).
    candidates : words of each topic, the most distinctive first.
    n : words to list.
    """
    lists = [np.array(words, dtype=np.int64) for words in candidates]
    pairs = Togetherness(X, lists=[words[: CANDIDATES_PER_WORD * n] for words in lists])
    together = [pairs.of(words) for words in lists]
    listed: Counter[int] = Counter()
    chosen = _first_words(lists, n)
    for words, inside in zip(lists, chosen, strict=True):
        listed.update(words[inside].tolist())
    is_changed = True
    while is_changed:
        is_changed = False
        for words, inside, measure in zip(lists, chosen, together, strict=True):
            while _exchange(words, inside, measure, listed):
                is_changed = True
    return [words[inside].tolist() for words, inside in zip(lists, chosen, strict=True)]


def _first_words(lists: list[LongArray], n: int) -> list[BoolArray]:
    """Mark the first words of each list, if possible such as are not nearer to the start of another
    list."""
    ranks: dict[int, int] = {}
    for words in lists:
        for rank, word in enumerate(words.tolist()):
            ranks[word] = min(rank, ranks.get(word, rank))
    chosen = []
    for words in lists:
        is_shared = [ranks[word] < rank for rank, word in enumerate(words.tolist())]
        inside = np.zeros(len(words), dtype=np.bool_)
        inside[np.argsort(is_shared, kind="stable")[:n]] = True
        chosen.append(inside)
    return chosen


def _exchange(
    words: LongArray, inside: BoolArray, together: FloatArray, listed: Counter[int]
) -> bool:
    """Exchange the listed and the other candidate whose exchange helps most, if one does.

    ``listed`` has the number of lists of each word.
    """
    old, new = np.flatnonzero(inside), np.flatnonzero(~inside)
    if not len(old) or not len(new):
        return False
    sums = together[:, old].sum(axis=1)
    others = max(len(old) - 1, 1)
    lost = sums[old] / others - _REPETITION * np.array([listed[w] > 1 for w in words[old].tolist()])
    won = (sums[new][None, :] - together[np.ix_(old, new)]) / others
    won -= _REPETITION * np.array([listed[w] > 0 for w in words[new].tolist()])
    gain = won - lost[:, None]
    out, into = divmod(int(np.argmax(gain)), len(new))
    if gain[out, into] <= _LEAST_GAIN:
        return False
    inside[old[out]], inside[new[into]] = False, True
    listed[int(words[old[out]])] -= 1
    listed[int(words[new[into]])] += 1
    return True


_LEAST_GAIN = 1e-9
"""Smaller gains of an exchange are rounding errors, by which words could be exchanged for ever."""


_STANDARD_DEVIATIONS, _STANDARD_DEVIATIONS_WITH_PRIOR = 2.0, 1.0
"""Standard deviations subtracted from the number of documents in which two words co-occur. Words
are listed because they co-occur in the training documents, so they co-occur less in others."""

_LOG_PRIOR = (-7.0, 7.0)
"""Bounds of the logarithms of the two parameters of the prior."""


class Togetherness:
    """Co-occurrence of words in documents, relative to independent words.

    The measure is normalized pointwise mutual information, log(p(a, b) / p(a) p(b)) over -log p(a,
    b): -1 for words that never co-occur, 0 for independent words, 1 for words that always occur
    together. It is predicted for as many other documents. Their expected number of co-occurrences
    is the present number minus two standard deviations. They may have none by chance (Poisson), and
    the measure is then -1; so rare words need more evidence.

    With ``lists``, a gamma prior of the ratio of observed to independent co-occurrences is fitted
    to the pairs of words in these lists by maximum likelihood. The expected number is then the mean
    of the posterior minus one standard deviation.

    Parameters
    ----------
    X : binary documents (n_documents, n_words); a document in which a word is unobserved does not
        count for pairs with that word.
    n_visible : expected number of words; None accepts any number.
    lists : words of each topic, whose pairs determine the prior.
    """

    def __init__(
        self, X: Any, n_visible: int | None = None, lists: Sequence[npt.ArrayLike] = ()
    ) -> None:
        rows = Observations.of(X, n_visible=n_visible)
        self._total = rows.total_weight
        weight = sp.diags_array(np.sqrt(rows.row_weights))
        self._ones = sp.csc_array(weight @ rows.to_csr().astype(np.float64))
        self._missing = sp.csc_array(weight @ rows.missing_csr().astype(np.float64))
        self._shape, self._rate = 0.0, 0.0
        self._deviations = _STANDARD_DEVIATIONS
        if lists:
            self._shape, self._rate = self._fitted_prior(lists)
            self._deviations = _STANDARD_DEVIATIONS_WITH_PRIOR

    def of(self, columns: npt.ArrayLike) -> FloatArray:
        """Return the measure for all pairs of some words, (n, n); 0 for a word and itself."""
        both, seen, share = self._counts(columns)
        usual = seen * np.outer(share, share)
        # The standard deviation of the root of a Poisson number is about 1/2.
        least = np.sqrt(both + self._shape) - 0.5 * self._deviations
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.maximum(least, 0.0) ** 2 * (usual / (usual + self._rate))
            expected = np.where(usual > 0, expected, 0.0)
            some = -np.expm1(-expected)  # probability of at least one co-occurrence
            rate = expected / some / seen  # share of documents with both, if there are any
            found = np.log(rate / np.outer(share, share)) / -np.log(rate)
            found = some * np.where(rate < 1, found, 0.0) - (1.0 - some)
        found = np.where(expected > 0, found, -1.0)
        np.fill_diagonal(found, 0.0)
        return found

    def _counts(self, columns: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return documents with both words and those that show both, (n, n), and shares (n,)."""
        ones, missing = self._ones[:, columns], self._missing[:, columns]
        both = (ones.T @ ones).toarray()
        absent = (missing.T @ missing).toarray()
        seen = self._total - np.diag(absent)[:, None] - np.diag(absent)[None, :] + absent
        seen = np.maximum(seen, 1e-300)
        return both, seen, np.diag(both) / np.diag(seen)

    def _fitted_prior(self, lists: Sequence[npt.ArrayLike]) -> tuple[float, float]:
        """Return shape and rate of the gamma prior with the highest likelihood."""
        from scipy.optimize import minimize  # not at the top: it takes long to import

        numbers, usuals = [np.empty(0)], [np.empty(0)]
        for words in lists:
            both, seen, share = self._counts(words)
            pair = np.triu_indices(len(share), 1)
            numbers.append(both[pair])
            usuals.append((seen * np.outer(share, share))[pair])
        number, usual = np.concatenate(numbers), np.concatenate(usuals)
        number, usual = number[usual > 0], usual[usual > 0]

        def loss(logs: FloatArray) -> float:
            shape, rate = np.exp(np.clip(logs, *_LOG_PRIOR))
            terms = gammaln(number + shape) - number * np.log(rate + usual)
            terms += shape * np.log(rate / (rate + usual)) - gammaln(shape)
            return -float(terms.sum())

        best = minimize(loss, np.array([0.0, -1.0]), method="Nelder-Mead").x
        shape, rate = np.exp(np.clip(best, *_LOG_PRIOR)).tolist()
        return shape, rate

    def words(self, candidates: list[list[int]], n: int) -> list[list[int]]:
        """Return the ``n`` words of each list that co-occur most, in the order of the list."""
        return [self._struck(words, n) for words in candidates]

    def mean(self, columns: list[int]) -> float:
        """Return the mean over the pairs of some words; -1 if there is no pair."""
        count = len(columns)
        return float(self.of(columns).sum() / (count * (count - 1))) if count > 1 else -1.0

    def _struck(self, words: list[int], n: int) -> list[int]:
        pairs, left = self.of(words), np.arange(len(words))
        while len(left) > n:
            sums = pairs[np.ix_(left, left)].sum(axis=1)
            worst = len(left) - 1 - int(np.argmin(sums[::-1]))  # of equals the less distinctive
            left = np.delete(left, worst)
        return [words[i] for i in left]
