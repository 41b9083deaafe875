"""From data to a learned network in one call, one function per kind of network.

Estimators and the command line call these. Where the paper's protocol is wanted instead, put it
together from `initialize` and `train`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from noisyor._util.validation import is_whole
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.initialize import initialize
from noisyor.learning.pruning import prune_causes
from noisyor.learning.train import History, train
from noisyor.network.builders import bipartite, convolutional
from noisyor.network.cooccurrence import layered
from noisyor.network.graph import Network
from noisyor.search.count_start import start_from_counts
from noisyor.search.factor_start import (
    EXACT,
    counts_say_all,
    start_from_factors,
    start_from_features,
)
from noisyor.search.factors import search_factors
from noisyor.search.features import search_features
from noisyor.search.restarts import sample_rows

__all__ = [
    "Learned",
    "learn_factors",
    "learn_features",
    "learn_network",
    "learn_topics",
    "start_by_sampling",
]


_RECORDED = ("smoothing", "final_learning_rate", "relative")
"""Options of `train` that shape the result, kept with it when they were given."""

_SWEEPS = 40
"""Rounds of Gibbs sampling after a search or a first training."""

_MOST_SAMPLED = 2**23
"""Entries of the rows that are sampled; beyond, a part of the rows is."""

_ROWS_TO_COMPARE = 1000
"""With fewer rows, what causes are worth is better judged by description length than by bound."""


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
    settings: dict[str, Any] = {
        "method": method.settings(),
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
        **{name: options[name] for name in _RECORDED if name in options},
    }
    return Learned(result.network, result.history, settings)


def learn_factors(
    X: Any,
    n_hidden: int | Literal["auto"],
    *,
    init: str = "data",
    noise: Literal["shared", "per_visible"] = "per_visible",
    starts: int = 12,
    spare: int = 16,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = None,
    **training: Any,
) -> Learned:
    """Boolean matrix factorisation: hidden causes, each a set of columns that it switches on.

    Parameters
    ----------
    X : binary data (n_rows, n_visible).
    n_hidden : number of causes; ``"auto"`` finds it.
    init : ``"data"`` searches the data for causes (see `search_factors`) and fine-tunes them,
        unless counts say all there is to learn; the network then has at most `n_hidden` causes,
        those that the data pay for. Or the name of one of the paper's starts, see `initialize`,
        with `n_hidden` causes.
    noise : one noise probability for all columns, or one for each.
    starts : of the search, at most.
    spare : further causes to search for, given a thousand rows or more. If the data pay for them,
        all are trained for a while, and the `n_hidden` without which the bound falls most are kept.
    seed : of the start and of the training.
    training : see `learn_network`.
    """
    observations = Observations.of(X)
    options: dict[str, Any] = {"engine": engine, "progress": progress, "seed": seed}
    if init == "data":
        network, settled = _factors_from_data(
            observations, n_hidden, noise, starts, spare, **options
        )
        defaults: dict[str, Any] = {
            "method": MaxProduct(temperature=1.0),
            "steps": 0 if settled else 200,
            "learning_rate": 1e-3,
            "final_learning_rate": 1e-4,
            "smoothing": 0.5,
        }
    else:
        if isinstance(n_hidden, str):
            raise InvalidSettingError('the number of causes is found with init="data" only')
        network = bipartite(observations.n_visible, n_hidden, noise=noise)
        network = initialize(network, init, noise="uniform", seed=seed)
        defaults = {
            "method": MaxProduct(temperature=1.0),
            "steps": 4000,
            "batch_size": 20,
            "learning_rate": 3e-3,
        }
    learned = learn_network(network, observations, **(defaults | options | training))
    return replace(learned, settings={"init": init, "noise": noise, **learned.settings})


def _factors_from_data(
    observations: Observations,
    n_hidden: int | Literal["auto"],
    noise: Literal["shared", "per_visible"],
    starts: int,
    spare: int,
    *,
    seed: int,
    **run: Any,
) -> tuple[Network, bool]:
    """Causes that a search found, with their parameters, and whether nothing is left to train."""
    if not isinstance(n_hidden, str) and not (is_whole(n_hidden) and n_hidden >= 1):
        raise InvalidSettingError(f"n_hidden must be at least 1 or 'auto', got {n_hidden!r}")
    if not (is_whole(spare) and spare >= 0):
        raise InvalidSettingError(f"spare must be 0, 1, …, got {spare!r}")
    enough = observations.n_rows >= _ROWS_TO_COMPARE
    most = observations.n_visible if isinstance(n_hidden, str) else n_hidden
    sought = n_hidden if isinstance(n_hidden, str) or not enough else n_hidden + spare
    found = search_factors(observations, sought, starts=starts, seed=seed, **run)
    network = bipartite(observations.n_visible, max(1, len(found.factors)), noise=noise)
    network = start_from_factors(network, observations, found)
    exact = max(found.rates) < EXACT if enough else counts_say_all(found, observations)
    if exact and network.n_hidden <= most:
        return network, True
    _, rows = sample_rows(observations, _MOST_SAMPLED, seed)
    network = learn_by_gibbs(network, rows, sweeps=_SWEEPS, seed=seed, **run)
    if enough:
        network = prune_causes(network, rows, most, seed=seed, engine=run["engine"])
        network = learn_by_gibbs(network, rows, sweeps=_SWEEPS, seed=seed, **run)
    return network, False


def learn_topics(
    X: Any,
    n_layers: int = 3,
    *,
    n_parents: int | None = None,
    shrink: int = 3,
    init: str = "data",
    seed: int = 0,
    **training: Any,
) -> Learned:
    """A hierarchy of topics above binary bags of words, its graph built from the data.

    Max-product, the default, is made for explanations by the most likely topics. The highest bounds
    on the probability of documents are reached by ``method=MeanField(tolerance=1e-4)`` over some
    hundred words, and by ``MeanField(local=True, tolerance=1e-4)`` over thousands.

    Parameters
    ----------
    X : binary data (n_documents, n_words).
    n_layers, shrink : see `layered`.
    n_parents : see `layered`; by default 5, or 15 if full mean-field starts from the data.
    init : ``"data"``: max-product and local mean-field start from counts, see `start_from_counts`,
        and take steps in proportion to the parameters; full mean-field starts from a first
        training and Gibbs sampling, see `start_by_sampling`. All are refined with large batches, a
        rate that falls to a tenth, and smoothing. Or the name of one of the paper's starts, see
        `initialize`, with small batches and a constant rate.
    seed : of the start and of the training.
    training : see `learn_network`.
    """
    observations = Observations.of(X)
    method = training.get("method")
    sampled = init == "data" and isinstance(method, MeanField) and not method.local
    if n_parents is None:
        n_parents = 15 if sampled else 5
    network = layered(observations, n_layers, n_parents=n_parents, shrink=shrink)
    defaults: dict[str, Any] = {"method": MaxProduct(ancestors_only=True)}
    if init != "data":
        network = initialize(network, init, seed=seed)
        defaults |= {"steps": 1000, "batch_size": 128, "learning_rate": 0.01}
    elif sampled:
        assert isinstance(method, MeanField)
        run = {name: training[name] for name in ("engine", "progress") if name in training}
        network = start_by_sampling(network, observations, method, seed=seed, **run)
        defaults |= {"steps": 400, "learning_rate": 0.005}
    else:
        network = start_from_counts(network, observations)
        # Of ten thousand words most are in less than a hundredth of the documents. Steps of one
        # size for all would lose the frequencies that the counts have found.
        defaults |= {"steps": 200, "learning_rate": 0.05, "relative": True}
    if init == "data":
        # In a small batch the one occurrence of a rare word is a gradient of thousands, which
        # Adam remembers for a thousand steps: the word's noise would stay where it happens to be.
        rate = training.get("learning_rate", defaults["learning_rate"])
        defaults |= {"batch_size": 1024, "smoothing": 1.0, "final_learning_rate": 0.1 * rate}
    learned = learn_network(network, observations, seed=seed, **(defaults | training))
    return replace(learned, settings={"init": init, **learned.settings})


def start_by_sampling(
    network: Network,
    X: Any,
    method: MeanField,
    *,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = None,
) -> Network:
    """Starting parameters for mean-field: a first training by it, then Gibbs sampling.

    Mean-field alone stays with whichever causes it chose first. Sampling moves them apart, and
    training goes on from a better place.

    Parameters
    ----------
    network : any graph; its free parameters are not used.
    X : training data.
    method : of the first training.
    """
    options: dict[str, Any] = {"seed": seed, "engine": engine, "progress": progress}
    network = initialize(network, "paper-3", noise="uniform", seed=seed)
    network = train(
        network,
        X,
        method,
        steps=400,
        batch_size=1024,
        learning_rate=0.01,
        final_learning_rate=2e-3,
        smoothing=1.0,
        **options,
    ).network
    _, rows = sample_rows(Observations.of(X), _MOST_SAMPLED, seed)
    return learn_by_gibbs(network, rows, sweeps=_SWEEPS, **options)


def learn_features(
    images: Any,
    n_features: int,
    feature_shape: tuple[int, int],
    *,
    border: bool = True,
    init: str = "data",
    starts: int = 6,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = None,
    **training: Any,
) -> Learned:
    """Blind deconvolution: small features that, stamped into place, make up binary images.

    Parameters
    ----------
    images : (n_images, height, width), 0/1.
    n_features, feature_shape, border : see `convolutional`.
    init : ``"data"`` searches the images for features (see `search_features`) and fine-tunes them;
        the network then has at most `n_features` features, those that the images pay for. Or the
        name of one of the paper's starts, see `initialize`, with `n_features` features.
    starts : of the search, at most.
    seed : of the start and of the training.
    training : see `learn_network`.
    """
    images = np.asarray(images)
    if images.ndim != 3:
        raise InvalidDataError(f"images have shape (n_images, height, width), got {images.shape}")
    height, width = images.shape[1:]
    observations = Observations.of(images)
    options: dict[str, Any] = {"engine": engine, "progress": progress, "seed": seed}
    if init == "data":
        found = search_features(
            observations, n_features, feature_shape, border=border, starts=starts, **options
        )
        size = max(1, len(found.features))
        network = convolutional((height, width), size, feature_shape, border=border)
        network = start_from_features(network, found)
        defaults: dict[str, Any] = {
            "method": MaxProduct(polish=5),
            "steps": 50,
            "batch_size": 200,
            # The prior of a place is some thousandths: a larger first step would leave it behind.
            "learning_rate": 3e-4,
            "final_learning_rate": 3e-5,
            "smoothing": 0.5,
        }
    else:
        network = convolutional((height, width), n_features, feature_shape, border=border)
        network = initialize(network, init, noise="uniform", seed=seed)
        defaults = {
            "method": MaxProduct(temperature=1.0),
            "steps": 1500,
            "batch_size": None,
            "learning_rate": 0.01,
        }
    learned = learn_network(network, observations, **(defaults | options | training))
    return replace(learned, settings={"init": init, **learned.settings})
