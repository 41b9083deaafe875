"""Networks of diseases and findings, patients, and what is found for them."""

import runpy
import time
from pathlib import Path

import numpy as np
import pytest
from _simulation import naive_bayes, simulate_patients

import noisyor as nor
import noisyor_hpo
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "diagnosis.py"


def test_frequencies_become_failure_probabilities(annotations, network):
    # The third disease has no finding left: its only frequency is 0.
    assert network.hidden_names == ("flu (D:1)", "measles (D:2)")
    assert network.visible_names == ("Cough", "Fever", "HP:3")
    np.testing.assert_allclose(network.failure_probability, [0.2, 0.5, 0.02, 0.5])
    np.testing.assert_allclose(network.prior_probability, [0.1, 0.02])
    np.testing.assert_allclose(network.noise_probability, 1e-4)
    rare = noisyor_hpo.disease_network(annotations, unknown_frequency=0.1, noise_probability=0.01)
    np.testing.assert_allclose(rare.failure_probability, [0.2, 0.9, 0.02, 0.5])
    assert rare.visible_names == ("HP:1", "HP:2", "HP:3")


def test_assumptions_that_make_no_sense_are_refused(annotations):
    with pytest.raises(InvalidSettingError, match="unknown_frequency"):
        noisyor_hpo.disease_network(annotations, unknown_frequency=0)


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


@pytest.fixture(scope="module")
def hpo(real_annotations):
    return noisyor_hpo.disease_network(real_annotations)


def test_marfan_in_under_a_second(hpo):
    findings = ["HP:0001166", "HP:0001083", "HP:0002616"]  # long fingers, lens, aortic root
    nor.explanation.rank_causes(
        hpo, nor.explanation.named_evidence(hpo, findings)
    )  # compiled, and the graph laid out
    began = time.process_time()
    result = nor.explanation.rank_causes(
        hpo,
        nor.explanation.named_evidence(hpo, findings, ["HP:0001250"]),
        engine=get_engine(n_threads=1),
    )
    assert time.process_time() - began < 1.0
    assert "Marfan" in result.causes[0].name
    assert result.causes[0].probability > 0.3


def test_most_simulated_patients_are_diagnosed(hpo):
    patients = simulate_patients(hpo, 12, seed=3)
    probability = nor.marginals(hpo, patients.rows, n_samples=8).probability
    truth = patients.diseases.toarray().astype(bool)
    ranked = np.argsort(-probability, axis=1)
    hits = np.take_along_axis(truth, ranked, axis=1)
    assert hits[:, :5].any(axis=1).mean() >= 0.6


def test_the_example_runs(real_annotations, capsys, monkeypatch):
    monkeypatch.setattr(
        "noisyor_hpo.read_annotations", lambda: real_annotations
    )  # it was read before
    monkeypatch.setattr("sys.argv", [str(EXAMPLE)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "Marfan" in capsys.readouterr().out
