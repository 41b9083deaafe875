"""Joint max-product against enumeration and the NumPy reference, and what users rely on."""

import itertools
import tracemalloc

import numpy as np
import pytest
from numba import njit

import noisyor as nor
from noisyor.datasets.deconvolution import generate_deconvolution, true_features
from noisyor.engines.numba.factorization import entry as engine
from noisyor.engines.numba.factorization import learn as kernels
from noisyor.engines.numba.float32x8 import load, store
from noisyor.engines.numba.scalar import combine, logistic_noise
from noisyor.engines.numpy.joint_max_product import (
    joint_max_product,
    to_and_input,
    to_and_output,
    to_or_inputs,
)
from noisyor.errors import InvalidDataError, InvalidNetworkError, InvalidSettingError
from noisyor.inference.joint_max_product import JointMaxProduct, deconvolve, factorize
from noisyor.metrics import features_iou, reconstruction_error
from noisyor.network.boolean import boolean_convolution


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
    """The perturbation that the engine documents: keyed by (seed, family, id, index)."""
    table = np.empty((n, size))
    for line, k in np.ndindex(n, size):
        key = np.uint64(seed)
        for number in (family, line, k):
            key = np.uint64(combine(key, np.uint64(number)))
        table[line, k] = logistic_noise(key)
    return table


def random_evidence(seed, n, features, positions, pixel_scale=3.0):
    generator = np.random.default_rng(seed)
    height, width = features[1] + positions[0] - 1, features[2] + positions[1] - 1
    return engine.Evidence(
        *(
            generator.normal(0.0, scale, shape).astype(np.float32)
            for scale, shape in [
                (pixel_scale, (n, height, width)),
                (2.0, (n, features[0], *positions)),
                (2.0, features),
            ]
        )
    )


def learn(evidence, iterations, damping=0.5, n_threads=1, tolerance=0.0):
    return engine.learn(
        evidence,
        iterations=iterations,
        damping=damping,
        tolerance=tolerance,
        n_threads=n_threads,
        after_iteration=lambda: None,
    )


# ---- single messages against enumeration


@njit
def _and_messages(u, v, output, down, to_u, to_v):
    left, right, y = load(u, 0), load(v, 0), load(output, 0)
    store(down, 0, kernels.and_down(left, right))
    store(to_u, 0, kernels.and_up(right, y))
    store(to_v, 0, kernels.and_up(left, y))


def max_marginal(score, n, which):
    """Log-odds of one of n binary variables under ``score``, maximised over the others."""
    states = list(itertools.product((0, 1), repeat=n))
    best = [max(score(s) for s in states if s[which] == value) for value in (0, 1)]
    return best[1] - best[0]


def test_and_messages_are_those_of_enumeration():
    generator = np.random.default_rng(0)
    u, v, y = generator.normal(0.0, 3.0, (3, 8)).astype(np.float32)
    down, to_u, to_v = np.empty((3, 8), dtype=np.float32)
    _and_messages(u, v, y, down, to_u, to_v)
    for lane in range(8):
        a, b, c = (float(value[lane]) for value in (u, v, y))
        assert down[lane] == pytest.approx(
            max(a + b, -np.inf) - max(0.0, a, b), abs=1e-5
        )  # both on, against any other state
        assert to_u[lane] == pytest.approx(
            max_marginal(lambda s, b=b, c=c: s[1] * b + (s[0] & s[1]) * c, 2, 0), abs=1e-5
        )
        assert to_v[lane] == pytest.approx(
            max_marginal(lambda s, a=a, c=c: s[1] * a + (s[0] & s[1]) * c, 2, 0), abs=1e-5
        )
    np.testing.assert_allclose(down, to_and_output(u, v), atol=1e-6)
    np.testing.assert_allclose(to_u, to_and_input(v, y), atol=1e-6)


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 5])
@pytest.mark.parametrize("evidence", [-1e6, -2.0, 0.0, 1.5, 230.26])
def test_or_messages_are_those_of_enumeration(n_inputs, evidence):
    t = np.random.default_rng(n_inputs).normal(0.0, 3.0, n_inputs)
    if n_inputs == 5:
        t[1] = t[3] = t.max() + 1.0  # a tie at the top
    messages = to_or_inputs(t, np.array([evidence]), np.array([0]))
    for e in range(n_inputs):

        def score(state, e=e):
            others = sum(t[k] for k in range(n_inputs) if state[k] and k != e)
            return others + evidence * any(state)

        assert messages[e] == pytest.approx(max_marginal(score, n_inputs, e), abs=1e-6)


# ---- whole problems against enumeration and the reference


def enumerated(pixels, activations, features):
    """Max-marginals given pixels (n, p), activations (n, r), features (r, p), one position."""
    (n, r), p = activations.shape, features.shape[1]
    states = np.array(list(itertools.product((0, 1), repeat=n * r + r * p)), dtype=np.uint8)
    U, V = states[:, : n * r].reshape(-1, n, r), states[:, n * r :].reshape(-1, r, p)
    drawn = np.einsum("snr,srp->snp", U, V) > 0
    score = (drawn * pixels).sum((1, 2)) + states @ np.concatenate(
        [activations.ravel(), features.ravel()]
    )
    on = np.array([score[states[:, k] == 1].max() for k in range(states.shape[1])])
    off = np.array([score[states[:, k] == 0].max() for k in range(states.shape[1])])
    marginals = on - off
    return marginals[: n * r].reshape(n, r), marginals[n * r :].reshape(r, p)


# Observed entries (row, column) that make the factor graph a tree: a forest of rows and columns
# with one component, entries that share neither with several.
TREES = [
    (1, 1, 5, [(0, j) for j in range(5)]),
    (4, 1, 1, [(a, 0) for a in range(4)]),
    (3, 1, 4, [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3)]),
    (1, 4, 1, [(0, 0)]),
    (2, 3, 2, [(0, 1), (1, 0)]),
]


@pytest.mark.parametrize("case", TREES)
@pytest.mark.parametrize("seed", range(4))
def test_trees_are_solved_exactly(case, seed):
    n, r, p, observed = case
    evidence = random_evidence(seed, n, (r, 1, p), (1, 1))
    seen = np.zeros((n, 1, p), dtype=np.float32)
    for a, j in observed:
        seen[a, 0, j] = 1.0
    evidence = evidence._replace(pixels=evidence.pixels * seen)
    result = learn(evidence, 100)
    u, v = enumerated(
        evidence.pixels[:, 0], evidence.activations[:, :, 0, 0], evidence.features[:, 0]
    )
    np.testing.assert_allclose(result.activations[:, :, 0, 0], u, atol=1e-4)
    np.testing.assert_allclose(result.features[:, 0], v, atol=1e-4)
    assert result.residual < 1e-5


PROBLEMS = [
    (5, (3, 1, 7), (1, 1)),
    (20, (6, 1, 21), (1, 1)),
    (4, (2, 3, 3), (4, 5)),
    (3, (2, 2, 10), (3, 2)),
    (2, (3, 4, 5), (2, 1)),
]


@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_learning_agrees_with_the_reference(problem, iterations):
    evidence = random_evidence(1, *problem)
    # Without damping rounding errors grow from round to round.
    for damping in (0.0 if iterations < 10 else 0.3, 0.5):
        result = learn(evidence, iterations, damping)
        expected = joint_max_product(*evidence, iterations=iterations, damping=damping)
        np.testing.assert_allclose(result.activations, expected.activations, atol=1e-4)
        np.testing.assert_allclose(result.features, expected.features, atol=1e-4)
        assert result.residual == pytest.approx(expected.residual, abs=1e-4)


@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_given_features_agree_with_the_reference(problem, iterations):
    evidence = random_evidence(2, *problem)
    given = np.where(evidence.features > 0, np.inf, -np.inf).astype(np.float32)
    result = engine.infer(
        evidence._replace(features=given),
        iterations=iterations,
        damping=0.5,
        tolerance=0.0,
        n_threads=1,
        after_images=lambda count: None,
    )
    clamped = np.where(given > 0, 1e9, -1e9)
    expected = joint_max_product(
        evidence.pixels, evidence.activations, clamped, iterations=iterations
    )
    np.testing.assert_allclose(result.activations, expected.activations, atol=1e-4)


def test_functions_pass_the_documented_unaries():
    X, _, _ = boolean_product(6, 3, 10, 0)
    result = factorize(X, 3, beliefs(5), seed=7, flip_probability=0.01)
    prior = log_odds(np.sqrt(1 - 0.75 ** (1 / 3)))
    expected = joint_max_product(
        (2.0 * X[:, None] - 1.0) * log_odds(0.99),
        (prior + noise(7, 0, 6, 3))[:, :, None, None],
        (prior + noise(7, 1, 3, 10))[:, None],
        iterations=5,
    )
    np.testing.assert_allclose(
        result.activation_beliefs, expected.activations[:, :, 0, 0], atol=1e-4
    )
    np.testing.assert_allclose(result.feature_beliefs, expected.features[:, 0], atol=1e-4)

    images = generate_deconvolution(3).images
    result = deconvolve(images, 2, (6, 5), beliefs(3, temperature=0.5), seed=1)
    expected = joint_max_product(
        (2.0 * images - 1.0) * -log_odds(1e-100),
        (log_odds(1e-75) + 0.5 * noise(1, 0, 3, 2 * 9 * 10)).reshape(3, 2, 9, 10),
        (log_odds(0.25) + 0.5 * noise(1, 1, 2, 30)).reshape(2, 6, 5),
        iterations=3,
    )
    np.testing.assert_allclose(
        result.activation_beliefs, expected.activations, rtol=1e-5, atol=1e-3
    )
    np.testing.assert_allclose(result.feature_beliefs, expected.features, rtol=1e-5, atol=1e-3)


# ---- quality


@pytest.mark.parametrize("seed", range(5))
def test_a_small_product_is_recovered(seed):
    X, _, V = boolean_product(40, 4, 40, seed)
    result = factorize(X, 4, seed=seed)
    assert reconstruction_error(result.reconstruction, X) < 5.0
    new = boolean_product(40, 4, 40, seed)[1][::-1].astype(int) @ V > 0
    for temperature in (1.0, 0.0):
        settings = JointMaxProduct(temperature=temperature)
        inferred = factorize(new, settings=settings, features=result.features, seed=seed)
        assert reconstruction_error(inferred.reconstruction, new) < 5.0
        np.testing.assert_array_equal(inferred.features, result.features)


def test_shapes_are_found_in_images():
    data = generate_deconvolution(40, seed=0)
    settings = JointMaxProduct(iterations=300)
    result = deconvolve(data.images, 5, (6, 6), settings)
    assert features_iou(result.features, data.features) > 0.95
    assert reconstruction_error(result.reconstruction, data.images) < 5.0
    drawn = boolean_convolution(result.activations, result.features)
    np.testing.assert_array_equal(drawn, result.reconstruction)


def test_given_shapes_explain_images():
    data = generate_deconvolution(20, seed=3)
    settings = JointMaxProduct(iterations=200)
    result = deconvolve(data.images, features=true_features(), settings=settings)
    assert reconstruction_error(result.reconstruction, data.images) < 1.0


# ---- invariants


@pytest.mark.parametrize("threads", [2, 3])
def test_bits_do_not_depend_on_threads(threads):
    X, _, _ = boolean_product(70, 24, 60, 1)
    runs = [factorize(X, 24, beliefs(20), n_threads=count) for count in (1, threads)]
    np.testing.assert_array_equal(runs[0].feature_beliefs, runs[1].feature_beliefs)
    np.testing.assert_array_equal(runs[0].activation_beliefs, runs[1].activation_beliefs)
    assert runs[0].residual == runs[1].residual
    given = [
        factorize(X, settings=beliefs(20), features=runs[0].features, n_threads=count)
        for count in (1, threads)
    ]
    np.testing.assert_array_equal(given[0].activation_beliefs, given[1].activation_beliefs)


def test_given_features_treat_rows_independently():
    X, _, V = boolean_product(30, 5, 20, 2)
    rows = nor.Observations.of(X)
    whole = factorize(rows, settings=beliefs(50), features=V)
    part = factorize(rows.take(slice(10, 17)), settings=beliefs(50), features=V)
    np.testing.assert_array_equal(whole.activation_beliefs[10:17], part.activation_beliefs)
    assert np.isinf(whole.feature_beliefs).all()


def test_seed_and_temperature_decide_the_noise():
    X, _, _ = boolean_product(10, 3, 12, 3)
    one, again, other = (factorize(X, 3, beliefs(10), seed=s).feature_beliefs for s in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    still = factorize(X, 3, beliefs(10, temperature=0.0)).feature_beliefs
    np.testing.assert_array_equal(still, still[[0, 0, 0]])  # nothing tells the features apart


def test_missing_entries_say_nothing_and_are_filled_in():
    X, _, _ = boolean_product(60, 4, 50, 4)
    hidden = np.random.default_rng(0).random(X.shape) < 0.2
    holes = np.where(hidden, np.nan, X)
    result = factorize(holes, 4, seed=1)
    assert (result.reconstruction != X)[hidden].mean() < 0.05
    empty = factorize(np.full((3, 4), np.nan), 2, beliefs(20), seed=1)
    prior = log_odds(np.sqrt(1 - 0.75**0.5))
    np.testing.assert_allclose(empty.activation_beliefs, prior + noise(1, 0, 3, 2), atol=1e-5)


def test_tolerance_stops_early():
    X, _, _ = boolean_product(20, 2, 30, 5)
    early = factorize(X, 2, JointMaxProduct(tolerance=0.1), flip_probability=1e-4)
    assert early.converged
    assert early.iterations < 1000
    late = factorize(X, 2, flip_probability=1e-4)
    assert late.iterations == 1000
    np.testing.assert_array_equal(early.reconstruction, late.reconstruction)
    given = factorize(X, settings=JointMaxProduct(tolerance=0.1), features=early.features)
    assert given.iterations < 1000


def test_long_runs_stay_fast_because_no_message_is_denormal():
    evidence = random_evidence(0, 4, (3, 1, 8), (1, 1))
    result = learn(evidence._replace(pixels=evidence.pixels * 0), 500)
    np.testing.assert_allclose(result.activations, evidence.activations, atol=1e-6)
    assert result.residual < 1e-6


def test_memory_is_two_messages_per_product():
    n, r, p = 128, 64, 256
    X, _, _ = boolean_product(n, r, p, 0)
    factorize(X[:2], r, JointMaxProduct(iterations=1))  # compile
    tracemalloc.start()
    factorize(X, r, JointMaxProduct(iterations=2), n_threads=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.25 * n * r * p * 8


# ---- input


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
        (lambda: factorize(X), InvalidSettingError, "n_components must be a positive"),
        (lambda: factorize(X, 0), InvalidSettingError, "n_components must be a positive"),
        (lambda: factorize(2 * X, 2), InvalidDataError, "2"),
        (lambda: factorize(X[:0], 2), InvalidDataError, "no rows"),
        (lambda: factorize(X, 2, features=X), InvalidSettingError, "but 4 features are given"),
        (lambda: factorize(X, features=X[:, :3]), InvalidDataError, "3 columns, but X has 4"),
        (lambda: factorize(X, features=X[0]), InvalidDataError, r"\(n_components, n_columns\)"),
        (lambda: factorize(X, features=0.5 * X), InvalidDataError, "binary"),
        (lambda: factorize(X, 2, density=1.0), InvalidSettingError, "density lies between"),
        (
            lambda: factorize(X, 2, activation_probability=0),
            InvalidSettingError,
            "activation_probability lies between 0 and 1, got 0",
        ),
        (
            lambda: factorize(X, 2, flip_probability=0.5),
            InvalidSettingError,
            r"flip_probability lies in \[0, 0.5\), got 0.5",
        ),
        (lambda: factorize(X, 2, seed=-1), InvalidSettingError, "seed"),
        (lambda: deconvolve(X, 2, (2, 2)), InvalidDataError, "a height and a width"),
        (lambda: deconvolve(IMAGES, 2), InvalidSettingError, "feature_shape must be a height"),
        (lambda: deconvolve(IMAGES, 2, (2, 0)), InvalidSettingError, "both at least 1"),
        (lambda: deconvolve(IMAGES, 2, (6, 6)), InvalidNetworkError, "do not fit"),
        (
            lambda: deconvolve(IMAGES, feature_shape=(2, 2), features=np.ones((1, 3, 3))),
            InvalidSettingError,
            r"given features have shape \(3, 3\)",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
