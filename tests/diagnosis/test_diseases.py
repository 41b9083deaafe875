"""Networks of diseases and findings, patients, and what is found for them."""

import runpy
import time
from pathlib import Path

import numpy as np
import pytest

import noisyor as nor
from noisyor.datasets.hpo import load_hpo
from noisyor.diagnosis.diseases import read_finding_names
from noisyor.diagnosis.patients import simulate_patients
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "diagnosis.py"


def test_frequencies_become_failure_probabilities(annotations, network):
    # The third disease has no finding left: its only frequency is 0.
    assert network.hidden_names == ("flu (D:1)", "measles (D:2)")
    assert network.visible_names == ("Cough", "Fever", "HP:3")
    np.testing.assert_allclose(network.failure_probability, [0.2, 0.5, 0.02, 0.5])
    np.testing.assert_allclose(network.prior_probability, [0.1, 0.02])
    np.testing.assert_allclose(network.noise_probability, 1e-4)
    rare = nor.disease_network(annotations, unknown_frequency=0.1, noise_probability=0.01)
    np.testing.assert_allclose(rare.failure_probability, [0.2, 0.9, 0.02, 0.5])
    assert rare.visible_names == ("HP:1", "HP:2", "HP:3")


def test_assumptions_that_make_no_sense_are_refused(annotations):
    with pytest.raises(InvalidSettingError, match="unknown_frequency"):
        nor.disease_network(annotations, unknown_frequency=0)


def test_diagnosis_is_exact_on_a_small_network(network):
    result = nor.diagnose(network, ["fever"], ["Cough"])
    row = np.array([[0, 1, np.nan]])
    exact = nor.enumerate_posterior(network, row).marginals[0]
    np.testing.assert_allclose(result.probability, exact, atol=1e-9)
    assert result.causes[0].name == network.hidden_names[int(exact.argmax())]
    assert [finding.name for finding in result.causes[0].explains] == ["Fever"]


def test_wrong_findings_are_refused_with_a_suggestion(network):
    with pytest.raises(InvalidDataError, match=r"'Feaver'.*did you mean 'Fever'"):
        nor.diagnose(network, ["Feaver"])
    with pytest.raises(InvalidDataError, match="both present and absent"):
        nor.diagnose(network, ["Fever"], ["fever"])
    with pytest.raises(InvalidDataError, match="list of names"):
        nor.diagnose(network, "Fever")


def test_names_from_an_ontology(tmp_path):
    file = tmp_path / "hp.obo"
    file.write_text(
        "format-version: 1.2\nname: not a term\n\n[Term]\nid: HP:1\nname: Cough\nsynonym: x\n\n"
        "[Typedef]\nid: part_of\nname: part of\n\n[Term]\nid: HP:2\nname: Fever\n"
    )
    assert read_finding_names(file) == {"HP:1": "Cough", "HP:2": "Fever"}
    file.write_text("no ontology\n")
    with pytest.raises(InvalidDataError, match="OBO"):
        read_finding_names(file)


@pytest.fixture(scope="module")
def hpo_data(data_dir):
    file = data_dir / "hpo_phenotype.hpoa.xz"
    if not file.exists():
        pytest.skip(f"{file.name} is not among the data")
    return load_hpo(file)


@pytest.fixture(scope="module")
def hpo(hpo_data):
    return nor.disease_network(hpo_data)


def test_marfan_in_under_a_second(hpo):
    findings = ["HP:0001166", "HP:0001083", "HP:0002616"]  # long fingers, lens, aortic root
    nor.diagnose(hpo, findings)  # compiled, and the graph laid out
    began = time.process_time()
    result = nor.diagnose(hpo, findings, ["HP:0001250"], engine=get_engine(n_threads=1))
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


def test_the_example_runs(hpo_data, capsys, monkeypatch):
    monkeypatch.setattr("noisyor.datasets.load_hpo", lambda: hpo_data)  # it was read before
    monkeypatch.setattr("sys.argv", [str(EXAMPLE)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "Marfan" in capsys.readouterr().out
