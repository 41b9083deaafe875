"""Posterior of the diseases given a patient, with the ontology summed out exactly.

**Evidence.** A disease switches terms on, each with its frequency, and an active term switches on
all its ancestors without fail. Seen from a finding t, the terms of a disease lie at distances: t
itself; a kind of t; and for each more general term a, in order of how few diseases have it, a
itself or another kind of a. "Something at this distance or closer is active" is an OR of terms, and
the finding is a noisy-OR of these nodes and of noise. A closer term is never less likely to be
recorded as t, so only the closest active term counts, and the sum over all states is one pass over
the distances.

**Priors.** For exactly one disease the posterior is a sum over all diseases. For several it is a
sum over sets: every disease alone, then every likely set enlarged by every disease. The error is
what enlarging half as many sets would have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.errors import InvalidSettingError
from noisyor_hpo.model import DiseaseModel

__all__ = [
    "Belief",
    "DiseasePrior",
    "Distances",
    "Likelihoods",
    "combine_likelihoods",
    "distances",
    "explaining_edge",
    "likelihoods",
    "posterior",
    "probability_of_record",
    "probability_of_term",
]

FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.int64]

DiseasePrior = Literal["one", "at_least_one", "independent"]
_PRIORS: tuple[DiseasePrior, ...] = ("one", "at_least_one", "independent")

_TOO_GENERAL = 0.9  # a term that a larger share of the diseases have tells nothing about them
_N_ENLARGED = 32  # sets of each size that are enlarged by every disease
_MAX_SET_SIZE = 3


# ---- one finding


class Distances(NamedTuple):
    """How far terms lie from a finding.

    ``level`` (n_terms,) numbers the distances, 0 the closest, -1 out of reach; ``works``
    (n_levels,) is the probability that the finding is recorded when the closest active term lies
    at this distance. It never increases.
    """

    level: LongArray
    works: FloatArray


def distances(model: DiseaseModel, finding: int) -> Distances:
    """Compute how far each term lies from a finding, given by its number."""
    settings, ontology = model.settings, model.ontology
    general = ontology.ancestors(finding)
    general = general[(general != finding) & (model.share[general] < _TOO_GENERAL)]
    general = general[np.argsort(-model.share[general], kind="stable")]
    share = model.share[finding] / model.share[general]
    # Classes of terms, the closest last: kinds of each general term (even numbers) and the term
    # itself (odd numbers), then kinds of the finding, and the finding.
    n_general = 2 * len(general)
    marks = np.full(ontology.n_terms, -1)
    marks[general] = np.arange(0, n_general, 2)
    marks[finding] = n_general
    closest = ontology.largest_above(marks)
    closest[general] = np.arange(1, n_general, 2)
    closest[finding] = n_general + 1
    works = np.empty(n_general + 2)
    works[0:n_general:2] = settings.near * share
    works[1:n_general:2] = settings.specific * share
    works[n_general], works[n_general + 1] = settings.general, 1.0
    order = np.argsort(-works, kind="stable")
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1  # for terms out of reach, whose class is -1
    return Distances(rank[closest], works[order])


def probability_of_record(model: DiseaseModel, finding: int) -> FloatArray:
    """Return the (n_diseases,) probability that a disease alone leads to a recorded finding."""
    level, works = distances(model, finding)
    of_edge = level[model.term]
    reached = np.flatnonzero(of_edge >= 0)
    cells = model.disease[reached] * len(works) + of_edge[reached]
    log_off = np.bincount(
        cells, weights=model.log_fails[reached], minlength=model.n_diseases * len(works)
    ).reshape(model.n_diseases, len(works))
    off = np.exp(np.cumsum(log_off, axis=1, out=log_off))  # nothing active this close or closer
    return np.asarray(works[0] - off @ (works - np.append(works[1:], 0.0)))


def probability_of_term(model: DiseaseModel, finding: int) -> FloatArray:
    """Return the (n_diseases,) probability that a disease switches on a term or a kind of it."""
    order, ptr = model.by_term
    kinds = model.ontology.descendants(finding)
    edges = np.concatenate([order[ptr[kind] : ptr[kind + 1]] for kind in kinds])
    log_off = np.bincount(
        model.disease[edges], weights=model.log_fails[edges], minlength=model.n_diseases
    )
    return -np.expm1(log_off)


def explaining_edge(model: DiseaseModel, disease: int, near: Distances) -> int | None:
    """Return the edge of a disease that explains a finding best, or None."""
    edges = np.arange(model.ptr[disease], model.ptr[disease + 1])
    level = near.level[model.term[edges]]
    if not (level >= 0).any():
        return None
    strength = np.where(level >= 0, near.works[level] * model.frequency[edges], -1.0)
    return int(edges[np.argmax(strength)])


# ---- one patient


class Likelihoods(NamedTuple):
    """Likelihoods of the findings of one patient under each disease.

    ``shown`` (n_present, n_diseases) is the probability that each present finding is recorded
    because of each disease; ``noise`` (n_present,) that it is recorded without any; ``denied``
    (n_absent, n_diseases) that each disease shows a finding that is stated to be absent; ``weight``
    the exponent of every finding; ``constant`` (n_diseases,) the part of the log-likelihood of a
    disease that does not depend on present findings.
    """

    shown: FloatArray
    noise: FloatArray
    denied: FloatArray
    weight: float
    constant: FloatArray

    def log_likelihood(self, off: FloatArray, others: float) -> FloatArray:
        """Return the (n_diseases,) log-likelihood ratio of a set with one more disease to none.

        ``off`` (n_present,) is the probability that no disease of the set shows a finding, and
        ``others`` the sum of the constants of the set.
        """
        silent = (1.0 - self.noise) * off
        present = 1.0 - silent[:, None] * (1.0 - self.shown)
        gain = np.log(present / self.noise[:, None]).sum(axis=0)
        return np.asarray(self.weight * gain + self.constant + others)


def likelihoods(model: DiseaseModel, present: list[int], absent: list[int]) -> Likelihoods:
    """Compute the likelihoods of present and absent terms, given by number."""
    shown = [probability_of_record(model, term) for term in present]
    denied = [probability_of_term(model, term) for term in absent]
    return combine_likelihoods(model, present, shown, denied)


def combine_likelihoods(
    model: DiseaseModel,
    present: list[int],
    shown: Sequence[FloatArray],
    denied: Sequence[FloatArray],
) -> Likelihoods:
    """Combine single findings, see `probability_of_record` and `probability_of_term`."""
    settings = model.settings
    weight = settings.weight * max(len(present), 1) ** -settings.weight_power
    absent = np.array(denied).reshape(-1, model.n_diseases)
    # Absent findings are correlated: who denies one finding of a disease denies others too.
    each = weight * max(len(absent), 1) ** -settings.weight_power
    constant = each * np.log1p(-settings.absence * absent).sum(axis=0)
    return Likelihoods(
        shown=np.array(shown).reshape(-1, model.n_diseases),
        noise=model.noise[present],
        denied=absent,
        weight=weight,
        constant=constant - settings.unlisted * model.expected,
    )


class Belief(NamedTuple):
    """Probability of each disease (n_diseases,), its error, and how both were computed."""

    probability: FloatArray
    error: FloatArray
    method: str


def posterior(
    likelihoods: Likelihoods, prior: DiseasePrior, odds: float, doubt: float = 0.0
) -> Belief:
    """Compute the probabilities of the diseases given a patient.

    Parameters
    ----------
    likelihoods : of the patient's findings.
    prior : exactly ``"one"`` disease, all equally likely; ``"at_least_one"``, where each further
        one has the prior odds ``odds``; ``"independent"``, where each has these odds and there may
        be none.
    odds : prior odds of a disease.
    doubt : share of the probability that is spread evenly over all diseases.
    """
    if prior not in _PRIORS:
        raise InvalidSettingError(f"prior must be one of {_PRIORS}, got {prior!r}")
    n_present, n_diseases = likelihoods.shown.shape
    single = likelihoods.log_likelihood(np.ones(n_present), 0.0)
    if prior == "one":
        weight = np.exp(single - single.max())
        method = f"exact: exactly one disease, sum over {n_diseases:,}"
        found = (1.0 - doubt) * weight / weight.sum() + doubt / n_diseases
        return Belief(found, np.zeros(n_diseases), method)
    top = max(float(single.max()), 0.0)
    none = np.exp(-np.log(odds) - top) if prior == "independent" else 0.0
    total, rough = _sums_over_sets(likelihoods, single, np.log(odds), top, none)
    probability, estimate = (
        (1.0 - doubt) * sums[:-1] / sums[-1] + doubt / n_diseases for sums in (total, rough)
    )
    method = (
        f"sets of up to {_MAX_SET_SIZE} diseases, {_N_ENLARGED} of each size enlarged by all "
        f"{n_diseases:,}"
    )
    return Belief(probability, np.abs(probability - estimate), method)


def _sums_over_sets(
    likelihoods: Likelihoods, single: FloatArray, log_odds: float, top: float, none: float
) -> tuple[FloatArray, FloatArray]:
    """Sum the weights of the sets with each disease, and of all sets as the last entry.

    Weights are relative to ``exp(top)`` and to the odds of one disease; ``none`` is the weight of
    no disease. The second result enlarges half as many sets.
    """
    n_diseases = len(single)
    total = np.append(np.exp(single - top), 0.0)
    total[-1] = total.sum() + none
    rough = total.copy()
    beam: list[tuple[tuple[int, ...], float]]
    beam = [((int(d),), float(single[d])) for d in _largest(single, _N_ENLARGED)]
    for size in range(2, min(_MAX_SET_SIZE, n_diseases) + 1):
        found: dict[tuple[int, ...], float] = {}
        for rank, (members, _) in enumerate(beam):
            inside = list(members)
            off = np.prod(1.0 - likelihoods.shown[:, inside], axis=1)
            score = likelihoods.log_likelihood(off, float(likelihoods.constant[inside].sum()))
            # A set that is reached in several ways counts once.
            score[inside] = -np.inf
            for earlier, _ in beam[:rank]:
                rest = set(earlier).difference(members)
                if len(rest) == 1:
                    score[rest.pop()] = -np.inf
            score += (size - 1) * log_odds
            weight = np.exp(score - top)
            for sums in (total, rough) if rank < _N_ENLARGED // 2 else (total,):
                sums[:-1] += weight
                sums[inside] += weight.sum()
                sums[-1] += weight.sum()
            for d in _largest(score, _N_ENLARGED):
                if np.isfinite(score[d]):
                    found[tuple(sorted((*members, int(d))))] = float(score[d])
        beam = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_N_ENLARGED]
    return total, rough


def _largest(values: FloatArray, n_values: int) -> LongArray:
    """Return the indices of the largest values, the largest first, ties by index."""
    if n_values >= len(values):
        return np.argsort(-values, kind="stable")
    cut = np.partition(values, len(values) - n_values)[len(values) - n_values]
    candidates = np.flatnonzero(values >= cut)
    return candidates[np.argsort(-values[candidates], kind="stable")][:n_values]
