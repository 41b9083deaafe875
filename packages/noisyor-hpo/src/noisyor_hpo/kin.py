"""Diseases of one series: what a disease with few annotations borrows from its kin.

Most rare diseases belong to a series ("Bardet-Biedl syndrome 4") or stand in several databases.
Where a disease itself has no annotation, its kin are better evidence than none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import LongArray
from noisyor_hpo.frequencies import Frequencies

__all__ = ["kin_frequencies", "series_name", "series_of"]

_LEAST = 0.1
"""Frequencies among the kin that are smaller than this are no more than noise."""

_LONG = 25
_BRACKETS = re.compile(r"\(.*?\)")
_AFTER = re.compile(r",? (?:with or without|with|due to|without) ")
_KINDS = re.compile(
    r"\b(?:autosomal|dominant|recessive|x linked|linked|digenic|susceptibility to|type|form"
    r"|complementation group|somatic|isolated)\b"
)
_MARKS = re.compile(r"[,;:.]")
_NUMBER = re.compile(r"[ivx]+[a-e]?|\d+[a-z]{0,2}|[a-h]\d?")
_SMALL = frozenset(("and", "of", "the", "or", "in"))


def series_name(name: str) -> str:
    """What the names of a series share: words without numbers, inheritance and additions.

    >>> series_name("Retinitis pigmentosa 18") == series_name("Retinitis pigmentosa, type IV")
    True
    """
    text = _BRACKETS.sub("", name.lower().replace("-", " ").replace("/", " "))
    if len(text) > _LONG:
        text = _AFTER.split(text)[0]
    text = _MARKS.sub(" ", _KINDS.sub(" ", text))
    words = {
        word.rstrip("s")
        for word in text.split()
        if word not in _SMALL and not _NUMBER.fullmatch(word)
    }
    return " ".join(sorted(words))


def series_of(names: Sequence[str]) -> LongArray:
    """(n_diseases,) number of the series of each; a name of numbers alone is its own series."""
    keys = [series_name(name) or f" {k}" for k, name in enumerate(names)]
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def kin_frequencies(
    found: Frequencies, series: LongArray, n_terms: int
) -> tuple[LongArray, LongArray, np.ndarray]:
    """Disease, term and mean frequency among the other diseases of the series.

    Only pairs without an annotation of their own.
    """
    n_diseases = len(series)
    disease = np.repeat(np.arange(n_diseases), np.diff(found.ptr))
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
    # A pair with an annotation of its own keeps that: one pass marks where they are.
    known = np.isin(of * n_terms + borrowed.col, disease * n_terms + found.term, assume_unique=True)
    share = borrowed.data / others[of]
    kept = ~known & (share > _LEAST)
    return of[kept], borrowed.col[kept].astype(np.int64), share[kept]
