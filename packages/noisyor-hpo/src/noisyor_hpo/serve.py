"""A disease model as the subject of noisyor's interactive page."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from noisyor.errors import InvalidDataError
from noisyor.serve.subjects import MOST_LISTED, REMEMBERED, Answer, Findings, matches
from noisyor_hpo.model import DiseaseModel
from noisyor_hpo.page import DISCLAIMER
from noisyor_hpo.phenopackets import Patient
from noisyor_hpo.ranking import (
    DiseaseFinding,
    DiseaseRanking,
    NextFinding,
    next_findings,
    rank_diseases,
)

__all__ = ["DiseaseSubject"]

FloatArray = npt.NDArray[np.float64]

_SHIFTS, _SMALLEST_SHIFT = 8, 0.01


class DiseaseSubject:
    """Answer the questions of `noisyor.serve` for a disease model, assuming one disease."""

    def __init__(self, model: DiseaseModel, name: str) -> None:
        self.model, self.name = model, name
        ontology = model.ontology
        labels = [
            (name, term)
            for term, names in enumerate(zip(ontology.names, ontology.synonyms, strict=True))
            for name in (names[0], *names[1])
        ]
        self._labels = [name for name, _ in labels]
        self._folded = [name.casefold() for name in self._labels]
        self._term = [term for _, term in labels]
        self._weight = model.share[self._term]
        self._remembered = lru_cache(REMEMBERED)(self._ask)

    def about(self) -> Answer:
        """Describe the model."""
        model = self.model
        return {
            "name": self.name,
            "kind": "diseases",
            "headline": (
                f"{model.n_diseases:,} rare diseases and {model.ontology.n_terms:,} findings"
            ),
            "words": {
                "cause": "disease",
                "causes": "diseases",
                "finding": "finding",
                "findings": "findings",
            },
            "n_causes": model.n_diseases,
            "n_findings": model.ontology.n_terms,
            "image": None,
            "notice": f"Not a medical device. {DISCLAIMER}",
        }

    def find(self, finding: str | int) -> int:
        """Return the number of a finding given by name, synonym or identifier."""
        ontology = self.model.ontology
        if isinstance(finding, int):
            raise InvalidDataError(
                f"findings of this model are names or identifiers of terms, got {finding}"
            )
        return ontology.number[ontology.find(finding)]

    def complete(self, text: str, limit: int) -> list[Answer]:
        """Return findings whose names contain a text."""
        if not text.strip():
            return []
        ontology = self.model.ontology
        found: dict[int, str] = {}
        # A term may match through several of its names; the first is the best match.
        for number in matches(self._folded, text, 4 * limit, self._weight):
            term = self._term[number]
            hint = "" if self._labels[number] == ontology.names[term] else self._labels[number]
            found.setdefault(term, hint)
        return [{**self._named(term), "hint": hint} for term, hint in list(found.items())[:limit]]

    def explain(self, findings: Findings, top: int) -> Answer:
        """Return diseases, likely findings and questions."""
        known = {
            "present": [self._named(term) for term in findings.present],
            "absent": [self._named(term) for term in findings.absent],
            "pixels": None,
        }
        if not findings.present and not findings.absent:
            method = "nothing known: all diseases are equally likely"
            empty: Answer = {"causes": [], "unexplained": [], "likely": [], "questions": []}
            return {**known, "method": method, "exact": True, **empty}
        ranking, asked = self._remembered(findings)
        names = dict(zip(self.model.disease_ids, self.model.disease_names, strict=True))
        likely = sorted(asked, key=lambda one: (-one.probability, one.term))
        return {
            **known,
            "method": ranking.method,
            "exact": all(disease.error == 0 for disease in ranking.diseases),
            "causes": [
                {
                    "id": disease.id,
                    "name": disease.name,
                    "probability": disease.probability,
                    "error": disease.error,
                    "base": 1.0 / self.model.n_diseases,
                    "explains": [_share(finding) for finding in disease.explains],
                    "against": [_share(finding) for finding in disease.against],
                }
                for disease in ranking.diseases[:top]
            ],
            "unexplained": list(ranking.unexplained),
            "likely": [
                {
                    "id": one.term,
                    "name": one.name,
                    "probability": one.probability,
                    "base": None,
                }
                for one in likely[:top]
            ],
            "questions": [
                {
                    "id": one.term,
                    "name": one.name,
                    "gain": one.gain,
                    "probability": one.probability,
                    "if_present": {"cause": names[one.if_present], "probability": None},
                    "if_absent": {"cause": names[one.if_absent], "probability": None},
                }
                for one in asked[:top]
            ],
        }

    def what_if(self, findings: Findings, finding: int) -> Answer:
        """Return how the diseases shift if one finding had another state."""
        now, others = findings.states_of(finding)
        before = self._probability(findings)
        changes = []
        for state in others:
            after = self._probability(findings.but(finding, state))
            change = after - before
            order = np.argsort(-np.abs(change), kind="stable")[:_SHIFTS]
            changes.append(
                {
                    "if": state,
                    "shifts": [
                        {
                            "id": self.model.disease_ids[k],
                            "name": self.model.disease_names[k],
                            "before": float(before[k]),
                            "after": float(after[k]),
                            "explained_away_by": "",
                        }
                        for k in order.tolist()
                        if abs(change[k]) >= _SMALLEST_SHIFT
                    ],
                }
            )
        return {"finding": self._named(finding), "now": now, "changes": changes}

    def _ask(self, findings: Findings) -> tuple[DiseaseRanking, tuple[NextFinding, ...]]:
        terms = self.model.ontology.terms
        patient = Patient(
            "findings",
            present=tuple(terms[k] for k in findings.present),
            absent=tuple(terms[k] for k in findings.absent),
        )
        ranking = rank_diseases(self.model, patient, top=MOST_LISTED)
        return ranking, next_findings(self.model, patient, top=MOST_LISTED, ranking=ranking)

    def _probability(self, findings: Findings) -> FloatArray:
        if not findings.present and not findings.absent:
            return np.full(self.model.n_diseases, 1.0 / self.model.n_diseases)
        return self._remembered(findings)[0].probability

    def _named(self, term: int) -> Answer:
        ontology = self.model.ontology
        return {"id": ontology.terms[term], "name": ontology.names[term]}


def _share(finding: DiseaseFinding) -> Answer:
    return {"id": finding.term, "name": finding.name, "share": finding.share}
