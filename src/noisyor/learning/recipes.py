"""From data to a learned network in one call, one function per kind of network.

Estimators and the command line call these. Where the paper's protocol is wanted instead, put it
together from `initialize` and `train`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.learning.checkpoint import check_place
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.starts import start_by_sampling, start_by_search
from noisyor.learning.state import History
from noisyor.learning.train import train
from noisyor.network.builders import bipartite, convolutional
from noisyor.network.cooccurrence import layered
from noisyor.network.graph import Network
from noisyor.search.count_start import start_from_counts
from noisyor.search.factor_start import start_from_features
from noisyor.search.features import search_features

__all__ = ["FitResult", "learn_factors", "learn_features", "learn_network", "learn_topics"]


_DEFAULTS = TrainOptions(steps=1000, batch_size=100, learning_rate=0.01)


@dataclass(frozen=True, eq=False)
class FitResult:
    """A learned network, the record of its training, and the settings that made it (for JSON).

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
    >>> fitted = nor.learn_factors(X, 2, n_restarts=1, progress=False)
    >>> fitted.network.n_hidden, fitted.settings["seed"]
    (2, 0)
    """

    network: Network
    history: History
    settings: dict[str, Any]


def learn_network(
    network: Network,
    X: Any,
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
    """Train any network from its present parameters.

    Parameters
    ----------
    network : graph and starting parameters.
    X : training data in any form that `Observations.of` takes.
    method : how hidden states are inferred; default ``MaxProduct()``.
    options, changes : how to train; default 1000 steps of 100 rows at a rate of 0.01.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> fitted = nor.learn_network(
    ...     nor.bipartite(n_visible=2, n_hidden=1), np.eye(2), steps=3, progress=False
    ... )
    >>> fitted.settings["steps"], len(fitted.history.elbo)
    (3, 3)
    """
    options = choose_options(options, changes, _DEFAULTS)
    method = MaxProduct() if method is None else method
    result = train(network, X, method, options, held_out=held_out, engine=engine)
    steps = result.state.step if options.steps is None else options.steps
    settings = {"method": method.settings(), **options.record(), "steps": steps}
    return FitResult(result.network, result.history, settings)


def learn_factors(
    X: Any,
    n_components: int | Literal["auto"],
    *,
    init: str = "data",
    noise: Literal["shared", "per_visible"] = "per_visible",
    n_restarts: int = 12,
    n_extra: int = 16,
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
    """Boolean matrix factorisation: hidden causes, each a set of columns that it switches on.

    Parameters
    ----------
    X : binary data (n_rows, n_visible).
    n_components : number of hidden nodes; ``"auto"`` finds it.
    init : ``"data"`` searches the data for factors (see `search_factors`) and fine-tunes them,
        unless counts determine the parameters; the network then has at most `n_components` hidden
        nodes, those supported by the data (MDL). Or the name of one of the paper's starts, see
        `initialize`, with `n_components` hidden nodes.
    noise : one noise probability for all columns, or one for each.
    n_restarts : of the search, at most.
    n_extra : further factors to search for, given a thousand rows or more. If they are supported by
        the data, all are trained for a while, and the `n_components` without which the bound falls
        most are kept.
    method : how hidden states are inferred; default ``MaxProduct(temperature=1.0)``.
    options, changes : how to train; the seed is also that of the start. Defaults depend on `init`.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> fitted = nor.learn_factors(X, "auto", n_restarts=2, progress=False)
    >>> fitted.network.failure_probability.round() + 0.0
    array([[1., 1., 0., 0.],
           [0., 0., 1., 1.]])
    """
    defaults = replace(_DEFAULTS, steps=4000, batch_size=20, learning_rate=3e-3)
    if init == "data":
        defaults = replace(
            _DEFAULTS, steps=200, learning_rate=1e-3, final_learning_rate=1e-4, smoothing=0.5
        )
    also = ("init", "noise", "n_restarts", "n_extra", "method", "options", "held_out", "engine")
    chosen = choose_options(options, changes, defaults, also)
    check_place(chosen.checkpoint)
    observations = Observations.of(X)
    if init == "data":
        network, settled = start_by_search(
            observations,
            n_components,
            noise=noise,
            n_restarts=n_restarts,
            n_extra=n_extra,
            seed=chosen.seed,
            engine=engine,
            progress=chosen.progress,
        )
        if settled and options is None and "steps" not in changes:
            chosen = replace(chosen, steps=0)
    else:
        if isinstance(n_components, str):
            raise InvalidSettingError('the number of causes is found with init="data" only')
        network = bipartite(observations.n_visible, n_components, noise=noise)
        network = initialize(network, init, noise="uniform", seed=chosen.seed)
    method = MaxProduct(temperature=1.0) if method is None else method
    fitted = learn_network(network, observations, method, chosen, held_out=held_out, engine=engine)
    return replace(fitted, settings={"init": init, "noise": noise, **fitted.settings})


def learn_topics(
    X: Any,
    n_layers: int = 3,
    *,
    n_parents: int | None = None,
    shrink: int = 3,
    init: str = "data",
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
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
        and move the logarithms of the parameters; full mean-field starts from a first training and
        Gibbs sampling, see `start_by_sampling`. All are refined with large batches, a rate that
        falls to a tenth, and smoothing. Or the name of one of the paper's starts, see `initialize`,
        with small batches and a constant rate.
    method : how hidden states are inferred; default ``MaxProduct(ancestors_only=True)``.
    options, changes : how to train; the seed is also that of the start. Defaults depend on `init`.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], 10, axis=0)
    >>> fitted = nor.learn_topics(X, 2, n_parents=1, shrink=2, steps=5, progress=False)
    >>> fitted.network.n_hidden, fitted.settings["step_on"]
    (2, 'log')
    """
    sampled = init == "data" and isinstance(method, MeanField) and not method.local
    also = ("n_parents", "shrink", "init", "method", "options", "held_out", "engine")
    chosen = choose_options(options, changes, _topic_defaults(init, sampled), also)
    check_place(chosen.checkpoint)
    if options is None and init == "data" and "final_learning_rate" not in changes:
        chosen = replace(chosen, final_learning_rate=0.1 * chosen.learning_rate)
    observations = Observations.of(X)
    if n_parents is None:
        n_parents = 15 if sampled else 5
    network = layered(observations, n_layers, n_parents=n_parents, shrink=shrink)
    if init != "data":
        network = initialize(network, init, seed=chosen.seed)
    elif sampled:
        assert isinstance(method, MeanField)
        network = start_by_sampling(
            network,
            observations,
            method,
            seed=chosen.seed,
            engine=engine,
            progress=chosen.progress,
        )
    else:
        network = start_from_counts(network, observations)
    method = MaxProduct(ancestors_only=True) if method is None else method
    fitted = learn_network(network, observations, method, chosen, held_out=held_out, engine=engine)
    return replace(fitted, settings={"init": init, **fitted.settings})


def _topic_defaults(init: str, sampled: bool) -> TrainOptions:
    if init != "data":
        return replace(_DEFAULTS, batch_size=128)
    # In a small batch the one occurrence of a rare word is a gradient of thousands, which Adam
    # remembers for a thousand steps: the word's noise would stay where it happens to be.
    large = replace(_DEFAULTS, batch_size=1024, smoothing=1.0)
    if sampled:
        return replace(large, steps=400, learning_rate=0.005)
    # Of ten thousand words most are in less than a hundredth of the documents. Steps of one size
    # for all would lose the frequencies that the counts have found.
    return replace(large, steps=200, learning_rate=0.05, step_on="log")


def learn_features(
    images: Any,
    n_components: int,
    feature_shape: tuple[int, int],
    *,
    border: bool = True,
    init: str = "data",
    n_restarts: int = 6,
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
    """Blind deconvolution: small features that, stamped into place, make up binary images.

    Parameters
    ----------
    images : (n_images, height, width) or any other form of images that `Observations.of` takes.
    n_components : number of features, see ``init``.
    feature_shape, border : see `convolutional`.
    init : ``"data"`` searches the images for features (see `search_features`) and fine-tunes them;
        the network then has at most `n_components` features, those supported by the images (MDL).
        Or the name of one of the paper's starts, see `initialize`, with `n_components` features.
    n_restarts : of the search, at most.
    method : how hidden states are inferred; default ``MaxProduct(polish=5)`` after a search, else
        ``MaxProduct(temperature=1.0)``.
    options, changes : how to train; the seed is also that of the start. Defaults depend on `init`.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> images = np.zeros((12, 5, 5))
    >>> for number, image in enumerate(images):
    ...     image[number % 4 : number % 4 + 2, number % 3 : number % 3 + 2] = 1
    >>> fitted = nor.learn_features(images, 1, (2, 2), n_restarts=1, steps=3, progress=False)
    >>> fitted.network.theta_of("failure").shape
    (1, 2, 2)
    """
    # The prior of a place is some thousandths: a larger first step would leave it behind.
    gentle = replace(_DEFAULTS, learning_rate=3e-4, final_learning_rate=3e-5, smoothing=0.5)
    searched = init == "data"
    defaults = (
        replace(gentle, steps=50, batch_size=200)
        if searched
        else replace(_DEFAULTS, steps=1500, batch_size=None)
    )
    also = ("border", "init", "n_restarts", "method", "options", "held_out", "engine")
    chosen = choose_options(options, changes, defaults, also)
    check_place(chosen.checkpoint)
    observations = Observations.of(images)
    if len(observations.shape) != 2:
        raise InvalidDataError(
            f"images have shape (n_images, height, width), got rows of shape {observations.shape}"
        )
    shape = (observations.shape[0], observations.shape[1])
    if searched:
        found = search_features(
            observations,
            n_components,
            feature_shape,
            border=border,
            n_restarts=n_restarts,
            seed=chosen.seed,
            engine=engine,
            progress=chosen.progress,
        )
        network = convolutional(shape, max(1, len(found.features)), feature_shape, border=border)
        network = start_from_features(network, found)
    else:
        network = convolutional(shape, n_components, feature_shape, border=border)
        network = initialize(network, init, noise="uniform", seed=chosen.seed)
    if method is None:
        method = MaxProduct(polish=5) if searched else MaxProduct(temperature=1.0)
    fitted = learn_network(network, observations, method, chosen, held_out=held_out, engine=engine)
    return replace(fitted, settings={"init": init, **fitted.settings})
