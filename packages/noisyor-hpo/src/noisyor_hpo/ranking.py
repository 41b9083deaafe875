"""Diseases of a patient by probability, with what speaks for and against each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.validation import check_count
from noisyor.data.columns import suggest
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo.annotations import Annotations
from noisyor_hpo.evidence import distances, explaining_edge
from noisyor_hpo.model import DiseaseModel
from noisyor_hpo.phenopackets import MOST_TERMS, Patient
from noisyor_hpo.sets import DiseasePrior, Readings, posterior, readings

__all__ = [
    "DiseaseFinding",
    "DiseaseRanking",
    "RankedDisease",
    "published_papers",
    "rank_diseases",
    "terms_of",
]

_FAINT = 0.05
_MOSTLY = 0.5


@dataclass(frozen=True)
class DiseaseFinding:
    """A finding of a patient as one disease sees it.

    Attributes
    ----------
    term, name : of the patient's finding.
    share : of a present finding, how much of it is due to the disease, the rest is noise; of an
        absent one, the probability that the disease would show it.
    by : the term of the disease that explains it best.
    frequency : of that term in the disease.
    own : False if the disease has that term only by its kin.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> noisyor_hpo.DiseaseFinding("HP:1", "Fever", 0.9, "HP:2", 0.7, True).by
    'HP:2'
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
    index, id, name : of the disease.
    probability : given the patient.
    error : of the probability; 0 if it is exact.
    explains : present findings that it explains, the largest share first.
    against : absent findings that it would show, the most probable first.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> noisyor_hpo.RankedDisease(0, "D:1", "flu", 0.5, 0.0, (), ()).probability
    0.5
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
    """The diseases of one patient.

    Attributes
    ----------
    diseases : the most likely, by falling probability.
    prior : ``"one"``, ``"at_least_one"`` or ``"independent"``.
    method : how the probabilities were found, in words.
    probability : (n_diseases,) of every disease of the model.
    unexplained : names of the present findings that none of ``diseases`` explains.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> noisyor_hpo.DiseaseRanking((), "one", "exact", np.zeros(0), ("Fever",)).unexplained
    ('Fever',)
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
    """The diseases of a patient, the most likely first.

    What is neither stated to be present nor absent is unknown. A present term that is implied by
    another one counts, as the patient's description has it, by itself.

    Parameters
    ----------
    model : see `disease_network`.
    patient : of `read_phenopackets`, or made of identifiers of terms.
    prior : exactly ``"one"`` disease, for which sums are exact; ``"at_least_one"``; or each disease
        ``"independent"`` of the others. The default ranks real patients best.
    weights : (n_diseases,) how much more common a disease is than others, such as the number of
        papers of `published_papers`; all alike by default.
    top : number of diseases to describe.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> from noisyor_hpo import Ontology, Patient
    >>> from noisyor._util.csr import Rows
    >>> ontology = Ontology("", ("HP:1", "HP:2"), ("fever", "cough"), ((), ()),
    ...                     Rows(np.array([0, 0, 0]), np.array([], dtype=int)), {}, {})
    >>> rows = nor.Observations.from_indices([[0], [1]], 2, column_names=["HP:1", "HP:2"])
    >>> data = noisyor_hpo.Annotations(
    ...     "", rows, ("D:1", "D:2"), ("flu", "cold"), np.array([0.9, 0.9]))
    >>> model = noisyor_hpo.build_model(data, ontology)
    >>> ranking = noisyor_hpo.rank_diseases(model, Patient("anna", present=("HP:1",)))
    >>> [(disease.name, round(disease.probability, 2)) for disease in ranking.diseases]
    [('flu', 0.9), ('cold', 0.1)]
    """
    check_count("top", top)
    present, absent = terms_of(model, patient)
    read = readings(model, present, absent)
    if weights is not None:
        read = read._replace(constant=read.constant + _log_weights(model, weights))
    belief = posterior(read, prior, model.settings.odds, model.settings.doubt)
    order = np.argsort(-belief.probability, kind="stable")[:top].tolist()
    near = [distances(model, term) for term in present]
    ranked = []
    for disease in order:
        explains = []
        for k, term in enumerate(present):
            share = _share(read, k, disease)
            edge = explaining_edge(model, disease, near[k])
            if edge is not None and share >= _FAINT:
                explains.append(_finding(model, term, share, edge))
        against = [
            _finding(model, term, float(read.denied[k, disease]), edge)
            for k, term in enumerate(absent)
            if read.denied[k, disease] >= _FAINT
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
        method=belief.words,
        probability=belief.probability,
        unexplained=tuple(
            ontology.names[term] for term in present if ontology.terms[term] not in explained
        ),
    )


def published_papers(data: Annotations, model: DiseaseModel) -> LongArray:
    """(n_diseases,) how many papers the annotations of each disease of a model rest on, and one.

    A rough measure of how common a disease is, as ``weights`` of `rank_diseases`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> from noisyor_hpo import Ontology
    >>> from noisyor._util.csr import Rows
    >>> ontology = Ontology("", ("HP:1",), ("fever",), ((),), Rows(*2 * [np.zeros(2, int)]), {}, {})
    >>> lines = [noisyor_hpo.Statement("D:1", "HP:1", 1.0, 1.0, 2, 2, ("PMID:1", "PMID:2"))]
    >>> rows = nor.Observations.from_indices([[0]], 1, column_names=["HP:1"])
    >>> data = noisyor_hpo.Annotations("", rows, ("D:1",), ("flu",), np.ones(1), tuple(lines))
    >>> model = noisyor_hpo.build_model(data, ontology)
    >>> noisyor_hpo.published_papers(data, model).tolist()
    [3]
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


def terms_of(model: DiseaseModel, patient: Patient) -> tuple[list[int], list[int]]:
    """Numbers of the present and of the absent terms of a patient, each once.

    Raises
    ------
    InvalidDataError : a term is not in the ontology, there is none, or there are too many.
    """
    n_terms = len(patient.present) + len(patient.absent)
    if n_terms > MOST_TERMS:
        raise InvalidDataError(
            f"{patient.id}: {n_terms:,} terms, at most {MOST_TERMS:,} are expected of one patient"
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


def _share(read: Readings, finding: int, disease: int) -> float:
    """How much of a present finding is due to a disease: the rest is noise alone."""
    noise, shown = read.noise[finding], read.shown[finding, disease]
    return float(shown / (noise + (1.0 - noise) * shown))


def _strongest_kind(model: DiseaseModel, disease: int, term: int) -> int | None:
    """The edge of a disease to a term or a kind of it with the largest frequency."""
    below = model.ontology.descendants
    kinds = below.indices[below.indptr[term] : below.indptr[term + 1]]
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
