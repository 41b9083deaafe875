"""Real patients for the benchmark: cases, annotations without a case's own paper, and scores."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisyor_hpo.annotations import Annotations, Statement, without_papers
from noisyor_hpo.model import DiseaseModel, build_model, series_of
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.phenopackets import Patient, read_phenopackets
from noisyor_hpo.posterior import (
    Likelihoods,
    combine_likelihoods,
    probability_of_record,
    probability_of_term,
)

FILES = {"LIRICAL": "lirical_part.jsonl.xz", "store": "phenopacket_store_0.1.11.jsonl.xz"}
HALVES = ("development", "report")


class Case(NamedTuple):
    """A patient with a confirmed disease; ``left`` numbers the annotations without its papers.

    ``cited``: one of its papers is a reference of the disease. ``left`` is None if nothing is left.
    """

    source: str
    patient: Patient
    disease: str
    paper: str
    half: str
    cited: bool
    left: int | None


class Study(NamedTuple):
    """The cases, and for each (disease, papers) what is left of the disease's annotations."""

    cases: list[Case]
    left: list[tuple[str, tuple[Statement, ...]]]
    left_out: dict[str, int]


def half_of(paper: str) -> str:
    """The half of the papers that one belongs to."""
    return HALVES[int(hashlib.sha256(paper.encode()).hexdigest(), 16) % 2]


def study(folder: Path, data: Annotations, ontology: Ontology) -> Study:
    """Read the patients and take their own papers out of the annotations."""
    of_disease: dict[str, list[Statement]] = defaultdict(list)
    for statement in data.statements:
        of_disease[statement.disease].append(statement)
    found: list[tuple[str, Patient, str]] = []
    left_out: Counter[str] = Counter()
    for source, name in FILES.items():
        for patient in read_phenopackets(folder / name, ontology):
            if not patient.present:
                left_out["no finding"] += 1
            elif patient.diseases[0] not in of_disease:
                left_out["disease without annotations"] += 1
            else:
                found.append((source, patient, patient.diseases[0]))
    present, examined = _counts_of_papers(found, ontology)
    left: list[tuple[str, tuple[Statement, ...]]] = []
    number: dict[tuple[str, tuple[str, ...]], int | None] = {}
    cases = []
    for source, patient, disease in found:
        papers = tuple(sorted(r for r in patient.references if r.startswith("PMID:")))
        cited = any(set(papers) & set(s.references) for s in of_disease[disease])
        key = disease, papers
        if key not in number:
            kept = without_papers(
                of_disease[disease],
                papers,
                sum((present[disease, paper] for paper in papers), Counter()),
                sum((examined[disease, paper] for paper in papers), Counter()),
            )
            number[key] = len(left) if kept else None
            if kept:
                left.append((disease, kept))
        paper = papers[0] if papers else "none"
        cases.append(Case(source, patient, disease, paper, half_of(paper), cited, number[key]))
    return Study(cases, left, dict(left_out))


def _counts_of_papers(
    found: Iterable[tuple[str, Patient, str]], ontology: Ontology
) -> tuple[dict[tuple[str, str], Counter[str]], dict[tuple[str, str], Counter[str]]]:
    """How many patients of a paper have a term or a kind of it, and of how many that is known."""
    present: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    examined: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for _, patient, disease in found:
        on = {
            ontology.terms[k]
            for term in patient.present
            for k in ontology.ancestors(ontology.number[term])
        }
        for paper in patient.references:
            present[disease, paper].update(on)
            examined[disease, paper].update(on | set(patient.absent))
    return present, examined


def capped(cases: Sequence[Case], most: int) -> list[Case]:
    """At most some cases of each paper and disease of the store, so that a few do not decide.

    LIRICAL's papers are single cases, and all are kept.
    """
    taken: Counter[tuple[str, str, str]] = Counter()
    kept = []
    for case in sorted(cases, key=_order):
        key = case.source, case.paper, case.disease
        if case.source == "LIRICAL" or taken[key] < most:
            taken[key] += 1
            kept.append(case)
    return kept


def _order(case: Case) -> str:
    return hashlib.sha256(f"{case.patient.id} {case.patient.source}".encode()).hexdigest()


class Scorer:
    """Scores of our model for many cases; terms are asked about once.

    Columns are the diseases of the model, then those without the papers of a case.
    """

    def __init__(self, model: DiseaseModel, data: Annotations, study: Study) -> None:
        self.model = model
        self.extra = _left_model(model, data, study)
        self._shown: dict[int, np.ndarray] = {}
        self._denied: dict[int, np.ndarray] = {}

    def readings(self, present: Sequence[str], absent: Sequence[str]) -> Likelihoods:
        """What all columns say of a patient."""
        ontology = self.model.ontology
        on = [ontology.number[term] for term in dict.fromkeys(present)]
        off = [ontology.number[term] for term in dict.fromkeys(absent)]
        for term in on:
            if term not in self._shown:
                self._shown[term] = self._both(probability_of_record, term)
        for term in off:
            if term not in self._denied:
                self._denied[term] = self._both(probability_of_term, term)
        parts = []
        for model, columns in (
            (self.model, slice(None, self.model.n_diseases)),
            (self.extra, slice(self.model.n_diseases, None)),
        ):
            shown = [self._shown[term][columns] for term in on]
            denied = [self._denied[term][columns] for term in off]
            parts.append(combine_likelihoods(model, on, shown, denied))
        return Likelihoods(
            np.concatenate([part.shown for part in parts], axis=1),
            parts[0].noise,
            np.concatenate([part.denied for part in parts], axis=1),
            parts[0].weight,
            np.concatenate([part.constant for part in parts]),
        )

    def _both(self, ask: Any, term: int) -> np.ndarray:
        both = np.concatenate([ask(self.model, term), ask(self.extra, term)])
        return both.astype(np.float32)


def _left_model(model: DiseaseModel, data: Annotations, study: Study) -> DiseaseModel:
    """The diseases without the papers of a case, with the shares of terms of the whole model.

    Each borrows from its kin, as the disease itself does.
    """
    series = series_of(data.disease_names)
    members: dict[int, list[int]] = defaultdict(list)
    for k, number in enumerate(series.tolist()):
        members[number].append(k)
    of_disease: dict[str, list[Statement]] = defaultdict(list)
    for statement in data.statements:
        of_disease[statement.disease].append(statement)
    place = {disease: k for k, disease in enumerate(data.disease_ids)}
    terms, frequencies, owns = [], [], []
    for disease, kept in study.left:
        family = members[int(series[place[disease]])]
        ids = tuple(data.disease_ids[k] for k in family)
        lines = [s for other in ids if other != disease for s in of_disease[other]]
        small = build_model(
            replace(
                data,
                disease_ids=ids,
                disease_names=tuple(data.disease_names[k] for k in family),
                statements=(*lines, *kept),
            ),
            model.ontology,
            settings=model.settings,
        )
        row = small.number_of(disease)
        edges = slice(small.ptr[row], small.ptr[row + 1])
        terms.append(small.term[edges])
        frequencies.append(small.frequency[edges])
        owns.append(small.own[edges])
    return replace(
        model,
        disease_ids=tuple(f"{disease} left {k}" for k, (disease, _) in enumerate(study.left)),
        disease_names=tuple(disease for disease, _ in study.left),
        ptr=np.cumsum([0, *map(len, terms)]),
        term=np.concatenate(terms),
        frequency=np.concatenate(frequencies),
        own=np.concatenate(owns),
    )


def with_own_papers_out(
    values: np.ndarray, n_diseases: int, replaced: Iterable[tuple[int, int]]
) -> np.ndarray:
    """Columns of the diseases, those of some replaced by what is left without a case's papers."""
    columns = np.arange(n_diseases)
    for disease, left in replaced:
        columns[disease] = n_diseases + left
    return values[..., columns]


def rank_of(scores: np.ndarray, disease: int) -> float:
    """Rank of a disease; among equals it is in the middle."""
    own = scores[disease]
    return float(1 + (scores > own).sum() + ((scores == own).sum() - 1) / 2)


def summary(ranks: Sequence[float]) -> dict[str, float]:
    """Shares in percent and the median rank."""
    values = np.array(ranks)
    if not len(values):
        return {"n": 0}
    found = {"n": len(values)}
    for k in (1, 3, 10):
        found[f"top{k}"] = round(100.0 * float((values < k + 0.75).mean()), 1)
    found["median_rank"] = float(np.median(values))
    return found


def calibration(stated: Sequence[float], right: Sequence[bool]) -> dict[str, Any]:
    """How often diseases are right that were given some probability.

    ``largest_gap`` is over bins of at least 40 diseases.
    """
    edges = np.array([0.0, 0.05, 0.15, 0.25, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0 + 1e-9])
    probability, truth = np.array(stated), np.array(right, dtype=np.float64)
    place = np.digitize(probability, edges) - 1
    bins = []
    for k in range(len(edges) - 1):
        inside = place == k
        if inside.any():
            bins.append(
                {
                    "from": float(edges[k]),
                    "n": int(inside.sum()),
                    "stated": round(100.0 * float(probability[inside].mean()), 1),
                    "right": round(100.0 * float(truth[inside].mean()), 1),
                }
            )
    gaps = [abs(b["stated"] - b["right"]) for b in bins if b["n"] >= 40]
    sizes = np.array([b["n"] for b in bins])
    all_gaps = np.array([abs(b["stated"] - b["right"]) for b in bins])
    return {
        "bins": bins,
        "largest_gap": round(max(gaps), 1),
        "mean_gap": round(float(sizes @ all_gaps / sizes.sum()), 2),
    }
