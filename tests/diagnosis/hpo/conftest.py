"""A small ontology with a term of two parents, and diseases that use it."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor._util.csr import Rows, pointers
from noisyor.datasets.hpo import HpoData, HpoStatement
from noisyor.diagnosis.hpo.model import DiseaseModel
from noisyor.diagnosis.ontology import Ontology

NAN = float("nan")

# all <- limbs, skin; limbs <- arm, hand; arm <- short arm; hand, skin <- hand rash; hand <- finger
PARENTS = {
    "HP:0": [],
    "HP:1": ["HP:0"],  # limbs
    "HP:2": ["HP:0"],  # skin
    "HP:3": ["HP:1"],  # arm
    "HP:4": ["HP:1"],  # hand
    "HP:5": ["HP:3"],  # short arm
    "HP:6": ["HP:2", "HP:4"],  # hand rash
    "HP:7": ["HP:4"],  # finger
    "HP:8": ["HP:2"],  # spots
}
NAMES = ("All", "Limbs", "Skin", "Arm", "Hand", "Short arm", "Hand rash", "Finger", "Spots")


def ontology_of(parents: dict[str, list[str]], names: tuple[str, ...] | None = None) -> Ontology:
    terms = tuple(parents)
    rows = [sorted(terms.index(p) for p in parents[term]) for term in terms]
    columns = np.array([k for row in rows for k in row], dtype=np.int32)
    return Ontology(
        version="test",
        terms=terms,
        names=names or terms,
        synonyms=((),) * len(terms),
        parents=Rows(pointers([len(row) for row in rows]), columns),
        current={"HP:99": "HP:8"} if "HP:8" in terms else {},
        retired={},
    )


def statement(disease: str, finding: str, share: float = NAN, **more) -> HpoStatement:
    return HpoStatement(disease, finding, share, share, **more)


def data_of(statements: list[HpoStatement], names: dict[str, str]) -> HpoData:
    rows = nor.Observations.from_indices([[0]] * len(names), 1, column_names=["HP:0"])
    ids = tuple(names)
    return HpoData("2025", rows, ids, tuple(names.values()), np.zeros(len(ids)), tuple(statements))


@pytest.fixture(scope="package")
def ontology() -> Ontology:
    return ontology_of(PARENTS, NAMES)


@pytest.fixture(scope="package")
def data() -> HpoData:
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


@pytest.fixture(scope="package")
def model(data, ontology) -> DiseaseModel:
    return nor.diagnosis.disease_network(data, ontology=ontology)
