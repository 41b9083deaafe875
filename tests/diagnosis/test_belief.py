"""Beliefs about causes: sweeps against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.diagnosis.belief import believe
from noisyor.errors import InvalidSettingError
from noisyor.inference.exact import enumerate_posterior
from noisyor.model.subnetwork import relevant_subnetwork


def test_sweeps_agree_with_enumeration_within_their_errors(clinic, deep):
    for network in (clinic, deep):
        part = relevant_subnetwork(network, nor.Observations.from_evidence(6, [0, 1], [3]))
        found = believe(part, "sweeps", 256, seed=1, engine="auto")
        expected = enumerate_posterior(part.network, part.row).marginals[0]
        assert (np.abs(found.probability - expected) <= 4 * found.error + 0.005).all()
        assert found.weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(found.weights @ found.states, found.probability)
        assert not found.exact


def test_sweeps_are_a_function_of_the_seed(clinic):
    part = relevant_subnetwork(clinic, nor.Observations.from_evidence(6, [0]))
    first, same, other = (
        believe(part, "sweeps", 8, seed=seed, engine="auto").probability for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


def test_one_chain_has_no_error(clinic):
    part = relevant_subnetwork(clinic, nor.Observations.from_evidence(6, [0]))
    with pytest.raises(InvalidSettingError, match="n_samples"):
        believe(part, "sweeps", 1, seed=0, engine="auto")
