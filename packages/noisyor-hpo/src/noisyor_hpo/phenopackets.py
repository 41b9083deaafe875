"""Patients from phenopackets, the exchange format of the GA4GH (JSON, versions 1 and 2)."""

from __future__ import annotations

import itertools
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from noisyor._util.compression import (
    decompressed,
    existing,
    members,
    reading,
    reason_of,
    uncompressed_name,
)
from noisyor._util.json import to_json
from noisyor.errors import InvalidDataError
from noisyor.tables.jsonl import json_lines
from noisyor.tables.lines import LONGEST_LINE, text_lines
from noisyor_hpo.ontology import Ontology

__all__ = ["Patient", "read_phenopackets"]

MOST_TERMS = 1000
"""More terms than this describe no patient; a careful description has about a hundred."""

_ENDINGS = (".json", ".jsonl")
_ARCHIVES = (".zip", ".tar", ".tgz")
_PAPER = re.compile(r"PMID[:_ ]?\s*(\d+)|pubmed(?:\.ncbi\.nlm\.nih\.gov)?/(\d+)", re.IGNORECASE)
_ONSET = ("onset", "ageOfOnset", "ageRangeOfOnset", "classOfOnset")
_SHOWN = 8


@dataclass(frozen=True)
class Patient:
    """One patient: what was found and what was looked for in vain, by identifiers of terms.

    Attributes
    ----------
    id : of the phenopacket, or the name of its file if it has none.
    present : terms that were found, in the order of the file, each once.
    absent : terms that were excluded. What is stated both ways is present.
    onsets : (term, onset) where one is stated; it is kept and plays no part in a diagnosis.
    diseases : identifiers of the diagnoses, empty if there is none.
    references : papers about the patient, such as ``"PMID:27672653"``.
    unknown : terms that the ontology does not have, with their labels.
    source : the file, and the line in it.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> patient = noisyor_hpo.Patient("anna", present=("HP:0001166",), absent=("HP:0001250",))
    >>> patient.present
    ('HP:0001166',)
    """

    id: str
    present: tuple[str, ...]
    absent: tuple[str, ...] = ()
    onsets: tuple[tuple[str, str], ...] = ()
    diseases: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    source: str = ""


def read_phenopackets(
    source: str | os.PathLike[str], ontology: Ontology | None = None
) -> tuple[Patient, ...]:
    """Patients from phenopackets of version 1 or 2.

    Terms that the ontology does not have are left out, told in one warning and kept in
    `Patient.unknown`.

    Parameters
    ----------
    source : a JSON file with one phenopacket or a list of them, JSON lines, a folder or an archive
        (zip, tar) of such files; each compressed or not. A line may also be an object with the
        field ``phenopacket``.
    ontology : maps alternative and obsolete identifiers to those in use; without it they are taken
        as they come.

    Raises
    ------
    InvalidDataError : something is no phenopacket, has too many terms, or no patient has any.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import noisyor as nor, noisyor_hpo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "patient.json"
    >>> features = [{"type": {"id": "HP:0001166"}},
    ...             {"type": {"id": "HP:0001250"}, "excluded": True}]
    >>> _ = file.write_text(json.dumps({"id": "anna", "phenotypicFeatures": features}))
    >>> (patient,) = noisyor_hpo.read_phenopackets(file)
    >>> patient.id, patient.present, patient.absent
    ('anna', ('HP:0001166',), ('HP:0001250',))
    """
    path = existing(source)
    patients = tuple(_patient(record, ontology) for record in _records(path))
    if not patients:
        raise InvalidDataError(f"{path} holds no phenopacket")
    unknown = dict.fromkeys(term for patient in patients for term in patient.unknown)
    if not any(patient.present or patient.absent for patient in patients):
        if unknown and ontology is not None:
            raise InvalidDataError(
                f"{path}: none of the terms is in the ontology {ontology.version}: {_few(unknown)}"
            )
        raise InvalidDataError(
            f"{path}: no terms; expected the field 'phenotypicFeatures' of a phenopacket"
        )
    if unknown:
        warnings.warn(
            f"{path}: {len(unknown)} terms are not in the ontology and are left out: "
            f"{_few(unknown)}",
            stacklevel=2,
        )
    return patients


def _few(terms: Iterable[str]) -> str:
    listed = list(terms)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


# ---- files


class _Record(NamedTuple):
    """A phenopacket as it was read, where it stands, and a name if it has no id."""

    value: Mapping[str, Any]
    where: str
    name: str


def _records(path: Path) -> Iterator[_Record]:
    if path.is_dir() or uncompressed_name(path).endswith(_ARCHIVES):
        for inside, stream in members(path, _is_json):
            where = f"{path.parent if path.is_dir() else path}/{inside}"
            with reading(where), decompressed(stream, where) as content:
                yield from _of_stream(content, where, PurePosixPath(inside).name)
        return
    with path.open("rb") as raw, reading(path), decompressed(raw, path) as content:
        yield from _of_stream(content, str(path), path.name)


def _is_json(name: str) -> bool:
    file = Path(name)
    return uncompressed_name(file).endswith(_ENDINGS) and not file.name.startswith(".")


def _of_stream(stream: IO[bytes], where: str, name: str) -> Iterator[_Record]:
    """The phenopackets of one file: JSON lines if its first line is JSON by itself."""
    # JSON is UTF-8, and a wrong byte in a label changes nothing that counts.
    lines = text_lines(stream, where, errors="replace")
    first = next((line for line in lines if not line[1].isspace()), None)
    if first is None:
        raise InvalidDataError(f"{where} is empty")
    try:
        json.loads(first[1])
    except (ValueError, RecursionError):
        number, text = first[0], _whole(first[1], lines, where)
        values: Iterable[tuple[int, Any]] = [(number, _parsed(text, where, number))]
    else:
        values = json_lines(itertools.chain([first], lines), where)
    for number, value in values:
        for single in value if isinstance(value, list) else [value]:
            yield _record(single, where, number, name)


def _whole(first: str, lines: Iterable[tuple[int, str]], where: str) -> str:
    """The rest of a file as one text, unless it is larger than any line may be."""
    parts, size = [first], len(first)
    for _, line in lines:
        parts.append(line)
        size += len(line)
        if size > LONGEST_LINE:
            raise InvalidDataError(
                f"{where}: one JSON text of more than {LONGEST_LINE // 2**20} MB; write one "
                "phenopacket on each line"
            )
    return "".join(parts)


def _parsed(text: str, where: str, first_line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        number = first_line - 1 + error.lineno
        raise InvalidDataError(f"{where}, line {number}: not JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, deep nesting
        raise InvalidDataError(
            f"{where}: not JSON that can be read ({reason_of(error)})"
        ) from error


def _record(value: Any, where: str, number: int, name: str) -> _Record:
    """A phenopacket, taken out of the object that gives it a path."""
    place = f"{where}, line {number}"
    value = _object(value, place, "a phenopacket")
    if "phenopacket" in value:
        inside = value.get("path")
        name = inside if isinstance(inside, str) else name
        value = _object(value["phenopacket"], place, "the field 'phenopacket'")
    return _Record(value, place, name)


# ---- what a phenopacket says


def _patient(record: _Record, ontology: Ontology | None) -> Patient:
    packet, where, name = record
    features = _objects(packet, "phenotypicFeatures", where)
    if len(features) > MOST_TERMS:
        raise InvalidDataError(
            f"{where}: {len(features):,} terms, at most {MOST_TERMS:,} are expected of one patient"
        )
    present: dict[str, None] = {}
    absent: dict[str, None] = {}
    unknown: dict[str, None] = {}
    onsets: dict[str, str] = {}
    for feature in features:
        term, label = _class(feature, "type", where)
        known = term if ontology is None else ontology.resolve(term)
        if known is None:
            unknown[_printable(f"{term} ({label})" if label else term)] = None
            continue
        excluded = feature.get("excluded") or feature.get("negated") or False
        if not isinstance(excluded, bool):
            raise InvalidDataError(
                f"{where}: {term} is excluded or not, expected true or false, got {excluded!r}"
            )
        (absent if excluded else present)[known] = None
        for key in _ONSET:
            if key in feature:
                onsets.setdefault(known, _time(feature[key]))
    identifier = packet.get("id")
    return Patient(
        id=_printable(identifier if isinstance(identifier, str) and identifier else name),
        present=tuple(present),
        absent=tuple(term for term in absent if term not in present),
        onsets=tuple(onsets.items()),
        diseases=_diseases(packet, where),
        references=_references(packet, features, where),
        unknown=tuple(unknown),
        source=where,
    )


def _diseases(packet: Mapping[str, Any], where: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for interpretation in _objects(packet, "interpretations", where):
        diagnosis = interpretation.get("diagnosis")
        if isinstance(diagnosis, dict) and "disease" in diagnosis:
            found[_class(diagnosis, "disease", where)[0]] = None
    for disease in _objects(packet, "diseases", where):
        if not disease.get("excluded"):
            found[_class(disease, "term", where)[0]] = None
    return tuple(found)


def _references(
    packet: Mapping[str, Any], features: list[dict[str, Any]], where: str
) -> tuple[str, ...]:
    """Papers of the packet and of the evidence for its terms; some packets name theirs in the id.

    Other references than papers are taken as they are.
    """
    metadata = packet.get("metaData") or {}
    stated = _objects(metadata, "externalReferences", where) if isinstance(metadata, dict) else []
    for feature in features:
        for evidence in _objects(feature, "evidence", where):
            if isinstance(reference := evidence.get("reference"), dict):
                stated.append(reference)
    found: dict[str, None] = {}
    for reference in stated:
        texts = [text for key in ("id", "reference") if isinstance(text := reference.get(key), str)]
        papers = [paper for text in texts for paper in _papers(text)]
        found.update(dict.fromkeys(papers or [text for text in texts if text][:1]))
    if isinstance(packet.get("id"), str):
        found.update(dict.fromkeys(_papers(packet["id"])))
    return tuple(found)


def _papers(text: str) -> list[str]:
    return [f"PMID:{match[1] or match[2]}" for match in _PAPER.finditer(text)]


def _printable(text: str) -> str:
    """The text without what would break a line, a terminal or a file in UTF-8."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)


def _time(value: Any) -> str:
    """An age or a class of onset as a short text; anything else as its JSON."""
    inner = value
    while isinstance(inner, dict):
        for key in ("age", "iso8601duration", "ontologyClass", "label", "id"):
            if key in inner:
                inner = inner[key]
                break
        else:
            return to_json(value)
    return inner if isinstance(inner, str) else to_json(value)


# ---- shapes


def _object(value: Any, where: str, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDataError(f"{where}: {what} is a JSON object, got {type(value).__name__}")
    return value


def _objects(holder: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """The objects of a list; a list that is not there, or null, is empty."""
    values = holder.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise InvalidDataError(f"{where}: the field {key!r} is a list, got {type(values).__name__}")
    return [_object(value, where, f"an entry of {key!r}") for value in values]


def _class(holder: Mapping[str, Any], key: str, where: str) -> tuple[str, str]:
    """Identifier and label of an ontology class."""
    value = _object(holder.get(key), where, f"the field {key!r}")
    identifier, label = value.get("id"), value.get("label")
    if not isinstance(identifier, str) or not identifier.strip():
        raise InvalidDataError(f"{where}: the field {key!r} has no identifier ('id')")
    return identifier.strip(), label if isinstance(label, str) else ""
