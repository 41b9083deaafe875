"""Terms of findings and what each is a kind of: an ontology in OBO format, such as ``hp.obo``.

Only what diagnosis needs is read: identifiers, names, exact synonyms, ``is_a``, and where old
identifiers went. Every other line is passed over.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from noisyor._util.compression import existing, open_binary
from noisyor._util.csr import Rows, pointers
from noisyor.data.columns import suggest
from noisyor.errors import InvalidDataError
from noisyor.tables.lines import text_lines

__all__ = ["Ontology", "read_ontology"]

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s+EXACT\b')
_ESCAPED = re.compile(r"\\(.)")
_COMPARED = 200  # names that a wrong one is compared with


@dataclass(frozen=True, eq=False)
class Ontology:
    """Terms, numbered in ascending order of their identifiers, and the hierarchy of ``is_a``.

    Attributes
    ----------
    version : of the file, such as ``"hp/releases/2025-01-16"``; "" if it states none.
    terms : (n_terms,) identifiers of the terms in use.
    names : (n_terms,) their names.
    synonyms : (n_terms,) the exact synonyms of each.
    parents : the terms that each term is directly a kind of: numbers
        ``parents.columns[parents.ptr[t] : parents.ptr[t + 1]]``.
    current : identifier in use by alternative or obsolete identifier.
    retired : names by identifier of the obsolete terms that nothing replaces.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor, noisyor_hpo
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.obo"
    >>> _ = path.write_text(
    ...     "[Term]\\nid: HP:1\\nname: Fever\\n\\n"
    ...     "[Term]\\nid: HP:2\\nname: High fever\\nalt_id: HP:9\\nis_a: HP:1 ! Fever\\n")
    >>> ontology = noisyor_hpo.read_ontology(path)
    >>> ontology.find("high fever"), ontology.resolve("HP:9"), ontology.resolve("HP:7")
    ('HP:2', 'HP:2', None)
    >>> ontology.ancestors.toarray().astype(int).tolist()
    [[1, 0], [1, 1]]
    """

    version: str
    terms: tuple[str, ...]
    names: tuple[str, ...]
    synonyms: tuple[tuple[str, ...], ...]
    parents: Rows
    current: Mapping[str, str]
    retired: Mapping[str, str]

    @property
    def n_terms(self) -> int:
        """Number of terms in use."""
        return len(self.terms)

    @cached_property
    def number(self) -> dict[str, int]:
        """Number of each term in use, by identifier."""
        return {term: k for k, term in enumerate(self.terms)}

    @cached_property
    def ancestors(self) -> sp.csr_array:
        """Sparse (n_terms, n_terms) booleans: row t is true at t itself and all it is a kind of."""
        above: list[set[int]] = [set() for _ in self.terms]
        for term in _parents_first(self.parents):
            above[term].add(term)
            for parent in _of(self.parents, term):
                above[term] |= above[parent]
        columns = np.array([k for found in above for k in sorted(found)], dtype=np.int32)
        ptr = pointers([len(found) for found in above]).astype(np.int32)
        ones = np.ones(len(columns), dtype=np.bool_)
        return sp.csr_array((ones, columns, ptr), shape=(self.n_terms, self.n_terms))

    @cached_property
    def descendants(self) -> sp.csr_array:
        """Sparse (n_terms, n_terms) booleans: row t is true at t itself and all its kinds."""
        return self.ancestors.T.tocsr()

    def resolve(self, identifier: str) -> str | None:
        """The identifier in use for one that may be old, or None if there is none."""
        if identifier in self.number:
            return identifier
        return self.current.get(identifier)

    def lookup(self, text: str) -> str | None:
        """The term that a text means, or None: an identifier, a name or an exact synonym.

        Upper and lower case are the same. A name goes before any synonym.
        """
        wanted = text.strip()
        found = self.resolve(wanted) or self.resolve(wanted.upper())
        return self._by_name.get(wanted.casefold()) if found is None else found

    def find(self, text: str) -> str:
        """The same for a text that must mean a term.

        Raises
        ------
        InvalidDataError : it does not; the most similar names are told.
        """
        found = self.lookup(text)
        if found is not None:
            return found
        wanted = text.strip()
        if wanted in self.retired:
            raise InvalidDataError(
                f"the term {wanted} ({self.retired[wanted]}) is obsolete and nothing replaces it"
            )
        said = [*self.names, *(one for synonyms in self.synonyms for one in synonyms)]
        near = suggest(wanted, _with_common_parts(wanted, said))
        raise InvalidDataError(f"no term {text!r} in the ontology{near}")

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """Terms by name and synonym without case."""
        found = {
            synonym.casefold(): term
            for term, synonyms in zip(self.terms, self.synonyms, strict=True)
            for synonym in synonyms
        }
        found.update(
            (name.casefold(), term) for term, name in zip(self.terms, self.names, strict=True)
        )
        return found


def read_ontology(source: str | os.PathLike[str]) -> Ontology:
    """Read an ontology in OBO format, compressed or not.

    Terms are ordered by ``is_a``, which may lead to several parents and must not lead back. Of
    several replacements of an obsolete term the first is taken.

    Parameters
    ----------
    source : the file, such as ``hp.obo`` of the Human Phenotype Ontology.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor, noisyor_hpo
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.obo"
    >>> _ = path.write_text("[Term]\\nid: HP:1\\nname: Fever\\n")
    >>> noisyor_hpo.read_ontology(path).names
    ('Fever',)
    """
    path = existing(source)
    version, stanzas = _read(path)
    in_use = {term: stanza for term, stanza in sorted(stanzas.items()) if not stanza.obsolete}
    if not in_use:
        raise InvalidDataError(f"{path} holds no term; is it an ontology in OBO format?")
    number = {term: k for k, term in enumerate(in_use)}
    rows: list[list[int]] = []
    for term, stanza in in_use.items():
        for parent, line in stanza.parents.items():
            if parent not in number:
                raise InvalidDataError(
                    f"{path}, line {line}: {term} is a kind of {parent}, which is no term of the "
                    "file; is the file complete?"
                )
        rows.append(sorted(number[parent] for parent in stanza.parents))
    columns = np.array([k for row in rows for k in row], dtype=np.int32)
    parents = Rows(pointers([len(row) for row in rows]), columns)
    terms = tuple(in_use)
    _refuse_cycle(parents, terms, path)
    current, retired = _old_identifiers(stanzas)
    return Ontology(
        version=version,
        terms=terms,
        names=tuple(stanza.name or term for term, stanza in in_use.items()),
        synonyms=tuple(tuple(stanza.synonyms) for stanza in in_use.values()),
        parents=parents,
        current=current,
        retired=retired,
    )


@dataclass
class _Stanza:
    """What the file says of one term; ``parents`` by identifier, with the line that names them."""

    name: str = ""
    synonyms: list[str] = field(default_factory=list)
    parents: dict[str, int] = field(default_factory=dict)
    alternatives: list[str] = field(default_factory=list)
    replacements: list[str] = field(default_factory=list)
    obsolete: bool = False


def _read(path: Path) -> tuple[str, dict[str, _Stanza]]:
    """The version and the terms of a file, obsolete ones too, by identifier."""
    version = ""
    stanzas: dict[str, _Stanza] = {}
    kind, stanza = "", None
    with open_binary(path) as stream:
        for line_number, line in text_lines(stream, path):
            line = line.strip()
            if line.startswith("["):
                kind, stanza = line, None
                continue
            tag, _, value = line.partition(": ")
            if kind == "" and tag == "data-version":
                version = value
            if kind != "[Term]":
                continue
            if tag == "id":
                if value in stanzas:
                    raise InvalidDataError(f"{path}, line {line_number}: a second term {value}")
                stanza = stanzas[value] = _Stanza()
            elif stanza is not None:
                _note(stanza, tag, value, line_number)
    return version, stanzas


def _note(stanza: _Stanza, tag: str, value: str, line_number: int) -> None:
    if tag == "name":
        stanza.name = _ESCAPED.sub(r"\1", value)
    elif tag == "synonym":
        if quoted := _QUOTED.match(value):
            stanza.synonyms.append(_ESCAPED.sub(r"\1", quoted[1]))
    elif tag == "is_obsolete":
        stanza.obsolete = value == "true"
    elif value:
        identifier = value.split()[0]  # a comment with the name may follow
        if tag == "is_a":
            stanza.parents[identifier] = line_number
        elif tag == "alt_id":
            stanza.alternatives.append(identifier)
        elif tag == "replaced_by":
            stanza.replacements.append(identifier)


def _old_identifiers(stanzas: Mapping[str, _Stanza]) -> tuple[dict[str, str], dict[str, str]]:
    """Where alternative and obsolete identifiers went, and the names of those that went nowhere."""
    moved = {old: term for term, stanza in stanzas.items() for old in stanza.alternatives}
    moved |= {
        term: stanza.replacements[0]
        for term, stanza in stanzas.items()
        if stanza.obsolete and stanza.replacements
    }
    current: dict[str, str] = {}
    for old in moved:
        seen, term = {old}, moved[old]
        while term in moved and term not in seen:
            seen.add(term)
            term = moved[term]
        if term in stanzas and not stanzas[term].obsolete:
            current[old] = term
    retired = {
        term: stanza.name
        for term, stanza in stanzas.items()
        if stanza.obsolete and term not in current
    }
    return {old: term for old, term in current.items() if old != term}, retired


def _with_common_parts(text: str, names: Iterable[str]) -> list[str]:
    """The names that share most triples of letters with a text, relative to their length.

    Comparing all names letter by letter would take seconds.
    """
    folded = text.casefold()
    triples = {folded[k : k + 3] for k in range(max(1, len(folded) - 2))}

    def shared(name: str) -> float:
        lower = name.casefold()
        return sum(triple in lower for triple in triples) / (len(folded) + len(lower))

    return heapq.nlargest(_COMPARED, names, key=shared)


# ---- the hierarchy


def _of(parents: Rows, term: int) -> list[int]:
    found: list[int] = parents.columns[parents.ptr[term] : parents.ptr[term + 1]].tolist()
    return found


def _parents_first(parents: Rows) -> Iterator[int]:
    """Terms in an order in which every term comes after its parents; none of a cycle comes."""
    waiting = np.diff(parents.ptr).tolist()
    children: list[list[int]] = [[] for _ in waiting]
    for term in range(len(waiting)):
        for parent in _of(parents, term):
            children[parent].append(term)
    ready = [term for term, count in enumerate(waiting) if count == 0]
    while ready:
        term = ready.pop()
        yield term
        for child in children[term]:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)


def _refuse_cycle(parents: Rows, terms: Sequence[str], path: Path) -> None:
    left = set(range(len(terms))).difference(_parents_first(parents))
    if not left:
        return
    cycle = _cycle(parents, left)
    shown = [terms[k] for k in cycle]
    if len(shown) > 6:
        shown[3:-2] = ["…"]
    raise InvalidDataError(
        f"{path}: terms are kinds of each other in a cycle: {' is a '.join(shown)}"
    )


def _cycle(parents: Rows, left: Iterable[int]) -> list[int]:
    """One cycle among terms of which each has a parent among them; its first term comes last."""
    among = set(left)
    walk, place = [min(among)], {min(among): 0}
    while True:
        term = next(parent for parent in _of(parents, walk[-1]) if parent in among)
        walk.append(term)
        if term in place:
            return walk[place[term] :]
        place[term] = len(walk) - 1
