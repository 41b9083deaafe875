"""Findings of rare diseases: the annotations of the Human Phenotype Ontology.

They describe a network of the kind used for diagnosis: a disease fails to show a finding with
probability one minus its frequency. There are no probabilities of the diseases in the file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.compression import existing, open_binary
from noisyor.data.observations import Observations
from noisyor.datasets.download import fetch
from noisyor.errors import InvalidDataError
from noisyor.tables.lines import equally_wide, fields, text_lines

__all__ = ["Annotations", "Statement", "read_annotations"]

# The range that each term of frequency stands for.
_TERMS = {
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


class Statement(NamedTuple):
    """One line of the annotations: how often a disease shows a finding, and by which papers.

    The frequency lies between ``low`` and ``high``; both are NaN where the line states none. Where
    it was counted, ``present`` of ``examined`` patients had the finding; else both are 0.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> noisyor_hpo.Statement("X:1", "HP:0001945", 3 / 7, 3 / 7, 3, 7, ("PMID:1",)).examined
    7
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
    """Which findings belong to which disease, and how often.

    Attributes
    ----------
    version : of the annotations, a date.
    observations : (n_diseases, n_findings), 1 where a finding is annotated; the names of the
        columns are identifiers of findings, in ascending order.
    disease_ids : (n_diseases,) in ascending order.
    disease_names : (n_diseases,).
    frequency : (observations.n_active,) share of the patients with the finding, in the order of
        ``observations.columns``; NaN where it is not stated. Ranges are taken at their middle;
        several statements on one pair are averaged.
    statements : the lines of the file, in its order; empty if the annotations come from elsewhere.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> rows = nor.Observations.of(np.array([[1, 1]]), column_names=["HP:0001945", "HP:0012735"])
    >>> data = noisyor_hpo.Annotations(
    ...     "2025-01-16", rows, ("X:1",), ("flu",), np.array([0.9, np.nan]))
    >>> data.observations.column_names[0], float(data.frequency[0])
    ('HP:0001945', 0.9)
    """

    version: str
    observations: Observations
    disease_ids: tuple[str, ...]
    disease_names: tuple[str, ...]
    frequency: npt.NDArray[np.float64]
    statements: tuple[Statement, ...] = ()


def read_annotations(source: str | os.PathLike[str] | None = None) -> Annotations:
    """Read ``phenotype.hpoa``: the findings (aspect P) that are not negated.

    Parameters
    ----------
    source : a copy of the file, compressed or not; without it the release of 2025-01-16 is looked
        for, or downloaded.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> data = noisyor_hpo.read_annotations()
    >>> data.observations.n_rows, data.observations.n_visible
    (12680, 11272)
    """
    path = fetch("hpo_phenotype.hpoa") if source is None else existing(source)
    with open_binary(path) as stream:
        lines = list(text_lines(stream, path))
    version = ""
    names: dict[str, str] = {}
    statements: list[Statement] = []
    comments = list(takewhile(lambda line: line[1].startswith("#"), lines))
    for _, line in comments:
        if line.startswith("#version:"):
            version = line.partition(":")[2].strip()
    for number, row in _annotations(lines[len(comments) :], path, len(comments) + 1):
        disease, name, qualifier, finding, reference, frequency, aspect = row
        if aspect != "P" or qualifier == "NOT":
            continue
        names[disease] = name
        stated = _stated(frequency, f"{path}, line {number}")
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
    observations = Observations.from_indices(columns.values(), len(findings), column_names=findings)
    disease_names = tuple(names[disease] for disease in diseases)
    return Annotations(
        version, observations, tuple(diseases), disease_names, frequencies, tuple(statements)
    )


def _annotations(
    lines: list[tuple[int, str]], path: Path, first: int
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and the fields of `_COLUMNS` of each row; the header is in line ``first``."""
    rows = equally_wide(fields(lines, path, "\t"), path)
    number, header = next(rows, (first, []))
    missing = [column for column in _COLUMNS if column not in header]
    if missing:
        raise InvalidDataError(f"{path}, line {number}: no column {missing[0]!r} in the header")
    pick = itemgetter(*map(header.index, _COLUMNS))
    for number, row in rows:
        yield number, pick(row)


def _stated(text: str, where: str) -> tuple[float, float, int, int]:
    """Range and counts of a frequency written as ``n/m``, ``x%``, a term or not at all."""
    if not text:
        return math.nan, math.nan, 0, 0
    if text in _TERMS:
        return *_TERMS[text], 0, 0
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
