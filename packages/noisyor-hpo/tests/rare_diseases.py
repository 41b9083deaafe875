"""A small ontology, annotations of three diseases and a patient, as the files that people have."""

from __future__ import annotations

import json
from pathlib import Path

NASTY = 'Rash <script>alert("x")</script> & more'

TERMS = {
    "HP:0000001": ("All", None),
    "HP:0000118": ("Phenotypic abnormality", "HP:0000001"),
    "HP:0000010": ("Abnormality of temperature", "HP:0000118"),
    "HP:0000011": ("Fever", "HP:0000010"),
    "HP:0000012": ("High fever", "HP:0000011"),
    "HP:0000020": ("Cough", "HP:0000118"),
    "HP:0000021": ("Cough, dry", "HP:0000020"),
    "HP:0000030": (NASTY, "HP:0000118"),
    "HP:0000040": ("Sneezing", "HP:0000118"),
    "HP:0000050": ("Wheezing", "HP:0000118"),
}
DISEASES = {
    "OMIM:1": ("Flu", {"HP:0000012": "8/10", "HP:0000020": "9/10"}),
    "OMIM:2": ("Measles", {"HP:0000011": "19/20", "HP:0000030": "20/20", "HP:0000020": "1/10"}),
    "OMIM:3": ("Cold", {"HP:0000040": "9/10", "HP:0000011": "2/10"}),
    "ORPHA:4": ("Asthma", {"HP:0000050": "HP:0040281", "HP:0000021": "5/10"}),
}
PATIENT = {
    "id": "anna",
    "phenotypicFeatures": [
        {"type": {"id": "HP:0000011", "label": "Fever"}},
        {"type": {"id": "HP:0000040", "label": "Sneezing"}},
        {"type": {"id": "HP:0000020", "label": "Cough"}, "excluded": True},
    ],
    "interpretations": [
        {
            "id": "anna",
            "progressStatus": "SOLVED",
            "diagnosis": {"disease": {"id": "OMIM:3", "label": "Cold"}},
        }
    ],
}


def write_ontology(path: Path) -> Path:
    stanzas = ["data-version: small/2025\n"]
    for term, (name, parent) in TERMS.items():
        above = "" if parent is None else f"is_a: {parent}\n"
        stanzas.append(
            f'[Term]\nid: {term}\nname: {name}\nsynonym: "{term[-2:]} too" EXACT []\n{above}'
        )
    path.write_text("\n".join(stanzas))
    return path


def write_annotations(path: Path) -> Path:
    header = (
        "database_id disease_name qualifier hpo_id reference evidence onset frequency sex modifier"
    )
    lines = ["#version: 2025-01-16", "\t".join([*header.split(), "aspect", "biocuration"])]
    for disease, (name, findings) in DISEASES.items():
        for term, frequency in findings.items():
            fields = [disease, name, "", term, "PMID:1", "PCS", "", frequency, "", "", "P", "x"]
            lines.append("\t".join(fields))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_patient(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps({**PATIENT, **changes}))
    return path
