"""Diseases and findings with the ontology between them: a noisy-OR network in sparse arrays.

A disease switches terms on, each with its frequency. Where a disease has no annotation of its own,
it borrows from related diseases: most rare diseases belong to a series ("Bardet-Biedl syndrome 4")
or are listed in several databases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo.annotations import (
    Annotations,
    Frequencies,
    Statement,
    frequencies_of,
    statements_of,
)
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.settings import DiseaseSettings

__all__ = ["DiseaseModel", "build_model", "kin_frequencies", "series_name", "series_of"]

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.int64]

_PSEUDOCOUNT = 0.5  # added to the number of diseases of every term, so that no share is zero

_MIN_KIN_FREQUENCY = 0.1  # smaller frequencies among related diseases are treated as noise
_LONG_NAME = 25  # characters; additions are cut from longer names
_BRACKETS = re.compile(r"\(.*?\)")
_AFTER = re.compile(r",? (?:with or without|with|due to|without) ")
_KINDS = re.compile(
    r"\b(?:autosomal|dominant|recessive|x linked|linked|digenic|susceptibility to|type|form"
    r"|complementation group|somatic|isolated)\b"
)
_MARKS = re.compile(r"[,;:.]")
_NUMBER = re.compile(r"[ivx]+[a-e]?|\d+[a-z]{0,2}|[a-h]\d?")
_SMALL = frozenset(("and", "of", "the", "or", "in"))


@dataclass(frozen=True, eq=False)
class DiseaseModel:
    """Diseases, the terms that each shows, and the ontology of the terms.

    Attributes
    ----------
    version : version of the annotations.
    ontology : numbers the terms.
    disease_ids, disease_names : (n_diseases,).
    ptr, term, frequency : terms of disease d are ``term[ptr[d]:ptr[d + 1]]``, ascending, shown with
        probability ``frequency``.
    own : (n_edges,) whether the disease itself is annotated with the term, or only related ones.
    share : (n_terms,) share of the diseases that are annotated with the term or a kind of it.
    settings : see `DiseaseSettings`.
    """

    version: str
    ontology: Ontology
    disease_ids: tuple[str, ...]
    disease_names: tuple[str, ...]
    ptr: LongArray
    term: LongArray
    frequency: FloatArray
    own: BoolArray
    share: FloatArray
    settings: DiseaseSettings

    @property
    def n_diseases(self) -> int:
        """Number of diseases."""
        return len(self.disease_ids)

    @cached_property
    def disease(self) -> LongArray:
        """(n_edges,) the disease of each edge."""
        return np.repeat(np.arange(self.n_diseases), np.diff(self.ptr))

    @cached_property
    def log_fails(self) -> FloatArray:
        """(n_edges,) log probability that a disease does not show the term."""
        return np.log1p(-self.frequency)

    @cached_property
    def expected(self) -> FloatArray:
        """(n_diseases,) number of findings that each disease is expected to show."""
        found = np.bincount(self.disease, weights=self.frequency, minlength=self.n_diseases)
        return found.astype(np.float64, copy=False)

    @cached_property
    def by_term(self) -> tuple[LongArray, LongArray]:
        """Edges in the order of their terms, and (n_terms + 1,) where the edges of each begin."""
        order = np.argsort(self.term, kind="stable")
        return order, _pointers(np.bincount(self.term, minlength=self.ontology.n_terms))

    @cached_property
    def noise(self) -> FloatArray:
        """(n_terms,) probability that a term is recorded without any of the diseases."""
        return np.minimum(self.settings.noise * self.share + self.settings.least_noise, 0.5)

    def number_of(self, disease: str) -> int:
        """Return the number of a disease given by its identifier."""
        try:
            return self._numbers[disease]
        except KeyError:
            raise InvalidDataError(f"no disease {disease!r} in the model") from None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {identifier: k for k, identifier in enumerate(self.disease_ids)}


def build_model(
    data: Annotations,
    ontology: Ontology,
    *,
    databases: Iterable[str] | None = None,
    settings: DiseaseSettings | None = None,
    statements: Iterable[Statement] | None = None,
) -> DiseaseModel:
    """Build a model; diseases without any term of the ontology are left out.

    Parameters
    ----------
    data : annotations.
    ontology : ontology of the same release.
    databases : rank only diseases of these databases, such as ``["OMIM"]``. The others still serve
        as related diseases.
    settings : see `DiseaseSettings`.
    statements : statements to use in place of those of ``data``.
    """
    settings = settings or DiseaseSettings()
    lines = statements_of(data) if statements is None else tuple(statements)
    found = frequencies_of(
        lines, {name: k for k, name in enumerate(data.disease_ids)}, ontology, settings
    )
    annotated = np.diff(found.ptr) > 0
    ranked = annotated & _of_databases(data.disease_ids, databases)
    if not ranked.any():
        raise InvalidDataError("no disease has a term of the ontology; are they of one release?")
    n_terms = ontology.n_terms
    disease = found.disease
    frequency = np.minimum(found.mean, settings.highest_frequency)
    kin = kin_frequencies(found, series_of(data.disease_names), n_terms)
    all_disease = np.concatenate([disease, kin[0]])
    all_term = np.concatenate([found.term, kin[1]])
    all_frequency = np.concatenate([frequency, settings.kin * kin[2]])
    own = np.arange(len(all_term)) < len(found.term)
    kept = np.flatnonzero((all_frequency > 0) & ranked[all_disease])
    kept = kept[np.lexsort((all_term[kept], all_disease[kept]))]
    number = np.cumsum(ranked) - 1
    of_ranked = ranked[disease]
    count = ontology.count_with_kinds(number[disease[of_ranked]], found.term[of_ranked])
    chosen = np.flatnonzero(ranked).tolist()
    return DiseaseModel(
        version=data.version,
        ontology=ontology,
        disease_ids=tuple(data.disease_ids[d] for d in chosen),
        disease_names=tuple(data.disease_names[d] for d in chosen),
        ptr=_pointers(np.bincount(number[all_disease[kept]], minlength=len(chosen))),
        term=all_term[kept],
        frequency=all_frequency[kept],
        own=own[kept],
        share=np.minimum((count + _PSEUDOCOUNT) / len(chosen), 1.0),
        settings=settings,
    )


def _of_databases(disease_ids: tuple[str, ...], databases: Iterable[str] | None) -> BoolArray:
    of = np.array([identifier.partition(":")[0] for identifier in disease_ids], dtype=np.str_)
    if databases is None:
        return np.ones(len(of), dtype=np.bool_)
    wanted = [databases] if isinstance(databases, str) else list(databases)
    for database in wanted:
        if database not in of:
            known = ", ".join(sorted(set(of.tolist())))
            raise InvalidSettingError(f"databases must be some of {known}, got {database!r}")
    return np.isin(of, wanted)


def _pointers(lengths: npt.ArrayLike) -> LongArray:
    """Return where each row begins, and the last one ends, when rows of some lengths are joined."""
    return np.cumsum(np.concatenate([[0], np.asarray(lengths)]), dtype=np.int64)


# ---- related diseases


def series_name(name: str) -> str:
    """Return what the names of a series share: words without numbers, inheritance, additions.

    >>> series_name("Retinitis pigmentosa 18") == series_name("Retinitis pigmentosa, type IV")
    True
    """
    text = _BRACKETS.sub("", name.lower().replace("-", " ").replace("/", " "))
    if len(text) > _LONG_NAME:
        text = _AFTER.split(text)[0]
    text = _MARKS.sub(" ", _KINDS.sub(" ", text))
    words = {
        word.rstrip("s")
        for word in text.split()
        if word not in _SMALL and not _NUMBER.fullmatch(word)
    }
    return " ".join(sorted(words))


def series_of(names: Sequence[str]) -> LongArray:
    """Number the series (n_diseases,); a name of numbers alone is its own series."""
    keys = [series_name(name) or f" {k}" for k, name in enumerate(names)]
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def kin_frequencies(
    found: Frequencies, series: LongArray, n_terms: int
) -> tuple[LongArray, LongArray, FloatArray]:
    """Return disease, term and mean frequency among the other diseases of the series.

    Only pairs without an annotation of their own are returned.
    """
    n_diseases = len(series)
    disease = found.disease
    own = sp.csr_array((found.mean, (disease, found.term)), shape=(n_diseases, n_terms))
    member = sp.csr_array(
        (np.ones(n_diseases), (series, np.arange(n_diseases))),
        shape=(int(series.max(initial=-1)) + 1, n_diseases),
    )
    total = (member @ own).tocsr()
    others = np.bincount(series)[series] - 1
    related = np.flatnonzero(others)
    borrowed = (total[series[related]]).tocoo()
    of = related[borrowed.row]
    known = np.isin(of * n_terms + borrowed.col, disease * n_terms + found.term, assume_unique=True)
    share = borrowed.data / others[of]
    kept = ~known & (share > _MIN_KIN_FREQUENCY)
    return of[kept], borrowed.col[kept].astype(np.int64), share[kept]
