"""Which finding to look for next: the one whose answer is expected to tell most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.numerics import entropy_bits
from noisyor._util.validation import check_count
from noisyor_hpo.evidence import shows_exactly
from noisyor_hpo.model import DiseaseModel
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.phenopackets import Patient
from noisyor_hpo.ranking import DiseaseRanking, terms_of
from noisyor_hpo.sets import DiseasePrior, posterior, readings

__all__ = ["NextFinding", "next_findings"]

_DISEASES = 200
_CANDIDATES = 400
_LEAST_FREQUENCY = 0.1


@dataclass(frozen=True)
class NextFinding:
    """A finding that is worth looking for.

    Attributes
    ----------
    term, name : of the finding.
    gain : information about the disease that the answer is expected to bring, in bits.
    probability : that the finding is present.
    if_present, if_absent : identifier of the most likely disease then.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> noisyor_hpo.NextFinding("HP:1", "Fever", 0.5, 0.3, "D:1", "D:2").gain
    0.5
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
    """Findings whose presence or absence would tell most about the disease, the best first.

    One of the most likely diseases is taken to be the right one. Only terms that these are
    annotated with are asked for, none that the patient's description decides already, and none that
    is a kind of another.

    Parameters
    ----------
    model, patient, prior : as in `rank_diseases`.
    top : number of findings.
    ranking : of the patient, if it is at hand; its prior counts then.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> from noisyor_hpo import Ontology, Patient
    >>> from noisyor._util.csr import Rows
    >>> ontology = Ontology("", ("HP:1", "HP:2"), ("fever", "cough"), ((), ()),
    ...                     Rows(np.array([0, 0, 0]), np.array([], dtype=int)), {}, {})
    >>> rows = nor.Observations.from_indices([[0], [0, 1]], 2, column_names=["HP:1", "HP:2"])
    >>> data = noisyor_hpo.Annotations(
    ...     "", rows, ("D:1", "D:2"), ("flu", "cold"), np.array([0.9, 0.9, 0.9]))
    >>> model = noisyor_hpo.build_model(data, ontology)
    >>> [finding.name for finding in noisyor_hpo.next_findings(model, Patient("anna", ("HP:1",)))]
    ['cough']
    """
    check_count("top", top)
    present, absent = terms_of(model, patient)
    if ranking is None:
        belief = posterior(
            readings(model, present, absent), prior, model.settings.odds, model.settings.doubt
        ).probability
    else:
        belief = ranking.probability
    likely = np.argsort(-belief, kind="stable")[:_DISEASES]
    weight = belief[likely]
    weight = weight / weight.sum()
    candidates = _candidates(model, likely, weight, present, absent)
    if not len(candidates):
        return ()
    noise = model.noise[candidates]
    shown = np.array([shows_exactly(model, term)[likely] for term in candidates.tolist()])
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
    """The first candidates in an order, without kinds of each other: one answer decides both."""
    related = np.zeros(ontology.n_terms, dtype=np.bool_)
    chosen: list[int] = []
    for k in order.tolist():
        term = candidates[k]
        if len(chosen) < top and not related[term]:
            chosen.append(k)
            for kin in (ontology.ancestors, ontology.descendants):
                related[kin.indices[kin.indptr[term] : kin.indptr[term + 1]]] = True
    return chosen


def _candidates(
    model: DiseaseModel,
    likely: LongArray,
    weight: FloatArray,
    present: list[int],
    absent: list[int],
) -> LongArray:
    """Terms of likely diseases by how often they are expected, without those already decided."""
    ontology = model.ontology
    expected = np.zeros(ontology.n_terms)
    for disease, share in zip(likely.tolist(), weight.tolist(), strict=True):
        edges = slice(model.ptr[disease], model.ptr[disease + 1])
        often = model.frequency[edges] >= _LEAST_FREQUENCY
        expected[model.term[edges][often]] += share * model.frequency[edges][often]
    above, below = ontology.ancestors, ontology.descendants
    for term in present:
        expected[above.indices[above.indptr[term] : above.indptr[term + 1]]] = 0.0
    for term in absent:
        expected[below.indices[below.indptr[term] : below.indptr[term + 1]]] = 0.0
    order = np.argsort(-expected, kind="stable")[:_CANDIDATES]
    return np.asarray(order[expected[order] > 0.0], dtype=np.int64)
