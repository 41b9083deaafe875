"""From data to a learned network in one call, one function per kind of network.

Estimators and the command line call these. Where the paper's protocol is wanted instead, put it
together from `initialize` and `train`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisyor.errors import InvalidDataError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.initialization import initialize
from noisyor.layering import layered
from noisyor.network import Network
from noisyor.observations import Observations
from noisyor.structure import bipartite, convolutional
from noisyor.training import History, train

__all__ = ["Learned", "learn_factors", "learn_features", "learn_network", "learn_topics"]


@dataclass(frozen=True, eq=False)
class Learned:
    """A learned network, the record of its training, and the settings that made it (for JSON)."""

    network: Network
    history: History
    settings: dict[str, Any]


def learn_network(
    network: Network,
    X: Any,
    *,
    method: Method | None = None,
    steps: int = 1000,
    batch_size: int | None = 100,
    learning_rate: float = 0.01,
    seed: int = 0,
    **options: Any,
) -> Learned:
    """Train any network from its present parameters.

    Parameters
    ----------
    network : graph and starting parameters.
    X : training data in any form that `Observations.of` takes.
    method, steps, batch_size, learning_rate, seed, options : see `train`.
    """
    method = MaxProduct() if method is None else method
    result = train(
        network,
        X,
        method,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
        **options,
    )
    settings = {
        "method": method.settings(),
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    return Learned(result.network, result.history, settings)


def learn_factors(
    X: Any, n_hidden: int, *, init: str = "paper-3", seed: int = 0, **training: Any
) -> Learned:
    """Boolean matrix factorisation: hidden causes, each a set of columns that it switches on.

    Parameters
    ----------
    X : binary data (n_rows, n_visible).
    n_hidden : number of causes.
    init : name of a start, see `initialize`.
    seed : of the start and of the training.
    training : see `learn_network`.
    """
    observations = Observations.of(X)
    network = bipartite(observations.n_visible, n_hidden)
    network = initialize(network, init, noise="uniform", seed=seed)
    defaults: dict[str, Any] = {
        "method": MaxProduct(temperature=1.0),
        "steps": 4000,
        "batch_size": 20,
        "learning_rate": 3e-3,
    }
    return learn_network(network, observations, seed=seed, **(defaults | training))


def learn_topics(
    X: Any,
    n_layers: int = 3,
    *,
    n_parents: int = 5,
    shrink: int = 3,
    init: str = "paper-3",
    seed: int = 0,
    **training: Any,
) -> Learned:
    """A hierarchy of topics above binary bags of words, its graph built from the data.

    Parameters
    ----------
    X : binary data (n_documents, n_words).
    n_layers, n_parents, shrink : see `layered`.
    init : name of a start, see `initialize`.
    seed : of the training.
    training : see `learn_network`.
    """
    observations = Observations.of(X)
    network = layered(observations, n_layers, n_parents=n_parents, shrink=shrink)
    network = initialize(network, init, seed=seed)
    defaults: dict[str, Any] = {
        "method": MaxProduct(ancestors_only=True),
        "steps": 1000,
        "batch_size": 128,
        "learning_rate": 0.01,
    }
    return learn_network(network, observations, seed=seed, **(defaults | training))


def learn_features(
    images: Any,
    n_features: int,
    feature_shape: tuple[int, int],
    *,
    border: bool = True,
    init: str = "paper-3",
    seed: int = 0,
    **training: Any,
) -> Learned:
    """Blind deconvolution: small features that, stamped into place, make up binary images.

    Parameters
    ----------
    images : (n_images, height, width), 0/1.
    n_features, feature_shape, border : see `convolutional`.
    init : name of a start, see `initialize`.
    seed : of the start and of the training.
    training : see `learn_network`.
    """
    images = np.asarray(images)
    if images.ndim != 3:
        raise InvalidDataError(f"images have shape (n_images, height, width), got {images.shape}")
    height, width = images.shape[1:]
    network = convolutional((height, width), n_features, feature_shape, border=border)
    network = initialize(network, init, noise="uniform", seed=seed)
    defaults: dict[str, Any] = {
        "method": MaxProduct(temperature=1.0),
        "steps": 1500,
        "batch_size": None,
        "learning_rate": 0.01,
    }
    return learn_network(network, Observations.of(images), seed=seed, **(defaults | training))
