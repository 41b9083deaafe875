"""How often a disease shows a finding, with the evidence: Beta distributions from annotations.

"3 of 7 patients" leaves a Beta posterior, "frequent" a range, and a line without a frequency the
prior. One patient is one draw, so a ranking needs the mean alone; the spread is for the reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.csr import pointers
from noisyor.errors import InvalidDataError
from noisyor_hpo.annotations import Annotations, Statement
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.settings import DiseaseSettings

__all__ = ["Frequencies", "frequencies_of", "without_papers"]

_SHARE_COUNTS = 10.0  # patients that a percentage without counts is worth
_UNSTATED_COUNTS = 2.0


class Frequencies(NamedTuple):
    """Terms of each disease, ``term[ptr[d]:ptr[d + 1]]``, ascending, with Beta frequencies."""

    ptr: LongArray
    term: LongArray
    alpha: FloatArray
    beta: FloatArray

    @property
    def mean(self) -> FloatArray:
        """(n_edges,) expected frequency."""
        return self.alpha / (self.alpha + self.beta)


def frequencies_of(
    statements: Iterable[Statement],
    diseases: Mapping[str, int],
    ontology: Ontology,
    settings: DiseaseSettings,
) -> Frequencies:
    """Pool the statements on each disease and term.

    Counts of several papers add up. Ranges that say zero leave no edge, and what the ontology does
    not have is left out.

    Parameters
    ----------
    statements : lines of the annotations; those on other diseases are passed over.
    diseases : number by identifier; all from 0 on.
    ontology : numbers the terms.
    settings : the prior of frequencies.
    """
    pooled: dict[tuple[int, int], list[float]] = {}  # alpha, beta, and whether the prior is in it
    prior = settings.prior_present, settings.prior_absent
    for statement in statements:
        disease = diseases.get(statement.disease)
        term = ontology.number.get(ontology.resolve(statement.finding) or "")
        if disease is None or term is None or (statement.high == 0 and not statement.examined):
            continue
        counts = pooled.setdefault((disease, term), [0.0, 0.0, 0.0])
        if statement.examined and not counts[2]:  # the prior counts once
            counts[:] = counts[0] + prior[0], counts[1] + prior[1], 1.0
        for k, value in enumerate(_counts(statement, settings)):
            counts[k] += value
    keys = sorted(pooled)
    of_disease = np.array([disease for disease, _ in keys], dtype=np.int64)
    counts_of = np.array([pooled[key] for key in keys], dtype=np.float64).reshape(-1, 3)
    return Frequencies(
        pointers(np.bincount(of_disease, minlength=len(diseases))),
        np.array([term for _, term in keys], dtype=np.int64),
        counts_of[:, 0],
        counts_of[:, 1],
    )


def _counts(statement: Statement, settings: DiseaseSettings) -> tuple[float, float]:
    """What one statement adds to the parameters of the Beta distribution."""
    if statement.examined:
        return statement.present, statement.examined - statement.present
    if math.isnan(statement.low):
        share = settings.unknown_frequency
        return _UNSTATED_COUNTS * share, _UNSTATED_COUNTS * (1.0 - share)
    share = min(statement.share, settings.highest_frequency)
    counts = _SHARE_COUNTS
    if statement.high > statement.low:  # as spread as if every frequency of the range were alike
        counts = share * (1.0 - share) * 12.0 / (statement.high - statement.low) ** 2 - 1.0
    return counts * share, counts * (1.0 - share)


def without_papers(
    statements: Iterable[Statement],
    papers: Iterable[str],
    present: Mapping[str, int],
    examined: Mapping[str, int],
) -> tuple[Statement, ...]:
    """What is left of a disease's annotations when some papers had never been read.

    Lines that rest on these papers alone go. Of lines that rest on others too, the patients of the
    papers are taken out of the counts; if no patient with the finding is left, they go as well.

    Parameters
    ----------
    statements : the lines on one disease.
    papers : identifiers such as ``"PMID:27672653"``.
    present, examined : by term, how many patients of the papers have the finding, and of how many
        it is known.
    """
    left_out = frozenset(papers)
    kept = []
    for statement in statements:
        references = frozenset(statement.references)
        if not references & left_out:
            kept.append(statement)
        elif references <= left_out:
            continue
        elif not statement.examined:
            kept.append(statement)
        else:
            n_present = statement.present - present.get(statement.finding, 0)
            n_examined = statement.examined - examined.get(statement.finding, 0)
            if n_present > 0:
                n_examined = max(n_examined, n_present)
                share = n_present / n_examined
                kept.append(
                    statement._replace(
                        low=share, high=share, present=n_present, examined=n_examined
                    )
                )
    return tuple(kept)


def statements_of(data: Annotations) -> tuple[Statement, ...]:
    """The statements of annotations; those that came without are made of the frequencies."""
    if data.statements:
        return data.statements
    rows = data.observations
    if rows.column_names is None:
        raise InvalidDataError("annotations name their findings: observations with column_names")
    disease = np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr))
    columns = rows.columns[rows.ptr[0] : rows.ptr[-1]]
    return tuple(
        Statement(data.disease_ids[d], rows.column_names[c], share, share)
        for d, c, share in zip(
            disease.tolist(), columns.tolist(), data.frequency.tolist(), strict=True
        )
    )
