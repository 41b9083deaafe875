"""Estimators of causes, features and topics, each with its parameters and learning function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import LongArray
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, OPTIONS, check_choice
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidNetworkError, InvalidSettingError
from noisyor.estimators.base import NoisyOrEstimator
from noisyor.io.model_file import TOPIC_WORDS, topic_words_of
from noisyor.learning.recipes import (
    FitResult,
    learn_factors,
    learn_features,
    learn_network,
    learn_topics,
)
from noisyor.model.forward import edge_matrix
from noisyor.model.layout import ConvolutionalLayout
from noisyor.model.names import Kind, hidden_names, topic_words
from noisyor.model.network import Network, probability_from_theta, theta_from_probability


@dataclass(eq=False, repr=False)
class BooleanMatrixFactorization(NoisyOrEstimator):
    """Hidden causes of binary rows, each a set of columns that it switches on.

    Parameters
    ----------
    n_components : number of causes, or ``"auto"`` to choose it by held-out rows; see
        `learn_factors`.
    objective : what the causes are fitted for, see `learn_factors`.
    steps, batch_size, learning_rate, method, output, binarize, random_state, n_jobs,
    progress, checkpoint, resume, time_limit, options : see `NoisyOrEstimator`.

    Attributes
    ----------
    components_ : (n_components, n_features_in_) probability that the cause switches the column on.
    prior_ : (n_components,) probability of each cause.
    noise_, network_, history_, settings_, provenance_ : see `NoisyOrEstimator`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> model = nor.BooleanMatrixFactorization(n_components=2).fit(X)
    >>> model.transform([[1, 1, 0, 0], [1, 1, 1, 1]])
    array([[1, 0],
           [1, 1]], dtype=int8)
    """

    _kind: ClassVar[Kind] = "factors"

    n_components: int | Literal["auto"] = "auto"
    objective: str = field(default="auto", kw_only=True)

    def _check_params(self) -> None:
        super()._check_params()
        COUNT_OR_AUTO.check("n_components", self.n_components)
        OPTIONS["objective"].rule.check("objective", self.objective)

    def _learn(self, rows: Observations, **options: Any) -> FitResult:
        objective: Any = self.objective
        return learn_factors(rows, self.n_components, objective=objective, **options)

    def _components(self, network: Network) -> Any:
        return super()._components(network).toarray()

    @classmethod
    def _params_of(cls, network: Network) -> dict[str, Any]:
        return {"n_components": network.n_hidden}


@dataclass(eq=False, repr=False)
class BlindDeconvolution(NoisyOrEstimator):
    """Features: small shapes whose union at various positions forms binary images.

    Images come as (n_images, height, width), or flattened to rows with ``image_shape`` given, as
    pipelines need them.

    Parameters
    ----------
    n_components : number of features at most, those supported by the images.
    feature_shape : (height, width) of a feature.
    image_shape : (height, width) of flattened images; one of them may be -1, as in ``reshape``.
    border : whether features may hang over the border of the image; None for the default of
        `learn_features`.
    steps, batch_size, learning_rate, method, output, binarize, random_state, n_jobs,
    progress, checkpoint, resume, time_limit, options : see `NoisyOrEstimator`.

    Attributes
    ----------
    components_ : (n_components, height, width) probability that the feature switches a pixel on.
    prior_ : (n_components,) probability of a feature at a place.
    image_shape_ : (height, width) of an image.
    state_shape_ : (n_components, rows, columns); ``transform(X).reshape(-1,
        *state_shape_)`` says which feature lies where.
    noise_, network_, history_, settings_, provenance_ : see `NoisyOrEstimator`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> images = np.zeros((12, 5, 5))
    >>> for number, image in enumerate(images):
    ...     image[number % 4 : number % 4 + 2, number % 3 : number % 3 + 2] = 1
    >>> model = nor.BlindDeconvolution(n_components=1, feature_shape=(2, 2), steps=3).fit(images)
    >>> model.components_.round()
    array([[[1., 1.],
            [1., 1.]]])
    """

    _kind: ClassVar[Kind] = "features"

    n_components: int = 4
    feature_shape: tuple[int, int] = (5, 5)
    image_shape: tuple[int, int] | None = field(default=None, kw_only=True)
    border: bool | None = field(default=None, kw_only=True)

    def inverse_transform(self, X: Any) -> Any:
        """Predict images from placed features: flat, or as images if `fit` was given images."""
        result = super().inverse_transform(X)
        images = getattr(self, "_images", self.image_shape is None)  # a loaded model was not fitted
        return result.reshape(-1, *self.image_shape_) if images else result

    def _check_params(self) -> None:
        super()._check_params()
        COUNT.check("n_components", self.n_components)

    def _rows(self, X: Any, reset: bool) -> Observations:
        shape = _image_shape_of(X)
        if shape is not None and not isinstance(X, Observations):
            X = np.reshape(X, (len(X), -1))
        rows = super()._rows(X, reset)
        if reset:
            self._images = shape is not None
            self.image_shape_ = shape or _completed(self.image_shape, rows.n_visible)
        elif shape is not None and shape != self.image_shape_:
            raise InvalidDataError(f"images have shape {shape}, expected {self.image_shape_}")
        return rows

    def _learn(self, rows: Observations, **options: Any) -> FitResult:
        if self.border is not None:
            options["border"] = self.border
        images = replace(rows, shape=self.image_shape_)
        return learn_features(images, self.n_components, self.feature_shape, **options)

    def _describe(self, network: Network) -> None:
        super()._describe(network)
        layout = _convolutional(network)
        self.image_shape_ = layout.image_shape
        self.state_shape_ = (layout.n_components, *layout.state_shape)
        self.prior_ = probability_from_theta(network.theta_of("prior"))

    def _components(self, network: Network) -> Any:
        return probability_from_theta(network.theta_of("failure"))

    @classmethod
    def _params_of(cls, network: Network) -> dict[str, Any]:
        layout = _convolutional(network)
        return {"n_components": layout.n_components, "feature_shape": layout.feature_shape}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


@dataclass(eq=False, repr=False)
class NoisyOrNetwork(NoisyOrEstimator):
    """Any noisy-OR network, trained from its present parameters.

    Parameters
    ----------
    structure : a `Network`, or a function that is given the training rows (`Observations`) and
        returns one, such as ``lambda rows: nor.layered(rows, 3)``.
    steps, batch_size, learning_rate, method, output, binarize, random_state, n_jobs,
    progress, checkpoint, resume, time_limit, options : see `NoisyOrEstimator`.

    Attributes
    ----------
    components_ : sparse (n_hidden, n_features_in_) probability that the cause switches the column
        on by an edge of its own.
    prior_ : (n_hidden,) probability of each cause when those above it are off.
    noise_, network_, history_, settings_, provenance_ : see `NoisyOrEstimator`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> graph = nor.bipartite(n_visible=3, n_hidden=2)
    >>> model = nor.NoisyOrNetwork(graph, steps=5).fit(np.eye(3))
    >>> model.transform(np.zeros((1, 3)))
    array([[0, 0]], dtype=int8)
    """

    _kind: ClassVar[Kind] = "network"

    structure: Network | Callable[[Observations], Network] | None = None

    def _check_params(self) -> None:
        super()._check_params()
        if not isinstance(self.structure, Network) and not callable(self.structure):
            raise InvalidSettingError(
                "structure is a Network or a function from rows to one, "
                f"got {type(self.structure).__name__}"
            )

    def _learn(self, rows: Observations, **options: Any) -> FitResult:
        network = self.structure(rows) if callable(self.structure) else self.structure
        if not isinstance(network, Network):
            raise InvalidSettingError(
                f"structure returned {type(network).__name__}, expected a Network"
            )
        names = rows.column_names
        if names is not None and network.visible_names not in (None, names):
            raise InvalidDataError(
                "the columns of the data and the visible nodes of the network have different "
                "names, or another order"
            )
        return learn_network(network, rows, **options)

    @classmethod
    def _params_of(cls, network: Network) -> dict[str, Any]:
        return {"structure": network}


def _convolutional(network: Network) -> ConvolutionalLayout:
    if not isinstance(network.layout, ConvolutionalLayout):
        raise InvalidNetworkError("the network is not convolutional, so it holds no features")
    return network.layout


def _image_shape_of(X: Any) -> tuple[int, int] | None:
    """Return height and width if X holds images: three axes, or four with one channel."""
    shape = tuple(getattr(X, "shape", ()))
    if isinstance(X, Observations):
        return (shape[0], shape[1]) if len(shape) == 2 else None
    if len(shape) == 3 or (len(shape) == 4 and shape[1] == 1):
        return int(shape[-2]), int(shape[-1])
    return None


def _completed(shape: tuple[int, int] | None, n_pixels: int) -> tuple[int, int]:
    """Return the shape of flattened images, with -1 filled in."""
    if shape is None:
        raise InvalidSettingError(
            f"rows of {n_pixels} columns are no images: give images (n_images, height, width), or "
            "image_shape=(height, width)"
        )
    try:
        height, width = np.empty(n_pixels, dtype=np.bool_).reshape(shape).shape
    except (ValueError, TypeError):
        raise InvalidSettingError(
            f"rows of {n_pixels} columns cannot be images of shape {shape!r}"
        ) from None
    return height, width


_BLOCK_CELLS = 4_000_000
_FAINTEST = 1e-12


@dataclass(eq=False, repr=False)
class TopicModel(NoisyOrEstimator):
    """Topics of binary bags of words: a given number, or a hierarchy built from the data.

    Parameters
    ----------
    n_layers : layers including the words, at least 2; not used with ``n_components``.
    n_components : number of topics, in one layer; None for a hierarchy.
    n_parents : topics above each word or topic, not counting its own cluster.
    shrink : ratio of the sizes of two successive layers.
    steps, batch_size, learning_rate, method, output, binarize, random_state, n_jobs,
    progress, checkpoint, resume, time_limit, options : see `NoisyOrEstimator`.

    Attributes
    ----------
    components_ : sparse (n_topics, n_features_in_) probability that the topic switches the word on
        by an edge of its own; topics of the upper layers act through the topics below them, see
        ``network_``.
    prior_ : (n_topics,) probability of each topic when those above it are off.
    topic_words_ : ten descriptive words of each topic of a model with one layer, as column names or
        else indices, see `topic_words`; None for a hierarchy.
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

    def _learn(self, rows: Observations, **options: Any) -> FitResult:
        given = {name: getattr(self, name) for name in ("n_components", "n_parents", "shrink")}
        options |= {name: value for name, value in given.items() if value is not None}
        return learn_topics(rows, self.n_layers, **options)

    def main_topic(self, X: Any, *, absent: Literal["off", "unknown"] = "off") -> LongArray:
        """Return the topic that explains most of the words of each document.

        `transform` returns the topics that are more likely on than off. A title of two words often
        has none, and a long text several. This method divides every word among the topics in
        proportion to their probability and the strength of their edge, and returns the topic with
        the largest sum.

        Parameters
        ----------
        X : (n_documents, n_features_in_) documents.
        absent : how absent words count. ``"off"``: as evidence against topics. ``"unknown"``: as
            unobserved, which suits titles if the model was learned from whole texts.

        Returns
        -------
        (n_documents,) indices of topics, in a hierarchy of the lowest layer; -1 for a document
        without any known word.
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
        return self

    @property
    def topic_words_(self) -> list[list[Any]] | None:
        """Ten descriptive words of each topic of a model with one layer; None for a hierarchy."""
        words, names = topic_words_of(self.provenance_, self.network_), self.network_.visible_names
        if words is None or names is None:
            return words
        return [[names[i] for i in best] for best in words]

    @classmethod
    def _params_of(cls, network: Network) -> dict[str, Any]:
        if network.n_edges == network.n_hidden * network.n_visible:  # a hierarchy has fewer edges
            return {"n_components": network.n_hidden}
        return {"n_layers": network.n_layers + 1}
