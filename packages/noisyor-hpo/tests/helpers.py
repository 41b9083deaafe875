"""A small ontology with a term of two parents, and annotations written by hand."""

from __future__ import annotations

import numpy as np

import noisyor as nor
from noisyor_hpo import Annotations, Ontology, Statement

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
    return Ontology(
        version="test",
        terms=terms,
        names=names or terms,
        synonyms=((),) * len(terms),
        parents=tuple(tuple(sorted(terms.index(p) for p in parents[term])) for term in terms),
        current={"HP:99": "HP:8"} if "HP:8" in terms else {},
        retired={},
    )


def statement(disease: str, finding: str, share: float = NAN, **more) -> Statement:
    return Statement(disease, finding, share, share, **more)


def data_of(statements: list[Statement], names: dict[str, str]) -> Annotations:
    rows = nor.Observations.from_indices([[0]] * len(names), 1, column_names=["HP:0"])
    ids = tuple(names)
    return Annotations(
        "2025", rows, ids, tuple(names.values()), np.zeros(len(ids)), tuple(statements)
    )
