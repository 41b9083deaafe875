import numpy as np
import pytest

import noisyor as nor
from noisyor.diagnosis.patients import naive_bayes, simulate_patients
from noisyor.errors import InvalidSettingError


def test_simulated_patients(network):
    patients = simulate_patients(network, 30, n_present=1, n_absent=1, seed=1)
    assert patients.diseases.sum(axis=1).tolist() == [1] * 30
    assert (np.diff(patients.rows.ptr) == 1).all()
    assert (np.diff(patients.rows.missing_ptr) >= 1).all()
    again = simulate_patients(network, 10, n_present=1, n_absent=1, seed=1)
    assert (again.diseases.toarray() == patients.diseases[:10].toarray()).all()
    assert again.rows.fingerprint() == patients.rows.take(slice(0, 10)).fingerprint()
    by_prior = simulate_patients(network, 30, n_diseases=None, seed=1)
    assert set(by_prior.diseases.sum(axis=1).tolist()) <= {1, 2}
    assert by_prior.diseases.sum(axis=0)[0] > by_prior.diseases.sum(axis=0)[1]  # flu is common
    with pytest.raises(InvalidSettingError, match="one layer"):
        simulate_patients(nor.from_edges(1, 2, [(0, 0)], [(1, 0)]), 1)


def test_naive_bayes_is_the_posterior_if_one_cause_is_on(network):
    rows = nor.Observations.of(np.array([[1, 0, np.nan], [0, 1, 1]]))
    states = np.eye(2)
    expected = np.stack(
        [nor.inference.log_joint(network, np.tile(state, (2, 1)), rows) for state in states], axis=1
    )
    expected = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(naive_bayes(network, rows), expected)


def test_sets_of_alternatives_are_no_independent_diseases():
    with pytest.raises(InvalidSettingError, match="independent causes"):
        simulate_patients(nor.bipartite(3, 2, alternatives=[0, 0]), 2)
