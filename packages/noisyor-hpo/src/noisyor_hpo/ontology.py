"""Terms of findings and their hierarchy: an ontology in OBO format, such as ``hp.obo``.

Only the lines needed for ranking are read: identifiers, names, exact synonyms, ``is_a``, and
replacements of old identifiers. The hierarchy is a directed acyclic graph. Ancestors and
descendants are computed on request, because a table of all of them would be quadratic for a deep
hierarchy.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.data.columns import suggest
from noisyor.errors import InvalidDataError
from noisyor_hpo.files import existing, read_text

__all__ = ["Ontology", "read_ontology"]

LongArray = npt.NDArray[np.int64]
Neighbors = tuple[tuple[int, ...], ...]

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s+EXACT\b')
_ESCAPED = re.compile(r"\\(.)")
_N_COMPARED = 200  # names that a misspelled name is compared with


class _Level(NamedTuple):
    """Edges to the terms of one depth: ``child[k]`` is a kind of ``parent[k]``."""

    child: LongArray
    parent: LongArray


@dataclass(frozen=True, eq=False)
class Ontology:
    """Terms, numbered in ascending order of their identifiers, and the hierarchy of ``is_a``.

    Attributes
    ----------
    version : version of the file, such as ``"hp/releases/2025-01-16"``; "" if it states none.
    terms : (n_terms,) identifiers of the terms in use.
    names : (n_terms,) names.
    synonyms : (n_terms,) exact synonyms of each term.
    parents : (n_terms,) numbers of the terms that each term is directly a kind of, ascending.
    current : current identifier by alternative or obsolete identifier.
    retired : name by identifier of the obsolete terms without a replacement.

    Examples
    --------
    >>> import tempfile, pathlib, noisyor_hpo
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.obo"
    >>> _ = path.write_text(
    ...     "[Term]\\nid: HP:1\\nname: Fever\\n\\n"
    ...     "[Term]\\nid: HP:2\\nname: High fever\\nalt_id: HP:9\\nis_a: HP:1 ! Fever\\n")
    >>> ontology = noisyor_hpo.read_ontology(path)
    >>> ontology.find("high fever"), ontology.resolve("HP:9"), ontology.resolve("HP:7")
    ('HP:2', 'HP:2', None)
    >>> ontology.ancestors(1).tolist(), ontology.descendants(0).tolist()
    ([0, 1], [0, 1])
    """

    version: str
    terms: tuple[str, ...]
    names: tuple[str, ...]
    synonyms: tuple[tuple[str, ...], ...]
    parents: Neighbors
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

    # ---- the hierarchy

    def ancestors(self, term: int) -> LongArray:
        """Return the numbers of a term and of all its ancestors, ascending."""
        return _reachable(self.parents, term)

    def descendants(self, term: int) -> LongArray:
        """Return the numbers of a term and of all its kinds, ascending."""
        return _reachable(self.children, term)

    @cached_property
    def children(self) -> Neighbors:
        """(n_terms,) numbers of the terms that are directly a kind of each term."""
        found: list[list[int]] = [[] for _ in self.parents]
        for term, parents in enumerate(self.parents):
            for parent in parents:
                found[parent].append(term)
        return tuple(map(tuple, found))

    def largest_above(self, values: npt.ArrayLike) -> LongArray:
        """Return for each term the largest value (n_terms,) among the term and its ancestors."""
        found = np.array(values, dtype=np.int64)
        for child, parent in self._levels:
            np.maximum.at(found, child, found[parent])
        return found

    def count_with_kinds(self, group: LongArray, term: LongArray) -> LongArray:
        """Count the distinct groups that have each term or a kind of it.

        Parameters
        ----------
        group, term : (n_pairs,) pairs of a group number and a term number.

        Returns
        -------
        (n_terms,) number of groups.
        """
        counts = np.zeros(self.n_terms, dtype=np.int64)
        n_groups = int(group.max(initial=-1)) + 1
        # From the deepest terms up, every pair is handed to the parents, and doubles are dropped.
        waiting: dict[int, list[LongArray]] = {}

        def add(keys: LongArray) -> None:
            depth = self.depth[keys // n_groups]
            for one in np.unique(depth).tolist():
                waiting.setdefault(one, []).append(keys[depth == one])

        if n_groups:
            add(term * n_groups + group)
        for level in range(int(self.depth.max(initial=-1)), -1, -1):
            if level not in waiting:
                continue
            keys = np.unique(np.concatenate(waiting.pop(level)))
            terms, groups = np.divmod(keys, n_groups)
            np.add.at(counts, terms, 1)
            n_parents = self._parent_ptr[terms + 1] - self._parent_ptr[terms]
            first = np.repeat(self._parent_ptr[terms] - np.cumsum(n_parents) + n_parents, n_parents)
            above = self._parent_list[first + np.arange(n_parents.sum())]
            add(above * n_groups + np.repeat(groups, n_parents))
        return counts

    @cached_property
    def depth(self) -> LongArray:
        """(n_terms,) length of the longest path to each term from a term without parents."""
        found = np.zeros(self.n_terms, dtype=np.int64)
        for term in _parents_first(self.parents, self.children):
            found[term] = max((found[parent] + 1 for parent in self.parents[term]), default=0)
        return found

    @cached_property
    def _parent_ptr(self) -> LongArray:
        return np.cumsum([0, *map(len, self.parents)], dtype=np.int64)

    @cached_property
    def _parent_list(self) -> LongArray:
        return np.array([k for row in self.parents for k in row], dtype=np.int64)

    @cached_property
    def _levels(self) -> tuple[_Level, ...]:
        """Edges by the depth of the child, the smallest depth first."""
        child = np.repeat(np.arange(self.n_terms), np.diff(self._parent_ptr))
        order = np.argsort(self.depth[child], kind="stable")
        sizes = np.bincount(self.depth[child])
        cuts = np.cumsum(sizes)[:-1]
        return tuple(
            _Level(child[part], self._parent_list[part])
            for part in np.split(order, cuts)
            if len(part)
        )

    # ---- terms by text

    def resolve(self, identifier: str) -> str | None:
        """Return the current identifier of one that may be old, or None."""
        if identifier in self.number:
            return identifier
        return self.current.get(identifier)

    def lookup(self, text: str) -> str | None:
        """Return the term meant by a text, or None: an identifier, a name or an exact synonym.

        Case is ignored. Names take precedence over synonyms.
        """
        wanted = text.strip()
        found = self.resolve(wanted) or self.resolve(wanted.upper())
        return self._by_name.get(wanted.casefold()) if found is None else found

    def find(self, text: str) -> str:
        """Return the term meant by a text.

        Raises
        ------
        InvalidDataError : there is none; the message lists similar names.
        """
        found = self.lookup(text)
        if found is not None:
            return found
        wanted = text.strip()
        if wanted in self.retired:
            raise InvalidDataError(
                f"the term {wanted} ({self.retired[wanted]}) is obsolete and nothing replaces it"
            )
        every = [*self.names, *(one for synonyms in self.synonyms for one in synonyms)]
        near = suggest(wanted, _sharing_trigrams(wanted, every))
        raise InvalidDataError(f"no term {text!r} in the ontology{near}")

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """Term by case-folded name and synonym."""
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

    A term may have several parents; cycles are rejected. If an obsolete term has several
    replacements, the first is used.

    Parameters
    ----------
    source : file, such as ``hp.obo`` of the Human Phenotype Ontology.

    Examples
    --------
    >>> import tempfile, pathlib, noisyor_hpo
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.obo"
    >>> _ = path.write_text("[Term]\\nid: HP:1\\nname: Fever\\n")
    >>> noisyor_hpo.read_ontology(path).names
    ('Fever',)
    """
    path = existing(source)
    version, stanzas = _stanzas(read_text(path), path)
    in_use = {term: stanza for term, stanza in sorted(stanzas.items()) if not stanza.obsolete}
    if not in_use:
        raise InvalidDataError(f"{path} holds no term; is it an ontology in OBO format?")
    number = {term: k for k, term in enumerate(in_use)}
    parents: list[tuple[int, ...]] = []
    for term, stanza in in_use.items():
        for parent, line in stanza.parents.items():
            if parent not in number:
                raise InvalidDataError(
                    f"{path}, line {line}: {term} is a kind of {parent}, which is no term of the "
                    "file; is the file complete?"
                )
        parents.append(tuple(sorted(number[parent] for parent in stanza.parents)))
    current, retired = _old_identifiers(stanzas)
    ontology = Ontology(
        version=version,
        terms=tuple(in_use),
        names=tuple(stanza.name or term for term, stanza in in_use.items()),
        synonyms=tuple(tuple(stanza.synonyms) for stanza in in_use.values()),
        parents=tuple(parents),
        current=current,
        retired=retired,
    )
    _refuse_cycle(ontology, path)
    return ontology


@dataclass
class _Stanza:
    """One term of the file; ``parents`` maps identifiers to the lines that name them."""

    name: str = ""
    synonyms: list[str] = field(default_factory=list)
    parents: dict[str, int] = field(default_factory=dict)
    alternatives: list[str] = field(default_factory=list)
    replacements: list[str] = field(default_factory=list)
    obsolete: bool = False


def _stanzas(text: str, path: object) -> tuple[str, dict[str, _Stanza]]:
    """Parse the version and the terms of a file, with obsolete ones, by identifier."""
    version = ""
    stanzas: dict[str, _Stanza] = {}
    kind, stanza = "", None
    for line_number, line in enumerate(text.split("\n"), 1):
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
    """Map old identifiers to current ones, and name the obsolete terms without a replacement."""
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


def _sharing_trigrams(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that share most trigrams with a text, relative to their length.

    Comparing a text with all names letter by letter would take seconds.
    """
    folded = text.casefold()
    trigrams = {folded[k : k + 3] for k in range(max(1, len(folded) - 2))}

    def shared(name: str) -> float:
        lower = name.casefold()
        return sum(trigram in lower for trigram in trigrams) / (len(folded) + len(lower))

    return heapq.nlargest(_N_COMPARED, names, key=shared)


# ---- graphs


def _reachable(neighbors: Neighbors, start: int) -> LongArray:
    """Return the nodes that a search from one node reaches, with that node, ascending."""
    seen, waiting = {start}, [start]
    while waiting:
        for node in neighbors[waiting.pop()]:
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return np.array(sorted(seen), dtype=np.int64)


def _parents_first(parents: Neighbors, children: Neighbors) -> list[int]:
    """Order terms so that every term follows its parents; terms on or below cycles are left out."""
    waiting = list(map(len, parents))
    ready = [term for term, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        term = ready.pop()
        order.append(term)
        for child in children[term]:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    return order


def _refuse_cycle(ontology: Ontology, path: object) -> None:
    ordered = _parents_first(ontology.parents, ontology.children)
    left = set(range(ontology.n_terms)).difference(ordered)
    if not left:
        return
    shown = [ontology.terms[k] for k in _cycle(ontology.parents, left)]
    if len(shown) > 6:
        shown[3:-2] = ["…"]
    raise InvalidDataError(
        f"{path}: terms are kinds of each other in a cycle: {' is a '.join(shown)}"
    )


def _cycle(parents: Sequence[Sequence[int]], left: set[int]) -> list[int]:
    """Return one cycle among terms that each have a parent among them; it ends where it began."""
    walk, position = [min(left)], {min(left): 0}
    while True:
        term = next(parent for parent in parents[walk[-1]] if parent in left)
        walk.append(term)
        if term in position:
            return walk[position[term] :]
        position[term] = len(walk) - 1
