"""Disease models on disk: one file with the ontology, so that a model is built once and cached."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from noisyor.errors import ModelFileError
from noisyor.io.model_file import Arrays, DamagedError, parsing, read_sealed, write_sealed
from noisyor_hpo.annotations import read_annotations
from noisyor_hpo.files import cache_folder, existing, fetch
from noisyor_hpo.model import DiseaseModel, build_model
from noisyor_hpo.ontology import Neighbors, Ontology, read_ontology
from noisyor_hpo.settings import DiseaseSettings

__all__ = ["load_model", "prepare_model", "save_model"]

FORMAT = "noisyor-diseases-1"

PathLike = str | os.PathLike[str]

_ARRAYS = ("ptr", "term", "frequency", "own", "share")
_PARENTS = ("ontology.parents.ptr", "ontology.parents.columns")


def prepare_model(
    annotations: PathLike | None = None,
    ontology: PathLike | None = None,
    *,
    databases: Sequence[str] | None = None,
    cached: bool = True,
) -> DiseaseModel:
    """Build a model from files, or read it from the cache if it was built before.

    Parameters
    ----------
    annotations, ontology : ``phenotype.hpoa`` and ``hp.obo``, compressed or not. By default release
        2025-01-16, downloaded once.
    databases : as in `build_model`.
    cached : read the model from the cache, and write it there.

    Examples
    --------
    >>> import pathlib, tempfile, noisyor_hpo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "hp.obo").write_text("[Term]\\nid: HP:1\\nname: Fever\\n")
    >>> columns = ["database_id", "disease_name", "qualifier", "hpo_id", "reference"]
    >>> columns += ["evidence", "onset", "frequency", "sex", "modifier", "aspect", "biocuration"]
    >>> row = ["D:1", "Flu", "", "HP:1", "PMID:1", "PCS", "", "9/10", "", "", "P", ""]
    >>> lines = ["\\t".join(fields) for fields in (columns, row)]
    >>> _ = (folder / "small.hpoa").write_text("\\n".join(lines) + "\\n")
    >>> model = noisyor_hpo.prepare_model(
    ...     folder / "small.hpoa", folder / "hp.obo", cached=False)
    >>> noisyor_hpo.save_model(folder / "flu.safetensors", model)
    >>> noisyor_hpo.load_model(folder / "flu.safetensors").disease_names
    ('Flu',)
    """
    sources = (
        fetch("hpo_phenotype.hpoa") if annotations is None else existing(annotations),
        fetch("hp.obo") if ontology is None else existing(ontology),
    )
    kept = _cache_path(sources, databases) if cached else None
    if kept is not None and kept.exists():
        try:
            return load_model(kept)
        except ModelFileError:
            pass  # damaged: it is built again
    model = build_model(
        read_annotations(sources[0]), read_ontology(sources[1]), databases=databases
    )
    if kept is not None:
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            save_model(kept, model)
        except (OSError, ModelFileError):
            pass  # the cache is only for speed
    return model


def _cache_path(sources: Sequence[Path], databases: Sequence[str] | None) -> Path:
    """Return where the cache keeps a model; the name depends on files, settings and version."""
    from noisyor_hpo import __version__

    digest = hashlib.sha256()
    for path in sources:
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    settings = dataclasses.asdict(DiseaseSettings())
    key = [FORMAT, __version__, None if databases is None else sorted(databases), settings]
    digest.update(json.dumps(key, sort_keys=True).encode())
    return cache_folder() / "models" / f"diseases-{digest.hexdigest()[:32]}.safetensors"


def save_model(path: PathLike, model: DiseaseModel) -> None:
    """Write a model with its ontology to a file."""
    ontology = model.ontology
    arrays = {name: getattr(model, name) for name in _ARRAYS}
    arrays[_PARENTS[0]] = np.cumsum([0, *map(len, ontology.parents)], dtype=np.int64)
    arrays[_PARENTS[1]] = np.array([k for row in ontology.parents for k in row], dtype=np.int32)
    fields = {
        "diseases": {
            "ids": model.disease_ids,
            "names": model.disease_names,
            "version": model.version,
            "settings": dataclasses.asdict(model.settings),
        },
        "ontology": {
            "version": ontology.version,
            "terms": ontology.terms,
            "names": ontology.names,
            "synonyms": ontology.synonyms,
            "current": dict(ontology.current),
            "retired": dict(ontology.retired),
        },
    }
    write_sealed(path, FORMAT, fields, arrays)


def load_model(path: PathLike) -> DiseaseModel:
    """Read a model that `save_model` wrote.

    Raises
    ------
    ModelFileError : the file is damaged or not a disease model.
    """
    description, arrays = read_sealed(path, FORMAT)
    with parsing(path):
        told, diseases = description["ontology"], description["diseases"]
        terms, ids = _texts(told["terms"]), _texts(diseases["ids"])
        _check_edges(arrays, len(ids), len(terms))
        ontology = Ontology(
            version=str(told["version"]),
            terms=terms,
            names=_texts(told["names"], len(terms)),
            synonyms=tuple(_texts(synonyms) for synonyms in told["synonyms"]),
            parents=_parents(arrays, len(terms)),
            current=dict(told["current"]),
            retired=dict(told["retired"]),
        )
        return DiseaseModel(
            ontology=ontology,
            disease_ids=ids,
            disease_names=_texts(diseases["names"], len(ids)),
            version=str(diseases["version"]),
            settings=DiseaseSettings(**diseases["settings"]),
            **{name: arrays[name] for name in _ARRAYS},
        )


def _parents(arrays: Arrays, n_terms: int) -> Neighbors:
    ptr, columns = (arrays[name].tolist() for name in _PARENTS)
    if len(ptr) != n_terms + 1:
        raise DamagedError(f"parents of {len(ptr) - 1} terms, there are {n_terms}")
    if ptr[0] != 0 or ptr[-1] != len(columns) or any(end < start for start, end in pairwise(ptr)):
        raise DamagedError("pointers to the parents of terms are wrong")
    if any(not 0 <= parent < n_terms for parent in columns):
        raise DamagedError("parents of terms do not exist")
    return tuple(tuple(columns[start:end]) for start, end in pairwise(ptr))


def _check_edges(arrays: Arrays, n_diseases: int, n_terms: int) -> None:
    """Check that edges lead from existing diseases to existing terms."""
    ptr, term = arrays["ptr"], arrays["term"]
    sizes = {len(arrays[name]) for name in ("term", "frequency", "own")}
    if len(ptr) != n_diseases + 1 or len(sizes) != 1 or len(arrays["share"]) != n_terms:
        raise DamagedError("edges, diseases and terms differ in number")
    if ptr[0] != 0 or ptr[-1] != len(term) or (np.diff(ptr) < 0).any():
        raise DamagedError("pointers to the edges of diseases are wrong")
    if len(term) and not 0 <= term.min() <= term.max() < n_terms:
        raise DamagedError("edges lead to terms that do not exist")


def _texts(values: Any, length: int | None = None) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DamagedError("names are a list of strings")
    if length is not None and len(values) != length:
        raise DamagedError(f"{len(values)} names for {length}")
    return tuple(values)
