"""Read patients from phenopackets, the exchange format of the GA4GH (JSON, versions 1 and 2)."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyor.errors import InvalidDataError
from noisyor_hpo.files import existing, packed_texts, read_text
from noisyor_hpo.ontology import Ontology

__all__ = ["Patient", "read_phenopackets"]

MAX_TERMS = 1000
"""Descriptions with more terms are rejected; a careful description has about a hundred."""

_ENDINGS = (".json", ".jsonl")
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2")
_PAPER = re.compile(r"PMID[:_ ]?\s*(\d+)|pubmed(?:\.ncbi\.nlm\.nih\.gov)?/(\d+)", re.IGNORECASE)
_ONSET = ("onset", "ageOfOnset", "ageRangeOfOnset", "classOfOnset")
_N_SHOWN = 8


@dataclass(frozen=True)
class Patient:
    """One patient: present and absent findings, by identifiers of terms.

    Attributes
    ----------
    id : identifier of the phenopacket, or the name of its file if it has none.
    present : terms that were found, in the order of the file, each once.
    absent : excluded terms. A term that is stated both ways is present.
    onsets : (term, onset) where one is stated; not used for ranking.
    diseases : identifiers of the diagnoses.
    references : papers about the patient, such as ``"PMID:27672653"``.
    unknown : terms that the ontology does not have, with their labels.
    source : file and line.

    Examples
    --------
    >>> import noisyor_hpo
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
    """Read patients from phenopackets of version 1 or 2.

    Terms that the ontology does not have are reported in one warning and kept in
    `Patient.unknown`.

    Parameters
    ----------
    source : a JSON file with one phenopacket or a list of them, JSON lines, a folder or an archive
        (zip, tar) of such files; each compressed or not. A line may also be an object with the
        field ``phenopacket``.
    ontology : maps alternative and obsolete identifiers to current ones; without it identifiers
        are taken as they are.

    Raises
    ------
    InvalidDataError : a record is not a phenopacket or has too many terms, or no patient has any.

    Examples
    --------
    >>> import json, pathlib, tempfile, noisyor_hpo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "patient.json"
    >>> features = [{"type": {"id": "HP:0001166"}},
    ...             {"type": {"id": "HP:0001250"}, "excluded": True}]
    >>> _ = file.write_text(json.dumps({"id": "anna", "phenotypicFeatures": features}))
    >>> (patient,) = noisyor_hpo.read_phenopackets(file)
    >>> patient.id, patient.present, patient.absent
    ('anna', ('HP:0001166',), ('HP:0001250',))
    """
    path = existing(source)
    patients = tuple(
        _patient(packet, where, name, ontology)
        for place, file, text in _texts(path)
        for packet, where, name in _packets(text, place, file)
    )
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
            f"{path}: {len(unknown)} terms are not in the ontology and are ignored: "
            f"{_few(unknown)}",
            stacklevel=2,
        )
    return patients


def _few(terms: Iterable[str]) -> str:
    listed = list(terms)
    more = f" and {len(listed) - _N_SHOWN} more" if len(listed) > _N_SHOWN else ""
    return ", ".join(listed[:_N_SHOWN]) + more


# ---- files


def _texts(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place, the file name and the text of each file."""
    if path.is_dir() or path.name.lower().endswith(_ARCHIVES):
        yield from packed_texts(path, _ENDINGS)
    else:
        yield str(path), path.name, read_text(path)


def _packets(text: str, place: str, file: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield each phenopacket of a file, its place, and a name for it if it has no identifier."""
    for number, value in _json_values(text, place):
        where = f"{place}, line {number}"
        for single in value if isinstance(value, list) else [value]:
            packet, name = _object(single, where, "a phenopacket"), file
            if "phenopacket" in packet:  # an object that gives the phenopacket a path
                inside = packet.get("path")
                name = inside if isinstance(inside, str) else file
                packet = _object(packet["phenopacket"], where, "the field 'phenopacket'")
            yield packet, where, name


def _json_values(text: str, place: str) -> Iterator[tuple[int, Any]]:
    """Yield line number and value: of JSON lines if the first line is JSON, else of the text."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise InvalidDataError(f"{place} is empty")
    try:
        json.loads(lines[0][1])
    except (ValueError, RecursionError):
        yield lines[0][0], _parse(text, place, 1)
    else:
        for number, line in lines:
            yield number, _parse(line, place, number)


def _parse(text: str, place: str, first_line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        number = first_line - 1 + error.lineno
        raise InvalidDataError(f"{place}, line {number}: not JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, deep nesting
        raise InvalidDataError(f"{place}: not JSON that can be read ({error})") from error


# ---- phenopackets


def _patient(
    packet: Mapping[str, Any], where: str, name: str, ontology: Ontology | None
) -> Patient:
    features = _objects(packet, "phenotypicFeatures", where)
    if len(features) > MAX_TERMS:
        raise InvalidDataError(
            f"{where}: {len(features):,} terms, at most {MAX_TERMS:,} are expected of one patient"
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
    """Collect the papers of the packet and of the evidence for its terms.

    Some packets name their paper in the identifier. References other than papers are taken as
    they are.
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
    """Replace characters that would break a line, a terminal or a file in UTF-8."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _time(value: Any) -> str:
    """Return an age or a class of onset as a short text, and anything else as JSON."""
    inner = value
    while isinstance(inner, dict):
        for key in ("age", "iso8601duration", "ontologyClass", "label", "id"):
            if key in inner:
                inner = inner[key]
                break
        else:
            return json.dumps(value)
    return inner if isinstance(inner, str) else json.dumps(value)


# ---- checks of JSON values


def _object(value: Any, where: str, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDataError(f"{where}: {what} is a JSON object, got {type(value).__name__}")
    return value


def _objects(holder: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """Return the objects of a list; a missing list, or null, is empty."""
    values = holder.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise InvalidDataError(f"{where}: the field {key!r} is a list, got {type(values).__name__}")
    return [_object(value, where, f"an entry of {key!r}") for value in values]


def _class(holder: Mapping[str, Any], key: str, where: str) -> tuple[str, str]:
    """Return the identifier and the label of an ontology class."""
    value = _object(holder.get(key), where, f"the field {key!r}")
    identifier, label = value.get("id"), value.get("label")
    if not isinstance(identifier, str) or not identifier.strip():
        raise InvalidDataError(f"{where}: the field {key!r} has no identifier ('id')")
    return identifier.strip(), label if isinstance(label, str) else ""
