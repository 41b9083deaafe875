"""Fixtures: small annotations, their ontology and model, and the folder of the real data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import noisyor as nor
import noisyor_hpo
from helpers import NAMES, PARENTS, data_of, ontology_of, statement
from noisyor_hpo import Annotations, DiseaseModel, Ontology


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with the real data, which the environment variable NOISYOR_DATA names."""
    named = os.environ.get("NOISYOR_DATA")
    if not named:
        pytest.skip("the real data are not here: set NOISYOR_DATA to their folder")
    return Path(named)


@pytest.fixture(scope="session")
def real_annotations(data_dir) -> Annotations:
    return noisyor_hpo.read_annotations(data_dir / "hpo_phenotype.hpoa.xz")


@pytest.fixture(scope="session")
def ontology() -> Ontology:
    return ontology_of(PARENTS, NAMES)


@pytest.fixture(scope="session")
def data() -> Annotations:
    return data_of(
        [
            statement("OMIM:1", "HP:5", 0.9),
            statement("OMIM:1", "HP:7", 0.3),
            statement("OMIM:1", "HP:6", 0.5),
            statement("OMIM:2", "HP:4", 0.7),
            statement("OMIM:2", "HP:8", 0.2),
            statement("ORPHA:3", "HP:3", 0.6),
            statement("ORPHA:3", "HP:99", 0.4),
            statement("OMIM:4", "HP:7", 0.8),
        ],
        {"OMIM:1": "Short arms", "OMIM:2": "Hands", "ORPHA:3": "Arms", "OMIM:4": "Fingers"},
    )


@pytest.fixture(scope="session")
def model(data, ontology) -> DiseaseModel:
    return noisyor_hpo.build_model(data, ontology)


@pytest.fixture
def annotations():
    findings = ["HP:1", "HP:2", "HP:3"]
    rows = nor.Observations.from_indices([[0, 1], [1, 2], [2]], 3, column_names=findings)
    names = ("flu", "measles", "nothing")
    return Annotations(
        "2025", rows, ("D:1", "D:2", "D:3"), names, np.array([0.8, np.nan, 1.0, 0.5, 0])
    )


@pytest.fixture
def network(annotations):
    names = {"HP:1": "Cough", "HP:2": "Fever"}
    return noisyor_hpo.disease_network(
        annotations, finding_names=names, prior_probability=[0.1, 0.02, 0.5]
    )
