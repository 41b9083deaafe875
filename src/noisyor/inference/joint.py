"""Joint max-product (PMP): features and states of binary data inferred together, without training.

`pmp_factorize` writes a binary matrix as a Boolean product of two, `pmp_deconvolve` writes binary
images as features stamped at positions. Max-product runs on the whole factor graph at once, with
noise on the unaries (perturb-and-max-product), so every seed gives a sample of both unknowns. Given
features, both functions infer the states of new data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, SingleArray
from noisyor._util.progress import Progress, progress_bar
from noisyor._util.validation import (
    BELOW_ONE,
    COUNT,
    NOT_NEGATIVE,
    check_count,
    check_seed,
    check_settings,
    choice,
    is_finite,
    is_whole,
)
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, JointOptions, JointUnaries
from noisyor.engines.noise import combine, logistic
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.forward import binary_array, boolean_convolution
from noisyor.model.layout import state_shape

CERTAIN = 1e6
"""Log-odds of a pixel that cannot be wrong."""

_ACTIVATIONS, _FEATURES = 0, 1  # the two families of noise


@dataclass(frozen=True)
class JointMaxProduct:
    """Settings of joint max-product.

    Parameters
    ----------
    iterations : rounds of parallel message updates.
    damping : weight of the old message, 0 <= damping < 1. Large problems may need more than 0.5:
        if the reconstruction of the training data is poor, try 0.7.
    temperature : scale of the logistic noise on the unaries of states and features; 0 for
        none. Without noise all features come out equal, so 0 is useful only for a single feature
        or for given features.
    tolerance : stop when the largest residual of a message is below this; 0 runs all rounds. With
        given features and the collapsed schedule, every row stops separately.
    keep_beliefs : also return the log-odds.
    schedule : ``"collapsed"`` passes a message through AND and OR and back in one iteration.
        ``"two-stage"``, the order of the paper's experiments, updates all messages in parallel and
        damps all of them: it needs twice the memory and usually ends with more errors.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.inference.JointMaxProduct(iterations=200).damping
    0.5
    """

    iterations: int = 1000
    damping: float = 0.5
    temperature: float = 1.0
    tolerance: float = 0.0
    keep_beliefs: bool = False
    schedule: Literal["collapsed", "two-stage"] = "collapsed"

    def __post_init__(self) -> None:
        rules = {
            "iterations": COUNT,
            "damping": BELOW_ONE,
            "temperature": NOT_NEGATIVE,
            "tolerance": NOT_NEGATIVE,
            "schedule": choice("collapsed", "two-stage"),
        }
        check_settings(self, rules)

    def settings(self) -> dict[str, object]:
        """Return everything that determines the results."""
        settings = asdict(self)
        del settings["keep_beliefs"]
        return {"method": "joint max-product", **settings}


@dataclass(frozen=True, eq=False)
class Factorization:
    """Binary states and features, and their reconstruction of the data.

    Attributes
    ----------
    states : uint8 (n_rows, n_components), or (n_images, n_components, rows, columns).
    features : uint8 (n_components, n_columns), or (n_components, height, width).
    reconstruction : uint8, in the shape of the data, missing entries filled in.
    iterations : rounds of message passing; the most of any row if features were given.
    residual : largest residual of a message in the last iteration.
    converged : whether the residual is below the tolerance.
    state_beliefs, feature_beliefs : float32 log-odds in the shapes of ``states`` and ``features``,
        or None if they were not requested; given features are plus or minus infinity.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> nor.inference.pmp_factorize(np.eye(4, dtype=int), 4).converged
    False
    """

    states: BinaryArray
    features: BinaryArray
    reconstruction: BinaryArray
    iterations: int
    residual: float
    converged: bool
    state_beliefs: SingleArray | None = None
    feature_beliefs: SingleArray | None = None

    def __repr__(self) -> str:
        return (
            f"Factorization(rows={len(self.states)}, features={self.features.shape}, "
            f"iterations={self.iterations}, residual={self.residual:.3g})"
        )


def pmp_factorize(
    X: Any,
    n_components: int | None = None,
    settings: JointMaxProduct | None = None,
    *,
    features: npt.ArrayLike | None = None,
    state_probability: float | None = None,
    feature_probability: float | None = None,
    density: float = 0.25,
    flip_probability: float = 0.0,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = False,
) -> Factorization:
    """Factorize a Boolean matrix: ``X[a, j] = OR over k of states[a, k] features[k, j]``.

    Memory: eight bytes for each of the n_rows x n_components x n_columns products.

    Parameters
    ----------
    X : matrix in any form that `Observations.of` takes; NaN marks a missing entry.
    n_components : number of features; may be left out if ``features`` are given.
    settings : default ``JointMaxProduct()``.
    features : binary (n_components, n_columns), to infer the states only.
    state_probability, feature_probability : prior probability that an entry is on; default
        ``sqrt(1 - (1 - density) ** (1 / n_components))``, with which a share ``density`` of the
        entries of X is on.
    density : see above.
    flip_probability : probability that an entry of X differs from the product; 0 allows no errors.
    seed : key of the noise. The noise of an activation depends on (seed, row id, index) alone.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]] * 4)
    >>> found = nor.inference.pmp_factorize(X, 2, seed=1)
    >>> int((found.reconstruction != X).sum())
    0
    """
    observations = Observations.of(X)
    n_columns = observations.n_visible
    given = None if features is None else _given(features, 2, "(n_components, n_columns)")
    size = _size(n_components, given)
    if given is not None and given.shape[1] != n_columns:
        raise InvalidDataError(f"features have {given.shape[1]} columns, but X has {n_columns}")
    _probability("density", density)
    shared = float(np.sqrt(-np.expm1(np.log1p(-density) / size)))
    # A row is an image of one line, which every feature covers as a whole.
    found = pmp_deconvolve(
        replace(observations, shape=(1, n_columns)),
        size,
        (1, n_columns),
        settings,
        features=None if given is None else given[:, None],
        state_probability=shared if state_probability is None else state_probability,
        feature_probability=shared if feature_probability is None else feature_probability,
        flip_probability=flip_probability,
        seed=seed,
        engine=engine,
        progress=progress,
    )
    of_states, of_features = found.state_beliefs, found.feature_beliefs
    return replace(
        found,
        states=found.states[:, :, 0, 0],
        features=found.features[:, 0],
        reconstruction=found.reconstruction[:, 0],
        state_beliefs=None if of_states is None else of_states[:, :, 0, 0],
        feature_beliefs=None if of_features is None else of_features[:, 0],
    )


def pmp_deconvolve(
    images: Any,
    n_components: int | None = None,
    feature_shape: Sequence[int] | None = None,
    settings: JointMaxProduct | None = None,
    *,
    features: npt.ArrayLike | None = None,
    state_probability: float = 1e-75,
    feature_probability: float = 0.25,
    flip_probability: float = 1e-100,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = False,
) -> Factorization:
    """Find features and their positions, entirely inside the image: blind deconvolution.

    All other parameters are those of `pmp_factorize`.

    Parameters
    ----------
    images : (n_images, height, width) or any other form of images that `Observations.of` takes.
    n_components, feature_shape : number and (height, width) of the features; may be left out if
        ``features`` are given.
    features : binary (n_components, height, width), to infer the states only.
    state_probability : prior probability of a feature at a position. 1e-75, as in the code of the
        noisy-OR paper, favors the fewest states that explain all pixels; 0.01 is the value of the
        original experiment.
    feature_probability : prior probability that a pixel of a feature is on.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> images = np.zeros((2, 4, 4), dtype=int)
    >>> images[0, :2, :2] = images[1, 1:3, 2:] = 1
    >>> square = np.ones((1, 2, 2), dtype=int)
    >>> nor.inference.pmp_deconvolve(images, features=square).states.sum(axis=(1, 2, 3))
    array([1, 1], dtype=uint64)
    """
    observations = Observations.of(images)
    if len(observations.shape) != 2:
        raise InvalidDataError(
            f"images have a height and a width, got observations of shape {observations.shape}"
        )
    image_shape = (observations.shape[0], observations.shape[1])
    given = None if features is None else _given(features, 3, "(n_components, height, width)")
    size = _size(n_components, given)
    window = _window(feature_shape, given)
    settings = settings or JointMaxProduct()
    if not observations.n_rows:
        raise InvalidDataError("there are no rows to factorize")
    seed = check_seed(seed)
    runner = get_engine(engine, "joint_max_product")
    states = _unary(
        (observations.n_rows, size, *state_shape(image_shape, window)),
        _log_odds("state_probability", state_probability),
        observations.row_ids,
        (seed, _ACTIVATIONS),
        settings.temperature,
    )
    prior, ids = _log_odds("feature_probability", feature_probability), np.arange(size)
    if given is None:
        unary = _unary((size, *window), prior, ids, (seed, _FEATURES), settings.temperature)
    else:
        unary = np.where(given, np.inf, -np.inf).astype(np.float32)
    pixels = _pixels(observations, flip_probability).reshape(-1, *image_shape)
    options = JointOptions(
        int(settings.iterations),
        float(settings.damping),
        float(settings.tolerance),
        settings.schedule == "two-stage",
    )
    by_row = given is not None and settings.schedule == "collapsed"
    total, unit = (len(pixels), "rows") if by_row else (settings.iterations, "iterations")
    with progress_bar(total, "joint max-product", unit, progress) as bar:
        found = runner.joint_max_product(JointUnaries(pixels, states, unary), options, bar.update)
    # The two-stage schedule clamps given features by finite log-odds. Messages that diverge can
    # outweigh them, but the features are given all the same.
    u, v = found.states, found.features if given is None else unary
    return Factorization(
        states=(u > 0).astype(np.uint8),
        features=(v > 0).astype(np.uint8),
        reconstruction=boolean_convolution(u > 0, v > 0),
        iterations=found.iterations,
        residual=found.residual,
        converged=found.residual < max(settings.tolerance, 1e-6),
        state_beliefs=u if settings.keep_beliefs else None,
        feature_beliefs=v if settings.keep_beliefs else None,
    )


def _unary(
    shape: tuple[int, ...],
    prior: float,
    ids: npt.NDArray[np.int64],
    key: tuple[int, int],
    temperature: float,
) -> SingleArray:
    """Return log-odds of the prior plus noise keyed by (seed, family, id, index)."""
    unary: FloatArray = np.full((shape[0], int(np.prod(shape[1:]))), np.float32(prior), np.float64)
    if temperature > 0:
        keys = combine(combine(key[0], key[1]), ids)[:, None]
        unary += temperature * logistic(combine(keys, np.arange(unary.shape[1])))
    return unary.astype(np.float32).reshape(shape)


def _pixels(observations: Observations, flip_probability: float) -> SingleArray:
    """Return the evidence on every entry: positive where it is on, 0 where it is missing."""
    if not is_finite(flip_probability) or not 0 <= flip_probability < 0.5:
        raise InvalidSettingError(
            f"flip_probability must lie in [0, 0.5), got {flip_probability!r}"
        )
    strength = CERTAIN
    if flip_probability > 0:
        strength = -_log_odds("flip_probability", flip_probability)
    signs = np.float32(2.0) * observations.to_dense() - np.float32(1.0)
    evidence: SingleArray = np.nan_to_num(np.float32(strength) * signs)
    return evidence


def _probability(name: str, value: float) -> float:
    if not is_finite(value) or not 0 < value < 1:
        raise InvalidSettingError(f"{name} must lie between 0 and 1, got {value!r}")
    return float(value)


def _log_odds(name: str, value: float) -> float:
    probability = _probability(name, value)
    return float(np.log(probability) - np.log1p(-probability))


def _given(features: npt.ArrayLike, ndim: int, expected: str) -> BinaryArray:
    array = binary_array("features", features)
    if array.ndim != ndim or not array.size:
        raise InvalidDataError(f"features must have shape {expected}, got {array.shape}")
    return array.astype(np.uint8)


def _size(size: int | None, given: BinaryArray | None) -> int:
    if given is None:
        return check_count("n_components", size, 1)
    if size not in (None, len(given)):
        raise InvalidSettingError(f"n_components is {size!r}, but {len(given)} features are given")
    return len(given)


def _window(shape: Sequence[int] | None, given: BinaryArray | None) -> tuple[int, int]:
    window = tuple(shape) if shape is not None else () if given is None else given.shape[1:]
    if given is not None and window != given.shape[1:]:
        raise InvalidSettingError(
            f"feature_shape is {window}, but the given features have shape {given.shape[1:]}"
        )
    if len(window) != 2 or not all(is_whole(size) and size >= 1 for size in window):
        raise InvalidSettingError(
            f"feature_shape must be a height and a width, both at least 1, got {shape!r}"
        )
    return int(window[0]), int(window[1])
