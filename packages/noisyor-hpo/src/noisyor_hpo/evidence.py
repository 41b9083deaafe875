"""What each disease says of one finding: the layers of the ontology summed out, exactly.

A disease turns terms on, each with its frequency. A term that is on turns all it is a kind of on,
and that cannot fail. Seen from a finding t, the terms of a disease lie at distances: t itself; a
kind of t; and for each more general term a, in order of how few diseases have it, a itself or
another kind of a. "Something at this distance or closer is on" is an OR of terms, and the finding
is a noisy-OR of these nodes and of noise. What is closer is never less likely to be recorded, so
only the closest that is on counts, and the sum over all states is one pass over the distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor_hpo.model import DiseaseModel

__all__ = ["Distances", "distances", "explaining_edge", "shows", "shows_exactly"]

_TOO_GENERAL = 0.9
"""A term that more than this share of the diseases have says nothing about any of them."""


class Distances(NamedTuple):
    """How far terms lie from a finding.

    ``level`` (n_terms,) numbers the distances from the closest on, -1 is out of reach; ``works``
    (n_levels,) is the probability that the finding is recorded when the closest term that is on
    lies at this distance. It never rises.
    """

    level: LongArray
    works: FloatArray


def distances(model: DiseaseModel, finding: int) -> Distances:
    """How far each term lies from a finding, by number of the term."""
    settings, ontology = model.settings, model.ontology
    above, below = ontology.ancestors, ontology.descendants
    general = above.indices[above.indptr[finding] : above.indptr[finding + 1]]
    general = general[(general != finding) & (model.share[general] < _TOO_GENERAL)]
    general = general[np.argsort(-model.share[general], kind="stable")]
    share = model.share[finding] / model.share[general]
    place = np.full(ontology.n_terms, -1, dtype=np.int64)
    for k, term in enumerate(general.tolist()):  # from the most general, so the closest stays
        place[below.indices[below.indptr[term] : below.indptr[term + 1]]] = 2 * k
    place[general] = 2 * np.arange(len(general)) + 1
    kinds = 2 * len(general)
    place[below.indices[below.indptr[finding] : below.indptr[finding + 1]]] = kinds
    place[finding] = kinds + 1
    works = np.empty(kinds + 2)
    works[0:kinds:2] = settings.near * share
    works[1:kinds:2] = settings.specific * share
    works[kinds], works[kinds + 1] = settings.general, 1.0
    order = np.argsort(-works, kind="stable")
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1  # the place of what is out of reach
    return Distances(rank[place], works[order])


def shows(model: DiseaseModel, finding: int) -> FloatArray:
    """(n_diseases,) probability that a disease, by itself, brings a finding on record."""
    level, works = distances(model, finding)
    of_edge = level[model.term]
    reached = np.flatnonzero(of_edge >= 0)
    cells = model.disease[reached] * len(works) + of_edge[reached]
    log_off = np.bincount(
        cells, weights=model.log_fails[reached], minlength=model.n_diseases * len(works)
    ).reshape(model.n_diseases, len(works))
    off = np.exp(np.cumsum(log_off, axis=1, out=log_off))  # nothing on at this level or closer
    return np.asarray(works[0] - off @ (works - np.append(works[1:], 0.0)))


def shows_exactly(model: DiseaseModel, finding: int) -> FloatArray:
    """(n_diseases,) probability that a disease turns a term on, by itself or a kind of it."""
    order, ptr = model.by_term
    below = model.ontology.descendants
    kinds = below.indices[below.indptr[finding] : below.indptr[finding + 1]]
    edges = np.concatenate([order[ptr[kind] : ptr[kind + 1]] for kind in kinds])
    log_off = np.bincount(
        model.disease[edges], weights=model.log_fails[edges], minlength=model.n_diseases
    )
    return -np.expm1(log_off)


def explaining_edge(model: DiseaseModel, disease: int, near: Distances) -> int | None:
    """The edge of a disease that explains a finding best, None if none can."""
    edges = np.arange(model.ptr[disease], model.ptr[disease + 1])
    level = near.level[model.term[edges]]
    if not (level >= 0).any():
        return None
    strength = np.where(level >= 0, near.works[level] * model.frequency[edges], -1.0)
    return int(edges[np.argmax(strength)])
