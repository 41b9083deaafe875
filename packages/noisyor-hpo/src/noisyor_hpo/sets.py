"""Posterior of diseases under three priors: exactly one, at least one, each by itself.

For exactly one disease the posterior is a sum over all diseases. For several it is a sum over sets:
every disease alone, then every likely set enlarged by every disease. The error is what enlarging
half as many would have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.validation import check_choice
from noisyor_hpo.evidence import shows, shows_exactly
from noisyor_hpo.model import DiseaseModel

__all__ = ["Belief", "DiseasePrior", "Readings", "assembled", "posterior", "readings"]

DiseasePrior = Literal["one", "at_least_one", "independent"]
_PRIORS: tuple[DiseasePrior, ...] = ("one", "at_least_one", "independent")

_ENLARGED = 32
_LARGEST = 3


class Readings(NamedTuple):
    """What the diseases of a model say of one patient.

    ``shown`` (n_present, n_diseases) probability that each finding is recorded because of each
    disease; ``noise`` (n_present,) that it is recorded without; ``denied`` (n_absent, n_diseases)
    that each disease shows what is stated to be absent; ``weight`` of every finding;
    ``constant`` (n_diseases,) log-likelihood of a disease that no finding changes.
    """

    shown: FloatArray
    noise: FloatArray
    denied: FloatArray
    weight: float
    constant: FloatArray

    def log_likelihood(self, off: FloatArray, others: float) -> FloatArray:
        """(n_diseases,) of a set of diseases and one more, against no disease at all.

        ``off`` (n_present,) is the probability that no disease of the set shows a finding, and
        ``others`` the sum of the constants of the set.
        """
        silent = (1.0 - self.noise) * off
        present = 1.0 - silent[:, None] * (1.0 - self.shown)
        gain = np.log(present / self.noise[:, None]).sum(axis=0)
        return np.asarray(self.weight * gain + self.constant + others)


def readings(model: DiseaseModel, present: list[int], absent: list[int]) -> Readings:
    """Ask the model about present and absent terms, by number."""
    shown = [shows(model, term) for term in present]
    denied = [shows_exactly(model, term) for term in absent]
    return assembled(model, present, shown, denied)


def assembled(
    model: DiseaseModel,
    present: list[int],
    shown: Sequence[FloatArray],
    denied: Sequence[FloatArray],
) -> Readings:
    """The readings of a patient from those of single terms, see `shows` and `shows_exactly`."""
    settings = model.settings
    weight = settings.weight * max(len(present), 1) ** -settings.weight_power
    refused = np.array(denied).reshape(-1, model.n_diseases)
    # Those who deny one finding of a disease deny others of it too: absences repeat each other.
    each = weight * max(len(refused), 1) ** -settings.weight_power
    constant = each * np.log1p(-settings.absence * refused).sum(axis=0)
    return Readings(
        shown=np.array(shown).reshape(-1, model.n_diseases),
        noise=model.noise[present],
        denied=refused,
        weight=weight,
        constant=constant - settings.unlisted * model.expected,
    )


class Belief(NamedTuple):
    """Probability of each disease, (n_diseases,), with the error of each, and how it was found."""

    probability: FloatArray
    error: FloatArray
    words: str


def posterior(read: Readings, prior: DiseasePrior, odds: float, doubt: float = 0.0) -> Belief:
    """Probabilities of the diseases given a patient.

    Parameters
    ----------
    read : of `readings`.
    prior : ``"one"`` disease exactly, all alike; ``"at_least_one"``, where each further one has the
        prior odds ``odds``; ``"independent"``, where each has these odds and there may be none.
    doubt : this share of the probabilities is spread evenly.
    """
    check_choice("prior", prior, _PRIORS)
    n_present, n_diseases = read.shown.shape
    single = read.log_likelihood(np.ones(n_present), 0.0)
    if prior == "one":
        weight = np.exp(single - single.max())
        words = f"exact: exactly one disease, sum over {n_diseases:,}"
        found = (1.0 - doubt) * weight / weight.sum() + doubt / n_diseases
        return Belief(found, np.zeros(n_diseases), words)
    top = max(float(single.max()), 0.0)
    none = np.exp(-np.log(odds) - top) if prior == "independent" else 0.0
    total, rough = _sums(read, single, np.log(odds), top, none)
    probability, estimate = (
        (1.0 - doubt) * sums[:-1] / sums[-1] + doubt / n_diseases for sums in (total, rough)
    )
    words = (
        f"sets of up to {_LARGEST} diseases, {_ENLARGED} of each size enlarged by all "
        f"{n_diseases:,}"
    )
    return Belief(probability, np.abs(probability - estimate), words)


def _sums(
    read: Readings, single: FloatArray, log_odds: float, top: float, none: float
) -> tuple[FloatArray, FloatArray]:
    """Sums of weights of the sets with each disease, and of all sets last; and of half as many.

    Weights are relative to ``exp(top)`` and to the odds of one disease; ``none`` is that of no
    disease.
    """
    n_diseases = len(single)
    total = np.append(np.exp(single - top), 0.0)
    total[-1] = total.sum() + none
    rough = total.copy()
    beam: list[tuple[tuple[int, ...], float]]
    beam = [((int(d),), float(single[d])) for d in _largest(single, _ENLARGED)]
    for size in range(2, min(_LARGEST, n_diseases) + 1):
        found: dict[tuple[int, ...], float] = {}
        for rank, (members, _) in enumerate(beam):
            inside = list(members)
            off = np.prod(1.0 - read.shown[:, inside], axis=1)
            score = read.log_likelihood(off, float(read.constant[inside].sum()))
            # A set is counted where it is reached first.
            score[inside] = -np.inf
            for earlier, _ in beam[:rank]:
                rest = set(earlier).difference(members)
                if len(rest) == 1:
                    score[rest.pop()] = -np.inf
            score += (size - 1) * log_odds
            weight = np.exp(score - top)
            for sums in (total, rough) if rank < _ENLARGED // 2 else (total,):
                sums[:-1] += weight
                sums[inside] += weight.sum()
                sums[-1] += weight.sum()
            for d in _largest(score, _ENLARGED):
                if np.isfinite(score[d]):
                    found[tuple(sorted((*members, int(d))))] = float(score[d])
        beam = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_ENLARGED]
    return total, rough


def _largest(values: FloatArray, n_values: int) -> LongArray:
    """Places of the largest values, the largest first, ties by place."""
    if n_values >= len(values):
        return np.argsort(-values, kind="stable")
    cut = np.partition(values, len(values) - n_values)[len(values) - n_values]
    candidates = np.flatnonzero(values >= cut)
    return candidates[np.argsort(-values[candidates], kind="stable")][:n_values]
