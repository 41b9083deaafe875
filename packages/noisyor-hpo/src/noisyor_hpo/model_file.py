"""Models of diseases on disk: one file, the ontology included, so that a model is built once."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisyor._util.compression import existing
from noisyor._util.csr import Rows
from noisyor._version import __version__
from noisyor.datasets.download import cache_folder, fetch
from noisyor.errors import ModelFileError
from noisyor.io.sealed_file import Arrays, DamagedError, parsing, read_sealed, write_sealed
from noisyor_hpo.annotations import read_annotations
from noisyor_hpo.model import DiseaseModel, build_model
from noisyor_hpo.ontology import Ontology, read_ontology
from noisyor_hpo.settings import DiseaseSettings

__all__ = ["load_model", "prepare_model", "save_model"]

FORMAT = "noisyor-diseases-1"

PathLike = str | os.PathLike[str]

_ARRAYS = ("ptr", "term", "frequency", "own", "share")
_PARENTS = ("ontology.parents.ptr", "ontology.parents.columns")


def save_model(path: PathLike, model: DiseaseModel) -> None:
    """Write a model of diseases and its ontology to a file, in one step.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import noisyor as nor, noisyor_hpo
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
    ontology = model.ontology
    arrays = {name: getattr(model, name) for name in _ARRAYS}
    arrays |= zip(_PARENTS, ontology.parents, strict=True)
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
    """Read a model that `save_model` wrote; a file with any fault is a `ModelFileError`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import noisyor as nor, noisyor_hpo
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
    description, arrays = read_sealed(path, FORMAT)
    with parsing(path):
        told, diseases = description["ontology"], description["diseases"]
        terms, ids = _texts(told["terms"]), _texts(diseases["ids"])
        _check_edges(arrays, len(ids), len(terms))
        parents = Rows(*(arrays.pop(name) for name in _PARENTS))
        if parents.n_rows != len(terms):
            raise DamagedError(f"parents of {parents.n_rows} terms, there are {len(terms)}")
        parents.check(len(terms), "parents of term {}")
        ontology = Ontology(
            version=str(told["version"]),
            terms=terms,
            names=_texts(told["names"], len(terms)),
            synonyms=tuple(_texts(synonyms) for synonyms in told["synonyms"]),
            parents=parents,
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


def prepare_model(
    annotations: PathLike | None = None,
    ontology: PathLike | None = None,
    *,
    databases: Sequence[str] | None = None,
    cached: bool = True,
) -> DiseaseModel:
    """The model of annotations and an ontology, as files.

    Parameters
    ----------
    annotations, ontology : ``phenotype.hpoa`` and ``hp.obo``, compressed or not; without them those
        of 2025-01-16 are looked for, or downloaded.
    databases : as in `disease_network`.
    cached : read the model from the cache if it was built before, and keep it there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import noisyor as nor, noisyor_hpo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "hp.obo").write_text("[Term]\\nid: HP:1\\nname: Fever\\n")
    >>> columns = ["database_id", "disease_name", "qualifier", "hpo_id", "reference"]
    >>> columns += ["evidence", "onset", "frequency", "sex", "modifier", "aspect", "biocuration"]
    >>> row = ["D:1", "Flu", "", "HP:1", "PMID:1", "PCS", "", "9/10", "", "", "P", ""]
    >>> lines = ["\\t".join(fields) for fields in (columns, row)]
    >>> _ = (folder / "small.hpoa").write_text("\\n".join(lines) + "\\n")
    >>> model = noisyor_hpo.prepare_model(
    ...     folder / "small.hpoa", folder / "hp.obo", cached=False)
    >>> model.disease_names, model.ontology.names
    (('Flu',), ('Fever',))
    """
    sources = (
        fetch("hpo_phenotype.hpoa") if annotations is None else existing(annotations),
        fetch("hp.obo") if ontology is None else existing(ontology),
    )
    kept = _place(sources, databases) if cached else None
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
            pass  # a cache that cannot be written to is none
    return model


def _place(sources: Sequence[Path], databases: Sequence[str] | None) -> Path | None:
    """Where the cache keeps a model; the name tells files, settings, and version of the program."""
    folder = cache_folder()
    if folder is None:
        return None
    digest = hashlib.sha256()
    for path in sources:
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    settings = dataclasses.asdict(DiseaseSettings())
    told = [FORMAT, __version__, None if databases is None else sorted(databases), settings]
    digest.update(json.dumps(told, sort_keys=True).encode())
    return folder / "models" / f"diseases-{digest.hexdigest()[:32]}.safetensors"


def _check_edges(arrays: Arrays, n_diseases: int, n_terms: int) -> None:
    """Edges lead from diseases to terms that are there."""
    edges = Rows(arrays["ptr"], arrays["term"])
    sizes = {len(arrays[name]) for name in ("term", "frequency", "own")}
    if edges.n_rows != n_diseases or len(sizes) != 1 or len(arrays["share"]) != n_terms:
        raise DamagedError("edges, diseases and terms differ in number")
    if len(edges.columns) and not 0 <= edges.columns.min() <= edges.columns.max() < n_terms:
        raise DamagedError("edges lead to terms that do not exist")


def _texts(values: Any, length: int | None = None) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DamagedError("names are a list of strings")
    if length is not None and len(values) != length:
        raise DamagedError(f"{len(values)} names for {length}")
    return tuple(values)
