"""Annotations of the Human Phenotype Ontology: how often a disease shows a finding.

``phenotype.hpoa`` has one statement per line: "3 of 7 patients", a percentage, a range such as
"frequent", or no frequency at all. The statements on one disease and finding are pooled into a
Beta distribution of the frequency. A patient is one draw, so a ranking needs only the mean.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor import Observations
from noisyor.errors import InvalidDataError
from noisyor_hpo.files import existing, fetch, read_text
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.settings import DiseaseSettings

__all__ = [
    "Annotations",
    "Frequencies",
    "Statement",
    "frequencies_of",
    "read_annotations",
    "statements_of",
    "without_papers",
]

FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.int64]

# The range of frequencies that each term stands for.
_FREQUENCY_TERMS = {
    "HP:0040280": (1.0, 1.0),  # obligate
    "HP:0040281": (0.80, 0.99),
    "HP:0040282": (0.30, 0.79),
    "HP:0040283": (0.05, 0.29),
    "HP:0040284": (0.01, 0.04),
    "HP:0040285": (0.0, 0.0),  # excluded
}
_COLUMNS = (
    "database_id",
    "disease_name",
    "qualifier",
    "hpo_id",
    "reference",
    "frequency",
    "aspect",
)
_PERCENTAGE_COUNTS = 10.0  # patients that a percentage without counts is worth
_UNSTATED_COUNTS = 2.0


class Statement(NamedTuple):
    """One line of the annotations: how often a disease shows a finding, and by which papers.

    The frequency lies between ``low`` and ``high``; both are NaN where the line states none. Where
    patients were counted, ``present`` of ``examined`` had the finding; otherwise both are 0.
    """

    disease: str
    finding: str
    low: float
    high: float
    present: int = 0
    examined: int = 0
    references: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The middle of the range, NaN where none is stated."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, eq=False)
class Annotations:
    """The findings of each disease, and how often they occur.

    Attributes
    ----------
    version : date of the annotations.
    observations : (n_diseases, n_findings), 1 where a finding is annotated; column names are
        identifiers of findings, ascending.
    disease_ids : (n_diseases,) ascending.
    disease_names : (n_diseases,).
    frequency : (observations.n_active,) share of the patients with the finding, in the order of
        ``observations.columns``; NaN where none is stated. Ranges count as their middle, and
        several statements on one pair are averaged.
    statements : the lines of the file; empty if the annotations come from elsewhere.
    """

    version: str
    observations: Observations
    disease_ids: tuple[str, ...]
    disease_names: tuple[str, ...]
    frequency: FloatArray
    statements: tuple[Statement, ...] = ()


# ---- the file


def read_annotations(source: str | os.PathLike[str] | None = None) -> Annotations:
    """Read the findings (aspect P) of ``phenotype.hpoa`` that are not negated.

    Parameters
    ----------
    source : the file, compressed or not. By default release 2025-01-16, downloaded once.
    """
    path = fetch("hpo_phenotype.hpoa") if source is None else existing(source)
    version = ""
    names: dict[str, str] = {}
    statements: list[Statement] = []
    lines = list(enumerate(read_text(path).split("\n"), 1))
    n_comments = next((k for k, (_, line) in enumerate(lines) if not line.startswith("#")), 0)
    for _, line in lines[:n_comments]:
        if line.startswith("#version:"):
            version = line.partition(":")[2].strip()
    for number, row in _rows(lines[n_comments:], path):
        disease, name, qualifier, finding, reference, frequency, aspect = row
        if aspect != "P" or qualifier == "NOT":
            continue
        names[disease] = name
        stated = _frequency(frequency, f"{path}, line {number}")
        papers = tuple(reference.split(";")) if reference else ()
        statements.append(Statement(disease, finding, *stated, papers))
    if not statements:
        raise InvalidDataError(f"{path} holds no finding of a disease")
    shares: dict[tuple[str, str], list[float]] = {}
    for statement in statements:
        stated_shares = shares.setdefault((statement.disease, statement.finding), [])
        if not math.isnan(statement.low):
            stated_shares.append(statement.share)
    diseases, findings = sorted(names), sorted({finding for _, finding in shares})
    column_of = {finding: column for column, finding in enumerate(findings)}
    columns: dict[str, list[int]] = {disease: [] for disease in diseases}
    frequencies = np.full(len(shares), np.nan)
    for k, (disease, finding) in enumerate(sorted(shares)):
        columns[disease].append(column_of[finding])
        if each := shares[disease, finding]:
            frequencies[k] = sum(each) / len(each)
    return Annotations(
        version=version,
        observations=Observations.from_indices(
            columns.values(), len(findings), column_names=findings
        ),
        disease_ids=tuple(diseases),
        disease_names=tuple(names[disease] for disease in diseases),
        frequency=frequencies,
        statements=tuple(statements),
    )


def _rows(lines: list[tuple[int, str]], path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the line number and the fields of `_COLUMNS` of each row after the header."""
    filled = [(number, line.rstrip("\r").split("\t")) for number, line in lines if line.strip()]
    number, header = filled[0] if filled else (1, [])
    missing = [column for column in _COLUMNS if column not in header]
    if missing:
        raise InvalidDataError(f"{path}, line {number}: no column {missing[0]!r} in the header")
    pick = itemgetter(*map(header.index, _COLUMNS))
    for number, row in filled[1:]:
        if len(row) != len(header):
            raise InvalidDataError(
                f"{path}, line {number}: {len(row)} fields, expected {len(header)}"
            )
        yield number, pick(row)


def _frequency(text: str, where: str) -> tuple[float, float, int, int]:
    """Parse ``n/m``, ``x%``, a term or nothing into a range and counts."""
    if not text:
        return math.nan, math.nan, 0, 0
    if text in _FREQUENCY_TERMS:
        return *_FREQUENCY_TERMS[text], 0, 0
    try:
        if text.endswith("%"):
            share, present, examined = float(text[:-1]) / 100.0, 0, 0
        else:
            part, _, whole = text.partition("/")
            present, examined = int(part), int(whole)
            share = present / examined
        if 0.0 <= share <= 1.0 and examined >= 0:
            return share, share, present, examined
    except (ValueError, ZeroDivisionError):
        pass
    raise InvalidDataError(f"{where}: {text!r} is no frequency")


def statements_of(data: Annotations) -> tuple[Statement, ...]:
    """Return the statements, made from the frequencies if the annotations have none."""
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


# ---- frequencies


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

    @property
    def disease(self) -> LongArray:
        """(n_edges,) the disease of each edge."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))


def frequencies_of(
    statements: Iterable[Statement],
    diseases: Mapping[str, int],
    ontology: Ontology,
    settings: DiseaseSettings,
) -> Frequencies:
    """Pool the statements on each disease and term into Beta distributions.

    Counts of several papers add up. Statements of frequency zero without counts leave no edge.
    Terms that the ontology does not have are ignored.

    Parameters
    ----------
    statements : lines of the annotations; statements on other diseases are ignored.
    diseases : numbers 0, 1, … by identifier.
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
        for k, value in enumerate(_beta_counts(statement, settings)):
            counts[k] += value
    keys = sorted(pooled)
    of_disease = np.array([disease for disease, _ in keys], dtype=np.int64)
    counts_of = np.array([pooled[key] for key in keys], dtype=np.float64).reshape(-1, 3)
    sizes = np.bincount(of_disease, minlength=len(diseases))
    return Frequencies(
        np.concatenate([[0], np.cumsum(sizes)]),
        np.array([term for _, term in keys], dtype=np.int64),
        counts_of[:, 0],
        counts_of[:, 1],
    )


def _beta_counts(statement: Statement, settings: DiseaseSettings) -> tuple[float, float]:
    """Return what one statement adds to the parameters of the Beta distribution."""
    if statement.examined:
        return statement.present, statement.examined - statement.present
    if math.isnan(statement.low):
        share = settings.unknown_frequency
        return _UNSTATED_COUNTS * share, _UNSTATED_COUNTS * (1.0 - share)
    share = min(statement.share, settings.highest_frequency)
    counts = _PERCENTAGE_COUNTS
    if statement.high > statement.low:  # the variance of a uniform distribution on the range
        counts = share * (1.0 - share) * 12.0 / (statement.high - statement.low) ** 2 - 1.0
    return counts * share, counts * (1.0 - share)


def without_papers(
    statements: Iterable[Statement],
    papers: Iterable[str],
    present: Mapping[str, int],
    examined: Mapping[str, int],
) -> tuple[Statement, ...]:
    """Remove the evidence of some papers from the statements on one disease.

    Statements that rest on these papers alone are dropped. If a statement rests on other papers
    too, the patients of the papers are subtracted from its counts, and it is dropped if no patient
    with the finding is left.

    Parameters
    ----------
    statements : statements on one disease.
    papers : identifiers such as ``"PMID:27672653"``.
    present, examined : by term, the number of patients of the papers who have the finding, and of
        those for whom it is known.
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
