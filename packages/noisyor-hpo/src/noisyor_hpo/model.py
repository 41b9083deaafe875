"""Diseases and findings with the ontology between them: a noisy-OR network in sparse arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor._util.csr import pointers
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo.annotations import Annotations, Statement
from noisyor_hpo.frequencies import frequencies_of, statements_of
from noisyor_hpo.kin import kin_frequencies, series_of
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.settings import DiseaseSettings

__all__ = ["DiseaseModel", "build_model"]

_ADDED = 0.5
"""Diseases that are added to every term, so that none is without."""


@dataclass(frozen=True, eq=False)
class DiseaseModel:
    """Diseases, the terms that each shows, and the ontology that relates terms to each other.

    Attributes
    ----------
    version : of the annotations.
    ontology : the terms, numbered.
    disease_ids, disease_names : (n_diseases,).
    ptr, term, frequency : terms of disease d are ``term[ptr[d]:ptr[d + 1]]``, ascending, shown with
        probability ``frequency``.
    own : (n_edges,) whether the disease itself is annotated with the term, or only its kin.
    share : (n_terms,) of the diseases that are annotated with the term or a kind of it.
    settings : see `DiseaseSettings`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> from noisyor_hpo import Ontology
    >>> from noisyor._util.csr import Rows
    >>> ontology = Ontology("", ("HP:1", "HP:2"), ("fever", "high fever"), ((), ()),
    ...                     Rows(np.array([0, 0, 1]), np.array([0])), {}, {})
    >>> rows = nor.Observations.from_indices([[0], [0]], 1, column_names=["HP:2"])
    >>> data = noisyor_hpo.Annotations(
    ...     "", rows, ("D:1", "D:2"), ("flu", "cold"), np.array([0.9, 0.1]))
    >>> model = noisyor_hpo.build_model(data, ontology)
    >>> model.n_diseases, model.share.tolist()
    (2, [1.0, 1.0])
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
        """Edges in the order of their terms, and where those of each term begin."""
        order = np.argsort(self.term, kind="stable")
        return order, pointers(np.bincount(self.term, minlength=self.ontology.n_terms))

    @cached_property
    def noise(self) -> FloatArray:
        """(n_terms,) probability that a term is recorded without any of the diseases."""
        return np.minimum(self.settings.noise * self.share + self.settings.least_noise, 0.5)

    def number_of(self, disease: str) -> int:
        """The number of a disease by its identifier."""
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
    """The model of annotations; diseases without any term of the ontology are left out.

    Parameters
    ----------
    data : the annotations.
    ontology : of the same release.
    databases : only diseases of these are ranked, such as ``["OMIM"]``; as kin the others count all
        the same.
    settings : see `DiseaseSettings`.
    statements : take these instead of those of ``data``.
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
    n_diseases, n_terms = len(data.disease_ids), ontology.n_terms
    disease = np.repeat(np.arange(n_diseases), np.diff(found.ptr))
    frequency = np.minimum(found.mean, settings.highest_frequency)
    kin = kin_frequencies(found, series_of(data.disease_names), n_terms)
    all_disease = np.concatenate([disease, kin[0]])
    all_term = np.concatenate([found.term, kin[1]])
    all_frequency = np.concatenate([frequency, settings.kin * kin[2]])
    own = np.arange(len(all_term)) < len(found.term)
    kept = np.flatnonzero((all_frequency > 0) & ranked[all_disease])
    kept = kept[np.lexsort((all_term[kept], all_disease[kept]))]
    number = np.cumsum(ranked) - 1
    shown = sp.csr_array(
        (np.ones(len(disease)), (disease, found.term)), shape=(n_diseases, n_terms)
    )[ranked]
    implied = (shown @ ontology.ancestors.astype(np.float64)).tocsr()
    count = np.bincount(implied.indices, minlength=n_terms)
    chosen = np.flatnonzero(ranked).tolist()
    return DiseaseModel(
        version=data.version,
        ontology=ontology,
        disease_ids=tuple(data.disease_ids[d] for d in chosen),
        disease_names=tuple(data.disease_names[d] for d in chosen),
        ptr=pointers(np.bincount(number[all_disease[kept]], minlength=len(chosen))),
        term=all_term[kept],
        frequency=all_frequency[kept],
        own=own[kept],
        share=np.minimum((count + _ADDED) / len(chosen), 1.0),
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
