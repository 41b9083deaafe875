"""Factorising matrices and images by joint max-product: quality, invariants, input."""

import tracemalloc

import numpy as np
import pytest

import noisyor as nor
from noisyor.datasets.synthetic import generate_deconvolution, true_features
from noisyor.engines.noise import combine, logistic
from noisyor.engines.numpy.joint_max_product import infer_jointly
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidNetworkError, InvalidSettingError
from noisyor.inference.joint import JointMaxProduct, pmp_deconvolve, pmp_factorize
from noisyor.metrics import features_iou, reconstruction_error
from noisyor.model.forward import boolean_convolution


def beliefs(iterations=1000, **options):
    return JointMaxProduct(iterations=iterations, keep_beliefs=True, **options)


def boolean_product(n, r, p, seed, density=0.25):
    generator = np.random.default_rng(seed)
    share = np.sqrt(1 - (1 - density) ** (1 / r))
    U, V = generator.random((n, r)) < share, generator.random((r, p)) < share
    return (U.astype(int) @ V.astype(int) > 0).astype(np.uint8), U, V


def log_odds(p):
    return np.log(p) - np.log1p(-p)


def noise(seed, family, n, size):
    """The documented perturbation: keyed by (seed, family, id, index)."""
    keys = combine(combine(combine(seed, family), np.arange(n))[:, None], np.arange(size))
    return logistic(keys)


def test_functions_pass_the_documented_unaries():
    X, _, _ = boolean_product(6, 3, 10, 0)
    result = pmp_factorize(X, 3, beliefs(5), seed=7, flip_probability=0.01)
    prior = log_odds(np.sqrt(1 - 0.75 ** (1 / 3)))
    expected = infer_jointly(
        (2.0 * X[:, None] - 1.0) * log_odds(0.99),
        (prior + noise(7, 0, 6, 3))[:, :, None, None],
        (prior + noise(7, 1, 3, 10))[:, None],
        iterations=5,
    )
    np.testing.assert_allclose(result.state_beliefs, expected.states[:, :, 0, 0], atol=1e-4)
    np.testing.assert_allclose(result.feature_beliefs, expected.features[:, 0], atol=1e-4)

    images = generate_deconvolution(3).images
    result = pmp_deconvolve(images, 2, (6, 5), beliefs(3, temperature=0.5), seed=1)
    expected = infer_jointly(
        (2.0 * images - 1.0) * -log_odds(1e-100),
        (log_odds(1e-75) + 0.5 * noise(1, 0, 3, 2 * 9 * 10)).reshape(3, 2, 9, 10),
        (log_odds(0.25) + 0.5 * noise(1, 1, 2, 30)).reshape(2, 6, 5),
        iterations=3,
    )
    np.testing.assert_allclose(result.state_beliefs, expected.states, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(result.feature_beliefs, expected.features, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_small_product_is_recovered(seed):
    X, _, V = boolean_product(40, 4, 40, seed)
    result = pmp_factorize(X, 4, seed=seed)
    assert reconstruction_error(result.reconstruction, X) < 5.0
    new = boolean_product(40, 4, 40, seed)[1][::-1].astype(int) @ V > 0
    for temperature in (1.0, 0.0):
        settings = JointMaxProduct(temperature=temperature)
        inferred = pmp_factorize(new, settings=settings, features=result.features, seed=seed)
        assert reconstruction_error(inferred.reconstruction, new) < 5.0
        np.testing.assert_array_equal(inferred.features, result.features)


def test_shapes_are_found_in_images():
    data = generate_deconvolution(40, seed=0)
    settings = JointMaxProduct(iterations=300)
    result = pmp_deconvolve(data.images, 5, (6, 6), settings)
    assert features_iou(result.features, data.features) > 0.95
    assert reconstruction_error(result.reconstruction, data.images) < 5.0
    drawn = boolean_convolution(result.states, result.features)
    np.testing.assert_array_equal(drawn, result.reconstruction)


def test_given_shapes_explain_images():
    data = generate_deconvolution(20, seed=3)
    settings = JointMaxProduct(iterations=200)
    result = pmp_deconvolve(data.images, features=true_features(), settings=settings)
    assert reconstruction_error(result.reconstruction, data.images) < 1.0


@pytest.mark.parametrize("threads", [2, 3])
def test_bits_do_not_depend_on_threads(threads):
    X, _, _ = boolean_product(70, 24, 60, 1)
    runs = [
        pmp_factorize(X, 24, beliefs(20), engine=get_engine(n_threads=count))
        for count in (1, threads)
    ]
    np.testing.assert_array_equal(runs[0].feature_beliefs, runs[1].feature_beliefs)
    np.testing.assert_array_equal(runs[0].state_beliefs, runs[1].state_beliefs)
    assert runs[0].residual == runs[1].residual
    given = [
        pmp_factorize(
            X, settings=beliefs(20), features=runs[0].features, engine=get_engine(n_threads=count)
        )
        for count in (1, threads)
    ]
    np.testing.assert_array_equal(given[0].state_beliefs, given[1].state_beliefs)


def test_given_features_treat_rows_independently():
    X, _, V = boolean_product(30, 5, 20, 2)
    rows = nor.Observations.of(X)
    whole = pmp_factorize(rows, settings=beliefs(50), features=V)
    part = pmp_factorize(rows.take(slice(10, 17)), settings=beliefs(50), features=V)
    np.testing.assert_array_equal(whole.state_beliefs[10:17], part.state_beliefs)
    assert np.isinf(whole.feature_beliefs).all()


@pytest.mark.parametrize("schedule", ["collapsed", "two-stage"])
def test_given_features_stay_as_given(schedule):
    """Messages of the two-stage schedule diverge and outweigh the log-odds of a clamped feature."""
    X, _, V = boolean_product(60, 20, 60, seed=1)
    given = V ^ (np.random.default_rng(3).random(V.shape) < 0.05)
    found = pmp_factorize(X, settings=beliefs(200, schedule=schedule), features=given)
    np.testing.assert_array_equal(found.features, given)
    np.testing.assert_array_equal(found.feature_beliefs, np.where(given, np.inf, -np.inf))
    drawn = found.states.astype(int) @ given.astype(int) > 0
    np.testing.assert_array_equal(found.reconstruction, drawn)


def test_seed_and_temperature_decide_the_noise():
    X, _, _ = boolean_product(10, 3, 12, 3)
    one, again, other = (
        pmp_factorize(X, 3, beliefs(10), seed=s).feature_beliefs for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    still = pmp_factorize(X, 3, beliefs(10, temperature=0.0)).feature_beliefs
    np.testing.assert_array_equal(still, still[[0, 0, 0]])  # nothing tells the features apart


def test_missing_entries_say_nothing_and_are_filled_in():
    X, _, _ = boolean_product(60, 4, 50, 4)
    hidden = np.random.default_rng(0).random(X.shape) < 0.2
    holes = np.where(hidden, np.nan, X)
    result = pmp_factorize(holes, 4, seed=1)
    assert (result.reconstruction != X)[hidden].mean() < 0.05
    empty = pmp_factorize(np.full((3, 4), np.nan), 2, beliefs(20), seed=1)
    prior = log_odds(np.sqrt(1 - 0.75**0.5))
    np.testing.assert_allclose(empty.state_beliefs, prior + noise(1, 0, 3, 2), atol=1e-5)


def test_tolerance_stops_early():
    X, _, _ = boolean_product(20, 2, 30, 5)
    early = pmp_factorize(X, 2, JointMaxProduct(tolerance=0.1), flip_probability=1e-4)
    assert early.converged
    assert early.iterations < 1000
    late = pmp_factorize(X, 2, flip_probability=1e-4)
    assert late.iterations == 1000
    np.testing.assert_array_equal(early.reconstruction, late.reconstruction)
    given = pmp_factorize(X, settings=JointMaxProduct(tolerance=0.1), features=early.features)
    assert given.iterations < 1000


def test_memory_is_two_messages_per_product():
    n, r, p = 128, 64, 256
    X, _, _ = boolean_product(n, r, p, 0)
    pmp_factorize(X[:2], r, JointMaxProduct(iterations=1))  # compile
    tracemalloc.start()
    pmp_factorize(X, r, JointMaxProduct(iterations=2), engine=get_engine(n_threads=2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.25 * n * r * p * 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be 1, 2, …, got 0"),
        ({"iterations": 1.5}, "iterations must be"),
        ({"damping": 1.0}, r"damping must be in \[0, 1\), got 1.0"),
        ({"temperature": -1}, "temperature must be at least 0"),
        ({"tolerance": float("nan")}, "tolerance must be at least 0"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(InvalidSettingError, match=message):
        JointMaxProduct(**options)


X = np.eye(4, dtype=np.uint8)
IMAGES = np.zeros((2, 5, 6), dtype=np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pmp_factorize(X), InvalidSettingError, "n_components"),
        (lambda: pmp_factorize(X, 0), InvalidSettingError, "n_components"),
        (lambda: pmp_factorize(2 * X, 2), InvalidDataError, "2"),
        (lambda: pmp_factorize(X[:0], 2), InvalidDataError, "no rows"),
        (lambda: pmp_factorize(X, 2, features=X), InvalidSettingError, "but 4 features are given"),
        (lambda: pmp_factorize(X, features=X[:, :3]), InvalidDataError, "3 columns, but X has 4"),
        (lambda: pmp_factorize(X, features=X[0]), InvalidDataError, r"\(n_components, n_columns\)"),
        (lambda: pmp_factorize(X, features=0.5 * X), InvalidDataError, "0 and 1"),
        (lambda: pmp_factorize(X, 2, density=1.0), InvalidSettingError, "density must lie between"),
        (
            lambda: pmp_factorize(X, 2, state_probability=0),
            InvalidSettingError,
            "state_probability must lie between 0 and 1, got 0",
        ),
        (
            lambda: pmp_factorize(X, 2, flip_probability=0.5),
            InvalidSettingError,
            r"flip_probability must lie in \[0, 0.5\), got 0.5",
        ),
        (lambda: pmp_factorize(X, 2, seed=-1), InvalidSettingError, "seed"),
        (lambda: pmp_deconvolve(X, 2, (2, 2)), InvalidDataError, "a height and a width"),
        (lambda: pmp_deconvolve(IMAGES, 2), InvalidSettingError, "feature_shape must be a height"),
        (lambda: pmp_deconvolve(IMAGES, 2, (2, 0)), InvalidSettingError, "both at least 1"),
        (lambda: pmp_deconvolve(IMAGES, 2, (6, 6)), InvalidNetworkError, "do not fit"),
        (
            lambda: pmp_deconvolve(IMAGES, feature_shape=(2, 2), features=np.ones((1, 3, 3))),
            InvalidSettingError,
            r"given features have shape \(3, 3\)",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
