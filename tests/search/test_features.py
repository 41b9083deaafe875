"""Search for the features of binary images, and the network that starts from them."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.datasets import generate_deconvolution
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidNetworkError, InvalidSettingError
from noisyor.metrics import features_iou, threshold_features
from noisyor.model.forward import boolean_convolution
from noisyor.model.layout import state_shape
from noisyor.search.features import FoundFeatures, search_features
from noisyor.search.starts import start_from_features

CORNER = [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
CROSS = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
SHAPES = np.array([CORNER, CROSS], dtype=np.uint8)


def stamped(n_images: int, border: bool = True, seed: int = 0) -> np.ndarray:
    """Images of 9 x 11 with some of both shapes, cut off by the border where it is allowed."""
    generator = np.random.default_rng(seed)
    positions = state_shape((9, 11), (3, 3), border)
    states = generator.random((n_images, 2, *positions)) < 0.025
    return boolean_convolution(states, SHAPES, border)


@pytest.fixture(scope="module")
def found() -> FoundFeatures:
    return search_features(stamped(40), 4, (4, 4), n_restarts=3)


def test_features_are_found_exactly_although_more_and_larger_ones_are_allowed(found):
    assert found.features.shape == (2, 4, 4)
    assert features_iou(found.features, SHAPES) == 1.0
    drawn = boolean_convolution(found.states, found.features, True)
    wrong = drawn != stamped(40)
    assert found.errors == wrong.sum()
    # A stamp of which the border or others leave one pixel is not worth more than that pixel.
    assert wrong.mean() < 0.02


def test_a_feature_lies_in_the_top_left_of_its_window(found):
    assert found.features[:, 0].any(axis=1).all()
    assert found.features[:, :, 0].any(axis=1).all()


def test_most_frequent_feature_first_and_scores_never_fall(found):
    used = found.states.sum((0, 2, 3))
    assert (np.diff(used.astype(int)) <= 0).all()
    assert (np.diff(found.scores) >= 0).all()


def test_probabilities_come_from_counts(found):
    on = found.features == 1
    assert (found.failure[on] < 0.05).all()
    assert (found.failure[~on] > 0.9).all()
    n_places = found.states[:, 0].size
    np.testing.assert_allclose(found.prior, (found.states.sum((0, 2, 3)) + 1) / (n_places + 2))


def test_the_same_seed_gives_the_same_result_with_any_number_of_threads(found):
    again = search_features(stamped(40), 4, (4, 4), n_restarts=3, engine=get_engine(n_threads=1))
    assert (again.features == found.features).all()
    assert (again.states == found.states).all()
    assert again.scores == found.scores


def test_without_border_every_placement_lies_inside():
    images = stamped(40, border=False)
    found = search_features(images, 2, (3, 3), border=False, n_restarts=2)
    assert found.states.shape == (40, 2, 7, 9)
    assert features_iou(found.features, SHAPES) == 1.0
    assert (boolean_convolution(found.states, found.features) == images).all()


def test_flipped_and_unobserved_pixels_do_not_hide_the_features():
    generator = np.random.default_rng(1)
    clean = stamped(80)
    images = np.where(generator.random(clean.shape) < 0.02, 1 - clean, clean).astype(float)
    images[generator.random(clean.shape) < 0.1] = np.nan
    found = search_features(images, 3, (3, 3), n_restarts=4)
    assert features_iou(found.features, SHAPES) == 1.0
    assert 0.005 < found.rates.false_positive < 0.04
    drawn = boolean_convolution(found.states, found.features, True)
    assert (drawn != clean)[:, 2:-2, 2:-2].mean() < 0.02


def test_empty_images_hold_no_feature_and_still_make_a_network():
    found = search_features(np.zeros((5, 6, 6)), 2, (3, 3), n_restarts=1)
    assert found.features.shape == (0, 3, 3)
    learned = nor.learn_features(
        np.zeros((5, 6, 6)), 2, (3, 3), n_restarts=1, steps=1, progress=False
    )
    assert learned.network.prior_probability.max() < 0.01


def test_network_starts_with_what_was_found(found):
    start = start_from_features(found, (9, 11))
    assert (threshold_features(start.theta_of("failure")) == found.features).all()
    np.testing.assert_allclose(start.noise_probability, found.rates.false_positive)
    np.testing.assert_allclose(1 - np.exp(-start.theta_of("prior")), found.prior)
    explained = nor.explain(start, stamped(40)).states.toarray().reshape(40, 2, 12, 14)
    assert (explained == found.states).mean() > 0.995


def test_learned_from_the_papers_recipe_and_good_on_images_not_seen():
    data = generate_deconvolution(50, seed=3)
    learned = nor.learn_features(
        data.images[:40], 5, (6, 6), n_restarts=2, steps=3, seed=3, progress=False
    )
    features = threshold_features(learned.network.theta_of("failure"))
    assert features_iou(features, data.features) == 1.0
    assert len(features) <= 5
    test = data.images[40:]
    states = nor.explain(learned.network, test).states
    assert (nor.metrics.reconstruct_images(learned.network, states) != test).mean() < 0.01
    assert np.isfinite(learned.history.elbo).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_components": 0}, InvalidSettingError, "n_components must be 1, 2, …"),
        ({"n_restarts": 0}, InvalidSettingError, "n_restarts must be 1, 2, …"),
        ({"images": np.zeros((3, 5))}, InvalidDataError, "a height and a width"),
        ({"images": np.zeros((0, 5, 5))}, InvalidDataError, "no rows"),
        ({"border": False, "feature_shape": (7, 7)}, InvalidNetworkError, "do not fit"),
    ],
)
def test_wrong_inputs_are_named(options, error, message):
    arguments = {
        "images": np.zeros((3, 5, 5)),
        "n_components": 2,
        "feature_shape": (3, 3),
    } | options
    with pytest.raises(error, match=message):
        search_features(**arguments)


def test_an_image_of_weight_w_is_searched_as_w_images():
    images = np.zeros((12, 5, 5))
    for number, image in enumerate(images):
        image[number % 4 : number % 4 + 2, number % 3 : number % 3 + 2] = 1
    weights = np.arange(12) % 2 + 1
    rows = nor.Observations.of(images).with_weights(weights)
    found = search_features(rows, 1, (2, 2), n_restarts=1)
    np.testing.assert_array_equal(found.images, np.repeat(np.arange(12), weights))
    many = search_features(np.repeat(images, weights, axis=0), 1, (2, 2), n_restarts=1)
    np.testing.assert_array_equal(found.states, many.states)
    np.testing.assert_array_equal(found.failure, many.failure)
