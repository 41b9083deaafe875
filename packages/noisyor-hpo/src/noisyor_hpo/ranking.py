"""Rank the diseases of a patient, with evidence for and against each, and findings to look for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import entropy_bits
from noisyor.data.columns import suggest
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo.annotations import Annotations
from noisyor_hpo.model import DiseaseModel
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.phenopackets import MAX_TERMS, Patient
from noisyor_hpo.posterior import (
    DiseasePrior,
    Likelihoods,
    distances,
    explaining_edge,
    likelihoods,
    posterior,
    probability_of_term,
)

__all__ = [
    "DiseaseFinding",
    "DiseaseRanking",
    "NextFinding",
    "RankedDisease",
    "next_findings",
    "published_papers",
    "rank_diseases",
]

FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.int64]

_MIN_SHARE = 0.05  # smaller shares of a finding are not listed
_MOSTLY = 0.5
_N_LIKELY = 200  # diseases that questions are to tell apart
_N_CANDIDATES = 400  # findings that are considered as questions
_MIN_FREQUENCY = 0.1  # rarer findings of a disease are not asked for


@dataclass(frozen=True)
class DiseaseFinding:
    """A finding of a patient as explained by one disease.

    Attributes
    ----------
    term, name : the patient's finding.
    share : share of a present finding that is due to the disease, the rest is noise; for an absent
        finding, the probability that the disease shows it.
    by : term of the disease that explains the finding best.
    frequency : frequency of that term in the disease.
    own : False if only related diseases are annotated with that term.
    """

    term: str
    name: str
    share: float
    by: str
    frequency: float
    own: bool


@dataclass(frozen=True)
class RankedDisease:
    """A disease of a ranking.

    Attributes
    ----------
    index, id, name : the disease.
    probability : posterior given the patient.
    error : error of the probability, 0 if exact.
    explains : present findings that the disease explains, the largest share first.
    against : absent findings that the disease would show, the most probable first.
    """

    index: int
    id: str
    name: str
    probability: float
    error: float
    explains: tuple[DiseaseFinding, ...]
    against: tuple[DiseaseFinding, ...]


@dataclass(frozen=True, eq=False)
class DiseaseRanking:
    """The ranked diseases of one patient.

    Attributes
    ----------
    diseases : the most likely diseases, the most probable first.
    prior : ``"one"``, ``"at_least_one"`` or ``"independent"``.
    method : description of how the probabilities were computed.
    probability : (n_diseases,) of every disease of the model.
    unexplained : names of the present findings that none of ``diseases`` explains.
    """

    diseases: tuple[RankedDisease, ...]
    prior: DiseasePrior
    method: str
    probability: FloatArray
    unexplained: tuple[str, ...]


def rank_diseases(
    model: DiseaseModel,
    patient: Patient,
    *,
    prior: DiseasePrior = "one",
    weights: npt.ArrayLike | None = None,
    top: int = 10,
) -> DiseaseRanking:
    """Rank the diseases of a patient, the most likely first.

    Findings that are not stated are unknown. A present term counts even if another present term
    implies it.

    Parameters
    ----------
    model : see `prepare_model`.
    patient : patient of `read_phenopackets`, or made of identifiers of terms.
    prior : exactly ``"one"`` disease, for which sums are exact; ``"at_least_one"``; or each disease
        ``"independent"`` of the others. The default ranks real patients best.
    weights : (n_diseases,) relative prior probabilities, such as `published_papers`; equal by
        default.
    top : number of diseases to describe.
    """
    _check_top(top)
    present, absent = _terms_of(model, patient)
    found = likelihoods(model, present, absent)
    if weights is not None:
        found = found._replace(constant=found.constant + _log_weights(model, weights))
    belief = posterior(found, prior, model.settings.odds, model.settings.doubt)
    order = np.argsort(-belief.probability, kind="stable")[:top].tolist()
    near = [distances(model, term) for term in present]
    ranked = []
    for disease in order:
        explains = []
        for k, term in enumerate(present):
            share = _share(found, k, disease)
            edge = explaining_edge(model, disease, near[k])
            if edge is not None and share >= _MIN_SHARE:
                explains.append(_finding(model, term, share, edge))
        against = [
            _finding(model, term, float(found.denied[k, disease]), edge)
            for k, term in enumerate(absent)
            if found.denied[k, disease] >= _MIN_SHARE
            and (edge := _strongest_kind(model, disease, term)) is not None
        ]
        ranked.append(
            RankedDisease(
                index=disease,
                id=model.disease_ids[disease],
                name=model.disease_names[disease],
                probability=float(belief.probability[disease]),
                error=float(belief.error[disease]),
                explains=_sorted(explains),
                against=_sorted(against),
            )
        )
    explained = {
        finding.term for one in ranked for finding in one.explains if finding.share > _MOSTLY
    }
    ontology = model.ontology
    return DiseaseRanking(
        diseases=tuple(ranked),
        prior=prior,
        method=belief.method,
        probability=belief.probability,
        unexplained=tuple(
            ontology.names[term] for term in present if ontology.terms[term] not in explained
        ),
    )


def published_papers(data: Annotations, model: DiseaseModel) -> LongArray:
    """Count the papers (n_diseases,) that the annotations of each disease rest on, plus one.

    A rough measure of how common a disease is, for ``weights`` of `rank_diseases`.
    """
    papers: dict[str, set[str]] = {disease: set() for disease in model.disease_ids}
    for statement in data.statements:
        if statement.disease in papers:
            papers[statement.disease].update(
                paper for paper in statement.references if paper.startswith("PMID:")
            )
    return np.array([len(papers[disease]) + 1 for disease in model.disease_ids], dtype=np.int64)


def _log_weights(model: DiseaseModel, weights: npt.ArrayLike) -> FloatArray:
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (model.n_diseases,) or not (np.isfinite(values) & (values > 0)).all():
        raise InvalidSettingError(
            f"weights are positive numbers, one for each of {model.n_diseases:,} diseases, got an "
            f"array of shape {values.shape}"
        )
    return np.asarray(np.log(values / values.mean()))


def _terms_of(model: DiseaseModel, patient: Patient) -> tuple[list[int], list[int]]:
    """Return the numbers of the present and of the absent terms of a patient, each once.

    Raises
    ------
    InvalidDataError : a term is not in the ontology, there is none, or there are too many.
    """
    n_terms = len(patient.present) + len(patient.absent)
    if n_terms > MAX_TERMS:
        raise InvalidDataError(
            f"{patient.id}: {n_terms:,} terms, at most {MAX_TERMS:,} are expected of one patient"
        )
    if not n_terms:
        raise InvalidDataError(f"{patient.id}: no terms, neither present nor absent")
    present = list(dict.fromkeys(_numbers(model, patient.present)))
    absent = list(dict.fromkeys(_numbers(model, patient.absent)))
    return present, [term for term in absent if term not in set(present)]


def _numbers(model: DiseaseModel, terms: Iterable[str]) -> list[int]:
    ontology = model.ontology
    numbers = []
    for term in terms:
        found = ontology.resolve(term)
        if found is None:
            raise InvalidDataError(
                f"no term {term!r} in the ontology {ontology.version}"
                f"{suggest(term, ontology.terms)}"
            )
        numbers.append(ontology.number[found])
    return numbers


def _share(found: Likelihoods, finding: int, disease: int) -> float:
    """Return the share of a present finding that is due to a disease; the rest is noise."""
    noise, shown = found.noise[finding], found.shown[finding, disease]
    return float(shown / (noise + (1.0 - noise) * shown))


def _strongest_kind(model: DiseaseModel, disease: int, term: int) -> int | None:
    """Return the edge of a disease to a term or a kind of it with the largest frequency."""
    kinds = model.ontology.descendants(term)
    edges = np.arange(model.ptr[disease], model.ptr[disease + 1])
    edges = edges[np.isin(model.term[edges], kinds)]
    return int(edges[np.argmax(model.frequency[edges])]) if len(edges) else None


def _finding(model: DiseaseModel, term: int, share: float, edge: int) -> DiseaseFinding:
    ontology = model.ontology
    return DiseaseFinding(
        term=ontology.terms[term],
        name=ontology.names[term],
        share=share,
        by=ontology.terms[model.term[edge]],
        frequency=float(model.frequency[edge]),
        own=bool(model.own[edge]),
    )


def _sorted(findings: list[DiseaseFinding]) -> tuple[DiseaseFinding, ...]:
    return tuple(sorted(findings, key=lambda finding: (-finding.share, finding.term)))


def _check_top(top: int) -> None:
    if not isinstance(top, int) or top < 1:
        raise InvalidSettingError(f"top must be a whole number of at least 1, got {top!r}")


# ---- what to look for next


@dataclass(frozen=True)
class NextFinding:
    """A finding that is worth looking for.

    Attributes
    ----------
    term, name : the finding.
    gain : expected information about the disease in the answer, in bits.
    probability : probability that the finding is present.
    if_present, if_absent : identifier of the most likely disease after either answer.
    """

    term: str
    name: str
    gain: float
    probability: float
    if_present: str
    if_absent: str


def next_findings(
    model: DiseaseModel,
    patient: Patient,
    *,
    prior: DiseasePrior = "one",
    top: int = 5,
    ranking: DiseaseRanking | None = None,
) -> tuple[NextFinding, ...]:
    """Return the unknown findings with the largest information gain about the disease, best first.

    One of the most likely diseases is assumed to be the right one. Only terms that these diseases
    are annotated with are considered, except terms that the patient's findings already imply or
    exclude. No chosen term is a kind of another.

    Parameters
    ----------
    model, patient, prior : as in `rank_diseases`.
    top : number of findings.
    ranking : ranking of the patient, if it is already known; its prior is used then.
    """
    _check_top(top)
    present, absent = _terms_of(model, patient)
    if ranking is None:
        belief = posterior(
            likelihoods(model, present, absent), prior, model.settings.odds, model.settings.doubt
        ).probability
    else:
        belief = ranking.probability
    likely = np.argsort(-belief, kind="stable")[:_N_LIKELY]
    weight = belief[likely]
    weight = weight / weight.sum()
    candidates = _candidates(model, likely, weight, present, absent)
    if not len(candidates):
        return ()
    noise = model.noise[candidates]
    shown = np.array([probability_of_term(model, term)[likely] for term in candidates.tolist()])
    on = 1.0 - (1.0 - noise[:, None]) * (1.0 - shown)  # (n_candidates, n_likely)
    chance = on @ weight
    gain = entropy_bits(chance) - entropy_bits(on) @ weight
    ontology = model.ontology
    chosen = _unrelated(ontology, candidates, np.lexsort((candidates, -gain)), top)
    return tuple(
        NextFinding(
            term=ontology.terms[candidates[k]],
            name=ontology.names[candidates[k]],
            gain=float(gain[k]),
            probability=float(chance[k]),
            if_present=model.disease_ids[likely[np.argmax(weight * on[k])]],
            if_absent=model.disease_ids[likely[np.argmax(weight * (1.0 - on[k]))]],
        )
        for k in chosen
    )


def _unrelated(ontology: Ontology, candidates: LongArray, order: LongArray, top: int) -> list[int]:
    """Return the first candidates in an order that are not kinds of each other."""
    related = np.zeros(ontology.n_terms, dtype=np.bool_)
    chosen: list[int] = []
    for k in order.tolist():
        term = int(candidates[k])
        if len(chosen) < top and not related[term]:
            chosen.append(k)
            related[ontology.ancestors(term)] = True
            related[ontology.descendants(term)] = True
    return chosen


def _candidates(
    model: DiseaseModel,
    likely: LongArray,
    weight: FloatArray,
    present: list[int],
    absent: list[int],
) -> LongArray:
    """Return the undecided terms of likely diseases, the most expected first."""
    ontology = model.ontology
    expected = np.zeros(ontology.n_terms)
    for disease, share in zip(likely.tolist(), weight.tolist(), strict=True):
        edges = slice(model.ptr[disease], model.ptr[disease + 1])
        often = model.frequency[edges] >= _MIN_FREQUENCY
        expected[model.term[edges][often]] += share * model.frequency[edges][often]
    for term in present:
        expected[ontology.ancestors(term)] = 0.0
    for term in absent:
        expected[ontology.descendants(term)] = 0.0
    order = np.argsort(-expected, kind="stable")[:_N_CANDIDATES]
    return np.asarray(order[expected[order] > 0.0], dtype=np.int64)
