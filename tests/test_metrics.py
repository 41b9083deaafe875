from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor.datasets.synthetic import true_features
from noisyor.errors import InvalidDataError, InvalidNetworkError
from noisyor.metrics import (
    factorization_error,
    features_iou,
    match_features,
    reconstruct_images,
    reconstruction_error,
    threshold_features,
)
from noisyor.model.builders import bipartite, convolutional
from noisyor.model.forward import boolean_convolution
from noisyor.model.network import theta_from_failure


def convolution_by_definition(states, features, border):
    """``1 - prod (1 - S[f, y - a, x - b] W[f, a, b])``, written out pixel by pixel."""
    n, n_components, rows, columns = states.shape
    _, height, width = features.shape
    shift = (height - 1, width - 1) if border else (0, 0)
    grow = -1 if border else 1
    shape = (rows + grow * (height - 1), columns + grow * (width - 1))
    images = np.zeros((n, *shape), dtype=np.uint8)
    for image, f, i, j, a, b in itertools.product(
        *map(range, (n, n_components, rows, columns, height, width))
    ):
        y, x = i + a - shift[0], j + b - shift[1]
        if 0 <= y < shape[0] and 0 <= x < shape[1]:
            images[image, y, x] |= states[image, f, i, j] & features[f, a, b]
    return images


class TestBooleanConvolution:
    @given(
        seed=st.integers(0, 2**32 - 1),
        sizes=st.tuples(*[st.integers(1, 3)] * 4),
        extra=st.tuples(*[st.integers(0, 3)] * 2),
        border=st.booleans(),
    )
    @settings(deadline=None)
    def test_it_is_its_definition(self, seed, sizes, extra, border):
        n, n_components, height, width = sizes
        smallest = (2 * height - 1, 2 * width - 1) if border else (1, 1)
        rows, columns = smallest[0] + extra[0], smallest[1] + extra[1]
        random = np.random.default_rng(seed)
        states = (random.random((n, n_components, rows, columns)) < 0.3).astype(np.uint8)
        features = (random.random((n_components, height, width)) < 0.5).astype(np.uint8)
        images = boolean_convolution(states, features, border)
        assert images.dtype == np.uint8
        np.testing.assert_array_equal(images, convolution_by_definition(states, features, border))

    def test_overlaps_count_once(self):
        states = np.ones((1, 1, 2, 2))
        np.testing.assert_array_equal(
            boolean_convolution(states, np.ones((1, 2, 2))), np.ones((1, 3, 3))
        )

    @pytest.mark.parametrize(
        ("states", "features", "border", "message"),
        [
            (np.zeros((1, 2, 3, 3)), np.zeros((1, 2, 2)), False, "2 components, but there are 1"),
            (np.zeros((2, 3, 3)), np.zeros((1, 2, 2)), False, "states must have 4 axes"),
            (np.zeros((1, 1, 3, 3)), np.full((1, 2, 2), 0.5), False, "features must hold 0 and 1"),
            (np.full((1, 1, 3, 3), np.nan), np.zeros((1, 2, 2)), False, "states must hold 0 and 1"),
            (np.zeros((1, 1, 2, 2)), np.zeros((1, 2, 2)), True, "too few"),
        ],
    )
    def test_what_cannot_be_convolved(self, states, features, border, message):
        with pytest.raises(InvalidDataError, match=message):
            boolean_convolution(states, features, border)


class TestReconstruction:
    def test_error_is_the_share_of_entries_that_differ_in_percent(self):
        X = np.zeros((5, 4))
        other = X.copy()
        other[0, :3] = 1
        assert reconstruction_error(other, X) == pytest.approx(15.0)
        assert reconstruction_error(X.astype(bool), X) == 0.0

    def test_shapes_must_agree(self):
        with pytest.raises(InvalidDataError, match="shape"):
            reconstruction_error(np.zeros((2, 3)), np.zeros((3, 2)))

    def test_nothing_to_compare(self):
        with pytest.raises(InvalidDataError, match="no entries"):
            reconstruction_error(np.zeros((0, 3)), np.zeros((0, 3)))

    @pytest.mark.parametrize("border", [False, True])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_images_of_a_network_whose_causes_are_known(self, border, sparse):
        random = np.random.default_rng(0)
        features = (random.random((3, 2, 3)) < 0.5).astype(np.uint8)
        network = convolutional(
            (6, 7), 3, (2, 3), border=border, failure_probability=np.where(features, 0.1, 0.8)
        )
        states = (random.random((4, network.n_hidden)) < 0.1).astype(np.uint8)
        rows, columns = (7, 9) if border else (5, 5)
        expected = convolution_by_definition(states.reshape(4, 3, rows, columns), features, border)
        given_states = sp.csr_array(states) if sparse else states
        np.testing.assert_array_equal(reconstruct_images(network, given_states), expected)

    def test_a_network_that_is_not_convolutional(self):
        with pytest.raises(InvalidNetworkError, match="convolutional"):
            reconstruct_images(bipartite(4, 2), np.zeros((1, 2)))

    def test_states_of_another_network(self):
        network = convolutional((4, 4), 1, (2, 2))
        with pytest.raises(InvalidDataError, match=r"\(n_images, 9\)"):
            reconstruct_images(network, np.zeros((1, 8)))


class TestFeatures:
    def test_threshold_is_failure_probability_one_half(self):
        theta = theta_from_failure([0.6, 0.5 + 1e-9, 0.5 - 1e-9, 0.1])
        np.testing.assert_array_equal(threshold_features(theta), [0, 0, 1, 1])
        assert threshold_features(np.log(2.0)) == 0  # strict, as in the paper's deconvolution

    def test_any_place_in_a_larger_window_is_a_full_match(self):
        true = true_features()
        learned = np.zeros((5, 6, 6), dtype=np.uint8)
        places = [(0, 0), (0, 1), (1, 0), (1, 1)]
        for number, (feature, (a, b)) in enumerate(zip(true, places, strict=True)):
            learned[4 - number, a : a + 5, b : b + 5] = feature
        match = match_features(learned, true)
        assert features_iou(learned, true) == 1.0
        np.testing.assert_array_equal(match.learned, [4, 3, 2, 1])

    def test_partial_overlap(self):
        true = np.zeros((1, 2, 2))
        true[0, 0] = 1
        learned = np.zeros((1, 2, 2))
        learned[0, :, 0] = 1
        assert features_iou(learned, true) == pytest.approx(1 / 3)

    def test_the_assignment_maximises_the_total_not_the_first(self):
        true = np.array([[[1, 1, 0, 0]], [[1, 1, 1, 0]]])
        learned = np.array([[[1, 1, 1, 1]], [[1, 1, 1, 0]]])
        # Greedy by rows: 2/3 for the first, then 3/4. Best total: 1/2 and 1.
        np.testing.assert_allclose(match_features(learned, true).iou, [0.5, 1.0])

    def test_fewer_learned_than_true_features_count_as_nothing(self):
        true = true_features()
        match = match_features(true[[2]], true)
        np.testing.assert_array_equal(match.learned, [-1, -1, 0, -1])
        assert features_iou(true[[2]], true) == 0.25

    def test_empty_learned_features_score_nothing(self):
        assert features_iou(np.zeros((5, 6, 6)), true_features()) == 0.0

    @given(seed=st.integers(0, 2**32 - 1), offset=st.tuples(*[st.integers(0, 2)] * 2))
    @settings(deadline=None)
    def test_against_all_assignments(self, seed, offset):
        random = np.random.default_rng(seed)
        true = (random.random((2, 2, 3)) < 0.5).astype(np.uint8)
        true[:, 0, 0] = 1
        learned = (random.random((3, 2 + offset[0], 3 + offset[1])) < 0.5).astype(np.uint8)

        def overlap(g, k):
            values = []
            for a, b in itertools.product(range(offset[0] + 1), range(offset[1] + 1)):
                window = learned[k, a : a + 2, b : b + 3]
                values.append((window & true[g]).sum() / (window | true[g]).sum())
            return max(values)

        expected = max(
            (overlap(0, first) + overlap(1, second)) / 2
            for first, second in itertools.permutations(range(3), 2)
        )
        assert features_iou(learned, true) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("learned", "true", "message"),
        [
            (np.zeros((1, 4, 6)), np.ones((1, 5, 5)), "smaller"),
            (np.zeros((1, 6, 6)), np.zeros((1, 5, 5)), "without a pixel"),
            (np.zeros((1, 6, 6)), np.ones((0, 5, 5)), "must be true features"),
            (np.zeros((6, 6)), np.ones((1, 5, 5)), "axes"),
        ],
    )
    def test_what_cannot_be_matched(self, learned, true, message):
        with pytest.raises(InvalidDataError, match=message):
            match_features(learned, true)


class TestFactorizationError:
    def test_threshold_and_product(self):
        log2 = math.log(2.0)
        network = bipartite(
            3,
            2,
            failure_probability=np.exp(
                -np.array([[log2 + 1e-9, log2 - 1e-6, 3.0], [0.0, 5.0, 0.0]])
            ),
        )
        # the factor is 101 / 010
        X = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0]])
        states = sp.csr_array(np.array([[1, 1], [0, 1], [1, 0]]))
        # reconstructed 111, 010, 101: 0 + 1 + 3 entries of 9 differ
        assert factorization_error(network, states, X) == pytest.approx(100 * 4 / 9)

    def test_other_networks_are_refused(self):
        with pytest.raises(InvalidNetworkError, match="bipartite"):
            factorization_error(
                convolutional((3, 3), 1, (2, 2)), np.zeros((1, 4)), np.zeros((1, 9))
            )
