"""Rank rare diseases by a patient's findings, with the Human Phenotype Ontology and phenopackets.

    import noisyor_hpo

    model = noisyor_hpo.prepare_model()
    for patient in noisyor_hpo.read_phenopackets("patients/", model.ontology):
        print(patient.id, noisyor_hpo.rank_diseases(model, patient).diseases[0].name)

Not a medical device.
"""

__version__ = "0.1.0"  # before the imports: modules below read it

from noisyor_hpo.annotations import Annotations, Statement, read_annotations
from noisyor_hpo.model import DiseaseModel, build_model
from noisyor_hpo.model_file import load_model, prepare_model, save_model
from noisyor_hpo.ontology import Ontology, read_ontology
from noisyor_hpo.phenopackets import Patient, read_phenopackets
from noisyor_hpo.qmr import disease_network
from noisyor_hpo.ranking import (
    DiseaseFinding,
    DiseaseRanking,
    NextFinding,
    RankedDisease,
    next_findings,
    published_papers,
    rank_diseases,
)
from noisyor_hpo.settings import DiseaseSettings

__all__ = [
    "Annotations",
    "DiseaseFinding",
    "DiseaseModel",
    "DiseaseRanking",
    "DiseaseSettings",
    "NextFinding",
    "Ontology",
    "Patient",
    "RankedDisease",
    "Statement",
    "build_model",
    "disease_network",
    "load_model",
    "next_findings",
    "prepare_model",
    "published_papers",
    "rank_diseases",
    "read_annotations",
    "read_ontology",
    "read_phenopackets",
    "save_model",
]
