"""The estimator of topics: so many, or a hierarchy, and what they are about."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import LongArray
from noisyor._util.validation import check_choice
from noisyor.data.observations import Observations
from noisyor.estimators.base import NoisyOrEstimator
from noisyor.io.provenance import TOPIC_WORDS, topic_words_of
from noisyor.learning.recipes import FitResult, learn_topics
from noisyor.model.forward import edge_matrix
from noisyor.model.layout import BipartiteLayout
from noisyor.model.names import Kind, hidden_names, topic_words
from noisyor.model.network import Network, theta_from_probability

__all__ = ["TopicModel"]

_BLOCK_CELLS = 4_000_000
_FAINTEST = 1e-12


@dataclass(eq=False, repr=False)
class TopicModel(NoisyOrEstimator):
    """Topics of binary bags of words: so many of them, or a hierarchy whose graph the data give.

    Parameters
    ----------
    n_layers : layers including the words, at least 2; not used with ``n_components``.
    n_components : number of topics, in one layer; None for a hierarchy.
    n_parents : topics above each word or topic, not counting its own cluster.
    shrink : ratio of the sizes of two successive layers.
    init : where learning starts, see `learn_topics`.
    steps, batch_size, learning_rate, method, output, binarize, random_state, n_jobs,
    progress, checkpoint, resume, time_limit, options : see `NoisyOrEstimator`.

    Attributes
    ----------
    components_ : sparse (n_topics, n_features_in_) probability that the topic switches the word on
        by an edge of its own; topics of the upper layers act through the topics below them, see
        ``network_``.
    prior_ : (n_topics,) probability of each topic when those above it are off.
    topic_words_ : of topics in one layer ten words each that say what they are about, names of
        columns or else their numbers, see `topic_words`; None of a hierarchy.
    noise_, network_, history_, settings_, provenance_ : see `NoisyOrEstimator`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], [10, 10, 40], axis=0)
    >>> model = nor.TopicModel(n_components=2).fit(X)
    >>> model.topic_words_, model.main_topic([[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    ([[0, 1], [2, 3]], array([ 0,  1, -1]))
    >>> model = nor.TopicModel(n_layers=2, n_parents=1, shrink=2, steps=5).fit(X)
    >>> model.components_.shape, model.prior_.round(1)
    ((2, 4), array([0.2, 0.2]))
    """

    _kind: ClassVar[Kind] = "topics"
    _min_features: ClassVar[int] = 2

    n_layers: int = 3
    n_components: int | None = field(default=None, kw_only=True)
    n_parents: int | None = field(default=None, kw_only=True)
    shrink: int | None = field(default=None, kw_only=True)
    init: str | None = field(default=None, kw_only=True)

    def _learn(self, rows: Observations, **options: Any) -> FitResult:
        graph = {
            "n_components": self.n_components,
            "n_parents": self.n_parents,
            "shrink": self.shrink,
        }
        options |= {name: value for name, value in graph.items() if value is not None}
        return learn_topics(rows, self.n_layers, **options)

    def main_topic(self, X: Any, *, absent: Literal["off", "unknown"] = "off") -> LongArray:
        """Return the topic that explains most of the words of each document.

        `transform` has the topics that are likelier on than off. A title of two words often has
        none, and a long text several. Here the topics share every word of a document by how
        strongly they switch it on, weighted by how probable they are; the largest sum wins.

        Parameters
        ----------
        X : (n_documents, n_features_in_) documents.
        absent : what a word that is not there says. ``"off"``: that the document does without it.
            ``"unknown"``: nothing, which suits titles if the model has learned from whole texts.

        Returns
        -------
        (n_documents,) numbers of topics, of a hierarchy those next to the words; -1 for a document
        that has none of the words.
        """
        check_choice("absent", absent, ("off", "unknown"))
        rows = self._fitted_rows(X)
        strength = edge_matrix(self.network_)[: rows.n_visible]
        noise = theta_from_probability(self.network_.noise_probability)
        found = np.full(rows.n_rows, -1, dtype=np.int64)
        known = np.flatnonzero(np.diff(rows.ptr))
        size = max(1, _BLOCK_CELLS // rows.n_visible)  # so that memory stays bounded
        for begin in range(0, len(known), size):
            numbers = known[begin : begin + size]
            block = rows.take(numbers)
            ones = block.to_csr().toarray() > 0
            if absent == "unknown":
                block = Observations.of(np.where(ones, 1.0, np.nan))
            chance = self._probabilities(block).toarray()
            share = ones / np.maximum(noise + chance @ strength.T, _FAINTEST)
            found[numbers] = (chance * (share @ strength)).argmax(axis=1)
        return found

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return names of the topics, from the first of ``topic_words_`` if columns have names."""
        names = super().get_feature_names_out(input_features)
        words = topic_words_of(self.provenance_, self.network_)
        if words is None or self.network_.hidden_names or self.network_.visible_names is None:
            return names
        return np.array(hidden_names(self.network_, "topics", words), dtype=np.object_)

    def _keep(self, learned: FitResult, rows: Observations) -> Self:
        super()._keep(learned, rows)
        if self.network_.n_layers == 1:
            self.provenance_[TOPIC_WORDS] = topic_words(self.network_, rows)
        self._list_words()
        return self

    def _list_words(self) -> None:
        words, network = topic_words_of(self.provenance_, self.network_), self.network_
        self.topic_words_: list[list[Any]] | None = words
        if words is not None and network.visible_names is not None:
            self.topic_words_ = [[network.visible_names[i] for i in best] for best in words]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` or the command line wrote. ``history_`` is thinned."""
        estimator = super().load(path)
        estimator._list_words()
        return estimator

    @classmethod
    def _params_of(cls, network: Network) -> dict[str, Any]:
        if isinstance(network.layout, BipartiteLayout):  # the graph of a hierarchy is another one
            return {"n_components": network.n_hidden}
        return {"n_layers": network.n_layers + 1}
