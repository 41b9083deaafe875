"""Joint max-product of every engine, against enumeration and the reference of one AND at a time."""

import itertools

import numpy as np
import pytest

from noisyor.engines.contract import JointOptions, JointUnaries
from noisyor.engines.numpy.joint_max_product import infer_jointly
from noisyor.engines.registry import get_engine

NEEDS = ("joint_max_product",)


def random_unaries(seed, n, features, positions, pixel_scale=3.0):
    generator = np.random.default_rng(seed)
    height, width = features[1] + positions[0] - 1, features[2] + positions[1] - 1
    return JointUnaries(
        *(
            generator.normal(0.0, scale, shape).astype(np.float32)
            for scale, shape in [
                (pixel_scale, (n, height, width)),
                (2.0, (n, features[0], *positions)),
                (2.0, features),
            ]
        )
    )


def learn(engine, unaries, iterations, damping=0.5, tolerance=0.0, two_stage=False):
    options = JointOptions(iterations, damping, tolerance, two_stage)
    return engine.joint_max_product(unaries, options)


def given_patches(unaries):
    on = np.where(unaries.features > 0, np.inf, -np.inf).astype(np.float32)
    return unaries._replace(features=on)


# ---- against enumeration


def enumerated(pixels, states, features):
    """Max-marginals given pixels (n, p), states (n, r), features (r, p), one position."""
    (n, r), p = states.shape, features.shape[1]
    every = itertools.product((0, 1), repeat=n * r + r * p)
    configurations = np.array(list(every), dtype=np.uint8)
    U, V = (
        configurations[:, : n * r].reshape(-1, n, r),
        configurations[:, n * r :].reshape(-1, r, p),
    )
    drawn = np.einsum("snr,srp->snp", U, V) > 0
    score = (drawn * pixels).sum((1, 2)) + configurations @ np.concatenate(
        [states.ravel(), features.ravel()]
    )
    on = np.array([score[configurations[:, k] == 1].max() for k in range(configurations.shape[1])])
    off = np.array([score[configurations[:, k] == 0].max() for k in range(configurations.shape[1])])
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
@pytest.mark.parametrize("two_stage", [False, True])
def test_trees_are_solved_exactly(engine, case, seed, two_stage):
    n, r, p, observed = case
    unaries = random_unaries(seed, n, (r, 1, p), (1, 1))
    seen = np.zeros((n, 1, p), dtype=np.float32)
    for a, j in observed:
        seen[a, 0, j] = 1.0
    unaries = unaries._replace(pixels=unaries.pixels * seen)
    result = learn(engine, unaries, 200, two_stage=two_stage)
    u, v = enumerated(unaries.pixels[:, 0], unaries.states[:, :, 0, 0], unaries.features[:, 0])
    np.testing.assert_allclose(result.states[:, :, 0, 0], u, atol=1e-4)
    np.testing.assert_allclose(result.features[:, 0], v, atol=1e-4)
    assert result.residual < 1e-5


# ---- message by message

PROBLEMS = [
    (5, (3, 1, 7), (1, 1)),
    (20, (6, 1, 21), (1, 1)),
    (4, (2, 3, 3), (4, 5)),
    (3, (2, 2, 10), (3, 2)),
    (2, (3, 4, 5), (2, 1)),
]


def plain_joint_max_product(unaries, iterations, damping):
    """Loops over every AND: u is an activation, v a pixel of a patch, c the evidence."""
    pixels, states, features = (np.asarray(array, dtype=float) for array in unaries)
    n_images, n_components, rows, columns = states.shape
    _, height, width = features.shape
    ands = [
        ((n, f, i, j), (f, a, b), (n, i + a, j + b))
        for n, f, i, j in np.ndindex(n_images, n_components, rows, columns)
        for a, b in np.ndindex(height, width)
    ]
    to_u, to_v = np.zeros((2, len(ands)))
    u, v, residual = states.copy(), features.copy(), 0.0
    for _ in range(iterations):
        heard = [(u[k] - to_u[e], v[w] - to_v[e]) for e, (k, w, _) in enumerate(ands)]
        down = [min(left + right, left, right) for left, right in heard]
        inputs = {}
        for e, (_, _, pixel) in enumerate(ands):
            inputs.setdefault(pixel, []).append(e)
        residual, new_u, new_v = 0.0, np.empty(len(ands)), np.empty(len(ands))
        for pixel, members in inputs.items():
            for e in members:
                others = [down[other] for other in members if other != e]
                support = pixels[pixel] + sum(max(t, 0.0) for t in others)
                back = min(support, max(0.0, -max(others, default=-np.inf)))
                left, right = heard[e]
                new_u[e] = max(right + back, 0.0) - max(right, 0.0)
                new_v[e] = max(left + back, 0.0) - max(left, 0.0)
        residual = max(np.abs(new_u - to_u).max(), np.abs(new_v - to_v).max())
        to_u = damping * to_u + (1.0 - damping) * new_u
        to_v = damping * to_v + (1.0 - damping) * new_v
        u, v = states.copy(), features.copy()
        for e, (k, w, _) in enumerate(ands):
            u[k] += to_u[e]
            v[w] += to_v[e]
    return u, v, residual


@pytest.mark.parametrize("iterations", [1, 2, 6])
@pytest.mark.parametrize("problem", [PROBLEMS[0], (2, (2, 2, 3), (3, 2)), PROBLEMS[4]])
def test_messages_are_those_of_plain_loops(engine, problem, iterations):
    unaries = random_unaries(3, *problem)
    result = learn(engine, unaries, iterations, 0.4)
    u, v, residual = plain_joint_max_product(unaries, iterations, 0.4)
    np.testing.assert_allclose(result.states, u, atol=1e-4)
    np.testing.assert_allclose(result.features, v, atol=1e-4)
    assert result.residual == pytest.approx(residual, abs=1e-4)


@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_learning_agrees_with_the_reference(engine, problem, iterations):
    unaries = random_unaries(1, *problem)
    # Without damping rounding errors grow from round to round.
    for damping in (0.0 if iterations < 10 else 0.3, 0.5):
        result = learn(engine, unaries, iterations, damping)
        expected = infer_jointly(*unaries, iterations=iterations, damping=damping)
        np.testing.assert_allclose(result.states, expected.states, atol=1e-4)
        np.testing.assert_allclose(result.features, expected.features, atol=1e-4)
        assert result.residual == pytest.approx(expected.residual, abs=1e-4)


def plain_two_stage(unaries, iterations, damping):
    """Loops over every AND with all four of its messages stored, updated at once and damped."""
    pixels, states, features = (np.asarray(array, dtype=float) for array in unaries)
    n_images, n_components, rows, columns = states.shape
    ands = [
        ((n, f, i, j), (f, a, b), (n, i + a, j + b))
        for n, f, i, j in np.ndindex(n_images, n_components, rows, columns)
        for a, b in np.ndindex(features.shape[1:])
    ]
    messages = np.zeros((len(ands), 4))  # to u, to v, to the OR, from the OR
    u, v = states.copy(), features.copy()
    for _ in range(iterations):
        new = np.empty_like(messages)
        for e, (k, w, pixel) in enumerate(ands):
            left, right = u[k] - messages[e, 0], v[w] - messages[e, 1]
            back = messages[e, 3]
            others = [
                messages[o, 2] for o, (_, _, other) in enumerate(ands) if other == pixel and o != e
            ]
            support = pixels[pixel] + sum(max(t, 0.0) for t in others)
            new[e] = (
                max(right + back, 0.0) - max(right, 0.0),
                max(left + back, 0.0) - max(left, 0.0),
                min(left + right, left, right),
                min(support, max(0.0, -max(others, default=-np.inf))),
            )
        residual = np.abs(new - messages).max()
        messages = damping * messages + (1.0 - damping) * new
        u, v = states.copy(), features.copy()
        for e, (k, w, _) in enumerate(ands):
            u[k] += messages[e, 0]
            v[w] += messages[e, 1]
    return u, v, residual


@pytest.mark.parametrize("iterations", [1, 2, 6])
@pytest.mark.parametrize(
    "problem", [(3, (3, 1, 7), (1, 1)), (2, (2, 2, 3), (3, 2)), (1, (1, 2, 3), (2, 2))]
)
def test_two_stage_messages_are_those_of_plain_loops(engine, problem, iterations):
    unaries = random_unaries(3, *problem)
    result = learn(engine, unaries, iterations, 0.4, two_stage=True)
    u, v, residual = plain_two_stage(unaries, iterations, 0.4)
    np.testing.assert_allclose(result.states, u, atol=1e-4)
    np.testing.assert_allclose(result.features, v, atol=1e-4)
    assert result.residual == pytest.approx(residual, abs=1e-4)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_given_patches_by_two_stages_are_clamped(engine, problem):
    given = given_patches(random_unaries(2, *problem))
    result = learn(engine, given, 10, two_stage=True)
    clamped = np.where(given.features > 0, 1e6, -1e6)
    expected = infer_jointly(given.pixels, given.states, clamped, iterations=10, two_stage=True)
    np.testing.assert_allclose(result.states, expected.states, atol=1e-3)
    np.testing.assert_array_equal(result.features > 0, given.features > 0)


@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_given_patches_agree_with_the_reference(engine, problem, iterations):
    given = given_patches(random_unaries(2, *problem))
    result = learn(engine, given, iterations)
    clamped = np.where(given.features > 0, 1e9, -1e9)
    expected = infer_jointly(given.pixels, given.states, clamped, iterations=iterations)
    np.testing.assert_allclose(result.states, expected.states, atol=1e-4)
    np.testing.assert_array_equal(result.features, given.features)
    assert result.iterations == iterations


# ---- invariants


@pytest.mark.parametrize("threads", [1, 3])
def test_bits_do_not_depend_on_threads(engine, threads):
    learning = random_unaries(4, 70, (24, 1, 60), (1, 1))  # enough work for several threads
    other = get_engine(engine.name, n_threads=threads)
    for unaries in (learning, given_patches(learning)):
        for mine, theirs in zip(learn(engine, unaries, 15), learn(other, unaries, 15), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_given_patches_treat_images_independently(engine):
    given = given_patches(random_unaries(5, 9, (3, 2, 4), (3, 3)))
    part = given._replace(pixels=given.pixels[4:6], states=given.states[4:6])
    whole, some = learn(engine, given, 40), learn(engine, part, 40)
    np.testing.assert_array_equal(whole.states[4:6], some.states)


def test_pixels_without_evidence_say_nothing(engine):
    unaries = random_unaries(0, 4, (3, 1, 8), (1, 1))
    result = learn(engine, unaries._replace(pixels=unaries.pixels * 0), 500)
    np.testing.assert_allclose(result.states, unaries.states, atol=1e-6)
    np.testing.assert_allclose(result.features, unaries.features, atol=1e-6)
    assert result.residual < 1e-6


@pytest.mark.parametrize("given", [False, True])
def test_tolerance_stops_early_and_progress_is_told(engine, given):
    unaries = random_unaries(6, 6, (2, 1, 6), (1, 1))
    unaries = given_patches(unaries) if given else unaries
    told = []
    options = JointOptions(iterations=400, damping=0.5, tolerance=1e-3)
    result = engine.joint_max_product(unaries, options, told.append)
    assert result.iterations < 400
    assert result.residual < 1e-3
    assert sum(told) == (len(unaries.pixels) if given else result.iterations)
    late = learn(engine, unaries, 400)
    np.testing.assert_array_equal(late.states > 0, result.states > 0)
