"""Diagnosis with a network of diseases and findings, as in QMR, built from the HPO annotations.

A disease brings a finding about with the frequency that the annotations state. What they do not
state is an assumption, and an argument: how common diseases are, how often a finding occurs
without any of them, and the frequency where none is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray
from noisyor._util.compression import existing, open_binary
from noisyor.data.observations import Observations
from noisyor.datasets.documents import text_lines
from noisyor.datasets.hpo import HpoData
from noisyor.diagnosis.ranking import Differential, differential, find_visible
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.network.builders import from_edges
from noisyor.network.graph import Network
from noisyor.network.parameters import probability_from_theta

__all__ = [
    "Patients",
    "diagnose",
    "disease_network",
    "naive_bayes",
    "read_finding_names",
    "simulate_patients",
]


def disease_network(
    data: HpoData,
    *,
    finding_names: Mapping[str, str] | None = None,
    prior_probability: npt.ArrayLike = 1e-4,
    noise_probability: npt.ArrayLike = 1e-4,
    unknown_frequency: float = 0.5,
    highest_frequency: float = 0.98,
) -> Network:
    """A network of diseases (hidden) and findings (visible) from annotations.

    Pairs with frequency 0 have no edge; diseases without any edge are left out.

    Parameters
    ----------
    data : the annotations, see `datasets.load_hpo`.
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
    """
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
    """Names by identifier from an ontology in OBO format, such as ``hp.obo`` of the HPO."""
    path = existing(source)
    names: dict[str, str] = {}
    identifier, in_term = "", False
    with open_binary(path) as stream:
        for line in text_lines(stream, path):
            if line.startswith("["):
                in_term, identifier = line.strip() == "[Term]", ""
            elif in_term and line.startswith("id: "):
                identifier = line[4:].strip()
            elif in_term and identifier and line.startswith("name: "):
                names[identifier] = line[6:].strip()
    if not names:
        raise InvalidDataError(
            f"{path} holds no term with a name; is it an ontology in OBO format?"
        )
    return names


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
    """
    row = Observations.from_evidence(
        network.n_visible, _findings(network, present), _findings(network, absent)
    )
    return differential(network, row, top=top, n_samples=n_samples, seed=seed, engine=engine)


class Patients(NamedTuple):
    """Simulated patients: what is known of them, and their diseases, sparse (n, n_hidden)."""

    rows: Observations
    diseases: sp.csr_array


def simulate_patients(
    network: Network,
    n_patients: int,
    *,
    n_diseases: int | None = 1,
    n_present: int = 5,
    n_absent: int = 3,
    seed: int = 0,
) -> Patients:
    """Patients whose findings follow the model, of which a handful is known.

    Each has ``n_diseases`` different diseases, drawn by their priors, and at least one finding;
    with None every disease is drawn by itself, and there is at least one. Known are up to
    ``n_present`` findings drawn from those present, and up to ``n_absent`` from those that are
    absent although another disease with one of the known findings may show them: the questions a
    physician would ask. Patient i depends on (seed, i) alone.
    """
    if np.diff(network.child_ptr)[network.n_visible :].any():
        raise InvalidSettingError("patients are simulated from networks of one layer of causes")
    works = probability_from_theta(network.theta[network.param])
    matrix = sp.csr_array(
        (works, network.parent, network.child_ptr[: network.n_visible + 1]),
        shape=(network.n_visible, network.n_hidden),
    )
    by_disease = matrix.T.tocsr()
    prior = network.prior_probability
    share = prior / prior.sum()
    present, missing, truth = [], [], []
    for patient in range(n_patients):
        generator = np.random.default_rng((seed, patient))
        findings = np.empty(0, dtype=np.int64)
        while not len(findings):
            if n_diseases is not None:
                diseases = generator.choice(network.n_hidden, n_diseases, replace=False, p=share)
            else:
                diseases = np.flatnonzero(generator.random(network.n_hidden) < prior)
                if not len(diseases):
                    continue
            spared = (1.0 - network.noise_probability) * np.prod(
                1.0 - by_disease[diseases].toarray(), axis=0
            )
            findings = np.flatnonzero(generator.random(network.n_visible) > spared)
        shown = generator.choice(findings, min(n_present, len(findings)), replace=False)
        rivals = np.unique(matrix[shown].indices)
        askable = np.setdiff1d(by_disease[rivals].indices, findings)
        asked = generator.choice(askable, min(n_absent, len(askable)), replace=False)
        present.append(shown.tolist())
        missing.append(np.setdiff1d(np.arange(network.n_visible), np.append(shown, asked)))
        truth.append(diseases)
    rows = Observations.from_indices(present, network.n_visible, missing=missing)
    diseases = Observations.from_indices(truth, network.n_hidden).to_csr()
    return Patients(rows, diseases)


def naive_bayes(network: Network, rows: Observations) -> FloatArray:
    """Probability of each cause if exactly one is on, (n_rows, n_hidden): the usual comparison."""
    ones, missing = rows.to_csr().astype(np.float64), rows.missing_csr().astype(np.float64)
    theta = sp.csr_array(
        (network.theta[network.param], network.parent, network.child_ptr),
        shape=(network.n_nodes, network.n_hidden),
    )[: network.n_visible]
    leak = network.theta[network.leak_param[: network.n_visible]]
    # log p(on) - log p(off) of a finding: with the cause, on top of what it is without.
    total = theta.copy()
    total.data += np.repeat(leak, np.diff(theta.indptr))
    gain = total.copy()
    without = np.repeat(np.log(np.expm1(leak)), np.diff(theta.indptr))
    gain.data = total.data + np.log(-np.expm1(-total.data)) - without
    all_off = np.asarray(theta.sum(axis=0))
    prior = network.prior_probability
    score = ones @ gain + missing @ theta - all_off + np.log(prior / (1.0 - prior))
    score = np.asarray(score)
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _findings(network: Network, named: Iterable[str | int]) -> list[int]:
    if isinstance(named, str):
        raise InvalidDataError(f"findings are a list of names, got the text {named!r}")
    return [
        find_visible(network, item) if isinstance(item, str) else network.visible_index(item)
        for item in named
    ]
