"""Small features that make up binary images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from noisyor._util.validation import COUNT
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning.checkpoint import check_place
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.recipes.fit import DEFAULTS, FitResult, learn_network
from noisyor.learning.recipes.job import working
from noisyor.model.builders import convolutional
from noisyor.search.factor_start import start_from_features
from noisyor.search.features import search_features

__all__ = ["learn_features"]

_SHARE_OF_SEARCH = 0.7
"""Of the time, if it is limited."""


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
    gentle = replace(DEFAULTS, learning_rate=3e-4, final_learning_rate=3e-5, smoothing=0.5)
    searched = init == "data"
    defaults = (
        replace(gentle, steps=50, batch_size=200)
        if searched
        else replace(DEFAULTS, steps=1500, batch_size=None)
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
    COUNT.check("n_components", n_components)
    if n_components > observations.n_visible:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but images of {shape[0]} x {shape[1]} pixels have "
            f"{observations.n_visible:,} features at most"
        )
    course: dict[str, object] = {
        "recipe": "features",
        "n_components": int(n_components),
        "feature_shape": [int(size) for size in feature_shape],
        "border": border,
        "n_restarts": n_restarts,
    }
    phases = ("search", "train") if searched else ("train",)
    with working(chosen, engine, phases, observations, course) as work:
        if searched:
            with work.job.until(_SHARE_OF_SEARCH):
                found = search_features(
                    observations,
                    n_components,
                    feature_shape,
                    border=border,
                    n_restarts=n_restarts,
                    seed=chosen.seed,
                    engine=work.engine,
                    progress=work.job,
                    keeper=work.keeper,
                )
            n_found = max(1, len(found.features))
            network = convolutional(shape, n_found, feature_shape, border=border)
            network = start_from_features(network, found)
        else:
            network = convolutional(shape, n_components, feature_shape, border=border)
            network = initialize(network, init, noise="uniform", seed=chosen.seed)
        if method is None:
            method = MaxProduct(polish=5) if searched else MaxProduct(temperature=1.0)
        fitted = learn_network(
            network, observations, method, work.options, held_out=held_out, engine=work.engine
        )
    return replace(fitted, settings={"init": init, **fitted.settings})
