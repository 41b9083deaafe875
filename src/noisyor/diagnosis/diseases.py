"""Diagnosis with a network of diseases and findings, as in QMR, built from the HPO annotations.

A disease causes a finding with the frequency that the annotations state. What they do not state is
an assumption, and therefore an argument: how common diseases are, how often a finding occurs
without any of them, and the frequency where none is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import overload

import numpy as np
import numpy.typing as npt

from noisyor.data.observations import Observations
from noisyor.datasets.hpo import HpoData
from noisyor.diagnosis.findings import find_visibles
from noisyor.diagnosis.hpo.model import DiseaseModel, build_model
from noisyor.diagnosis.hpo.settings import DiseaseSettings
from noisyor.diagnosis.ontology import Ontology, read_ontology
from noisyor.diagnosis.ranking import Differential, differential
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.model.builders import from_edges
from noisyor.model.graph import Network

__all__ = [
    "diagnose",
    "disease_network",
    "read_finding_names",
]


@overload
def disease_network(
    data: HpoData,
    *,
    finding_names: Mapping[str, str] | None = None,
    prior_probability: npt.ArrayLike = 1e-4,
    noise_probability: npt.ArrayLike = 1e-4,
    unknown_frequency: float = 0.5,
    highest_frequency: float = 0.98,
) -> Network: ...


@overload
def disease_network(
    data: HpoData,
    *,
    ontology: Ontology | str | os.PathLike[str],
    databases: Iterable[str] | None = None,
    settings: DiseaseSettings | None = None,
) -> DiseaseModel: ...


def disease_network(
    data: HpoData,
    *,
    ontology: Ontology | str | os.PathLike[str] | None = None,
    databases: Iterable[str] | None = None,
    settings: DiseaseSettings | None = None,
    finding_names: Mapping[str, str] | None = None,
    prior_probability: npt.ArrayLike = 1e-4,
    noise_probability: npt.ArrayLike = 1e-4,
    unknown_frequency: float = 0.5,
    highest_frequency: float = 0.98,
) -> Network | DiseaseModel:
    """A network of diseases (hidden) and findings (visible) from annotations.

    With an ontology the terms and all that they are kinds of stand between diseases and findings,
    as nodes that cannot fail: the result is a `DiseaseModel`, for `rank_diseases`. Without, it is a
    `Network` of two layers, for `diagnose`. Pairs with frequency 0 have no edge; diseases without
    any edge are left out.

    Parameters
    ----------
    data : the annotations, see `datasets.load_hpo`.
    ontology : of the same release, see `read_ontology`, or its file.
    databases, settings : only with an ontology: rank diseases of these databases alone, such as
        ``["OMIM"]``; and what annotations do not state, see `DiseaseSettings`. The other arguments
        are for networks without one.
    finding_names : names of findings by identifier, see `read_finding_names`; a finding without
        one is called by its identifier.
    prior_probability : of each disease, an assumption: scalar or (n_diseases,).
    noise_probability : that a finding occurs without any of the diseases, an assumption: scalar or
        (n_findings,). The default gives every patient about one unrelated finding.
    unknown_frequency : of a finding where the annotations state none.
    highest_frequency : larger ones are taken as this: a finding may be overlooked.

    Returns
    -------
    Network with hidden names ``"Marfan syndrome (OMIM:154700)"``.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> from noisyor.datasets.hpo import HpoData
    >>> rows = nor.Observations.from_indices([[0, 1]], 2, column_names=["HP:1", "HP:2"])
    >>> data = HpoData("2025", rows, ("D:1",), ("flu",), np.array([0.8, np.nan]))
    >>> network = nor.diagnosis.disease_network(data, finding_names={"HP:1": "fever"})
    >>> network.hidden_names, network.visible_names
    (('flu (D:1)',), ('fever', 'HP:2'))
    """
    if ontology is not None:
        terms = ontology if isinstance(ontology, Ontology) else read_ontology(ontology)
        return build_model(data, terms, databases=databases, settings=settings)
    if databases is not None or settings is not None:
        raise InvalidSettingError("databases and settings are for models with an ontology")
    for name, value in [
        ("unknown_frequency", unknown_frequency),
        ("highest_frequency", highest_frequency),
    ]:
        if not 0 < value < 1:
            raise InvalidSettingError(f"{name} lies strictly between 0 and 1, got {value!r}")
    rows = data.observations
    frequency = np.where(np.isnan(data.frequency), unknown_frequency, data.frequency)
    disease = np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr))
    kept = frequency > 0
    diseases, parent = np.unique(disease[kept], return_inverse=True)
    prior = np.broadcast_to(np.asarray(prior_probability, dtype=np.float64), (rows.n_rows,))
    identifiers = rows.column_names or tuple(str(i) for i in range(rows.n_visible))
    names = finding_names or {}
    return from_edges(
        rows.n_visible,
        len(diseases),
        np.stack([parent, rows.columns[rows.ptr[0] : rows.ptr[-1]][kept]], axis=1),
        failure_probability=1.0 - np.minimum(frequency[kept], highest_frequency),
        prior_probability=prior[diseases],
        noise_probability=noise_probability,
        visible_names=[names.get(finding, finding) for finding in identifiers],
        hidden_names=[f"{data.disease_names[d]} ({data.disease_ids[d]})" for d in diseases],
    )


def read_finding_names(source: str | os.PathLike[str]) -> dict[str, str]:
    """Names by identifier from an ontology in OBO format, such as ``hp.obo`` of the HPO.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.obo"
    >>> _ = path.write_text("[Term]\\nid: HP:1\\nname: Fever\\n")
    >>> nor.diagnosis.read_finding_names(path)
    {'HP:1': 'Fever'}
    """
    ontology = read_ontology(source)
    return dict(zip(ontology.terms, ontology.names, strict=True))


def diagnose(
    network: Network,
    present: Iterable[str | int],
    absent: Iterable[str | int] = (),
    *,
    top: int = 10,
    n_samples: int = 32,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Differential:
    """Ranked causes of one patient's findings; all findings not named are unknown.

    Parameters
    ----------
    network : of causes and findings, see `disease_network`.
    present, absent : findings by name or number. An unknown name raises `InvalidDataError` with
        the most similar ones.
    top : number of causes to describe.
    n_samples : sampling chains.
    seed : key of the samples.
    engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(
    ...     2, 2, [("flu", "fever"), ("cold", "cough")], failure_probability=0.1,
    ...     visible_names=["fever", "cough"], hidden_names=["flu", "cold"])
    >>> result = nor.diagnosis.diagnose(network, present=["Fever"], absent=["cough"])
    >>> [(cause.name, round(cause.probability, 2)) for cause in result.causes]
    [('flu', 0.91), ('cold', 0.01)]
    """
    row = Observations.from_evidence(
        network.n_visible, find_visibles(network, present), find_visibles(network, absent)
    )
    return differential(network, row, top=top, n_samples=n_samples, seed=seed, engine=engine)
