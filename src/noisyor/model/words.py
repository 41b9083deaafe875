"""What a topic is about: words that tell it from others, and that documents have together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import NOT_NEGATIVE, check_count
from noisyor.data.observations import Observations
from noisyor.errors import InvalidNetworkError
from noisyor.model.forward import edge_matrix
from noisyor.model.graph import Network

__all__ = ["N_WORDS", "Togetherness", "distinctive_visibles", "topic_words"]

N_WORDS = 10
"""Words that are listed for a topic."""

_CANDIDATES = 2
"""Times as many distinctive words are looked at as are listed."""


def distinctive_visibles(network: Network, n: int = N_WORDS) -> list[list[int]]:
    """For each hidden node of a bipartite network the visible nodes that tell it from others.

    Ranked by p(x | h) log(p(x | h) / p(x)): what the node switches on often, and more often than is
    usual. A word that every topic has is in no list of words although all switch it on.

    Parameters
    ----------
    network : with one layer of hidden nodes.
    n : visible nodes to list, fewer if only some are more frequent than usual.

    Examples
    --------
    >>> import noisyor as nor
    >>> failure = [[0.1, 0.3, 1.0], [0.1, 1.0, 0.3]]
    >>> nor.model.distinctive_visibles(nor.bipartite(3, 2, failure_probability=failure), 1)
    [[1], [2]]
    """
    check_count("n", n)
    if network.n_layers != 1:
        raise InvalidNetworkError(
            f"the network has {network.n_layers} layers of hidden nodes, expected one"
        )
    edge = edge_matrix(network, probability=True)[: network.n_visible].T.toarray()
    prior, noise = network.prior_probability, network.noise_probability
    on, sets = prior[:, None] * edge, network.sets
    off = np.prod(1.0 - on[sets.number < 0], axis=0) * (1.0 - noise)
    if sets:  # of which one is on at most
        of_sets = np.add.reduceat(on[sets.member], sets.ptr[:-1], axis=0)
        off *= np.prod(1.0 - np.minimum(of_sets, 1.0), axis=0)
    usual = np.clip(1.0 - off, 1e-12, 1.0)
    own = np.clip(1.0 - (1.0 - noise) * (1.0 - edge), 1e-12, 1.0)
    gain = own * np.log(own / usual)
    order = np.argsort(-gain, axis=1, kind="stable")[:, :n]
    return [[int(i) for i in row if gain[k, i] > 0] for k, row in enumerate(order)]


def topic_words(network: Network, X: Any, n: int = N_WORDS) -> list[list[int]]:
    """For each topic the words that say what it is about, the most distinctive first.

    Of twice as many distinctive words, see `distinctive_visibles`, the one that goes least with
    the others in documents is struck out until ``n`` are left. Two words go together by their
    normalised pointwise mutual information, see `Togetherness`. A topic alone does not know this:
    in short texts two of its words may be alternatives that never meet.

    Parameters
    ----------
    network : with one layer of topics.
    X : binary documents (n_documents, n_words), best those that the network was learned from; or
        what was counted in them.
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
    pairs = X if isinstance(X, Togetherness) else Togetherness(X, network.n_visible)
    return pairs.words(distinctive_visibles(network, _CANDIDATES * n), n)


class Togetherness:
    """How much more often two words are met in one document than by chance.

    The measure is normalised pointwise mutual information, log(p(a, b) / p(a) p(b)) over
    -log p(a, b): -1 for words that never meet, 0 by chance, 1 for words that are never apart. Few
    meetings are weak evidence, so one standard deviation is subtracted from their number.

    Parameters
    ----------
    X : binary documents (n_documents, n_words); where a word is unknown in one of them, it does
        not count for pairs with that word.
    n_visible : number of words that is expected, if any is.
    caution : standard deviations to subtract.

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.model.words import Togetherness
    >>> X = np.repeat([[1, 1, 0], [0, 0, 1]], 50, axis=0)
    >>> Togetherness(X, caution=0).of([0, 1, 2]).round(2)
    array([[ 0.,  1., -1.],
           [ 1.,  0., -1.],
           [-1., -1.,  0.]])
    """

    def __init__(self, X: Any, n_visible: int | None = None, *, caution: float = 1.0) -> None:
        NOT_NEGATIVE.check("caution", caution)
        rows = Observations.of(X, n_visible=n_visible)
        self._caution, self._total = caution, rows.total_weight
        weight = sp.diags_array(np.sqrt(rows.row_weights))
        self._ones = sp.csc_array(weight @ rows.to_csr().astype(np.float64))
        self._missing = sp.csc_array(weight @ rows.missing_csr().astype(np.float64))

    def of(self, columns: npt.ArrayLike) -> FloatArray:
        """The measure for all pairs of some words, (n, n); 0 for a word and itself."""
        ones, missing = self._ones[:, columns], self._missing[:, columns]
        both = (ones.T @ ones).toarray()
        absent = (missing.T @ missing).toarray()
        seen = self._total - np.diag(absent)[:, None] - np.diag(absent)[None, :] + absent
        share = np.diag(both) / np.maximum(np.diag(seen), 1e-300)
        sure = np.maximum(both - self._caution * np.sqrt(both), 0.0) / np.maximum(seen, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(sure / np.outer(share, share)) / -np.log(sure)
        found = np.where(sure > 0, np.where(sure < 1, found, 0.0), -1.0)
        np.fill_diagonal(found, 0.0)
        return found

    def words(self, candidates: list[list[int]], n: int) -> list[list[int]]:
        """Of each list the ``n`` words that go best together, in the order of the list."""
        return [self._struck(words, n) for words in candidates]

    def mean(self, columns: list[int]) -> float:
        """Mean over the pairs of some words; -1 if there is no pair."""
        count = len(columns)
        return float(self.of(columns).sum() / (count * (count - 1))) if count > 1 else -1.0

    def _struck(self, words: list[int], n: int) -> list[int]:
        pairs, left = self.of(words), np.arange(len(words))
        while len(left) > n:
            sums = pairs[np.ix_(left, left)].sum(axis=1)
            worst = len(left) - 1 - int(np.argmin(sums[::-1]))  # of equals the less distinctive
            left = np.delete(left, worst)
        return [words[i] for i in left]
