"""A noisy-OR network of diseases and findings without the ontology, as in QMR.

A disease causes a finding with the frequency that the annotations state. Everything that the
annotations do not state is an argument: the prior of each disease, the probability of a finding
without any disease, and the frequency where none is given. The network serves as a baseline for
the model with the ontology, and patients are simulated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor import Network, Observations, from_edges
from noisyor.errors import InvalidSettingError
from noisyor.model.forward import edge_matrix
from noisyor_hpo.annotations import Annotations

__all__ = ["Patients", "disease_network", "naive_bayes", "simulate_patients"]

FloatArray = npt.NDArray[np.float64]


def disease_network(
    data: Annotations,
    *,
    finding_names: Mapping[str, str] | None = None,
    prior_probability: npt.ArrayLike = 1e-4,
    noise_probability: npt.ArrayLike = 1e-4,
    unknown_frequency: float = 0.5,
    highest_frequency: float = 0.98,
) -> Network:
    """Build a two-layer network of diseases (hidden) and findings (visible) from annotations.

    Pairs with frequency 0 have no edge, and diseases without any edge are left out.

    Parameters
    ----------
    data : annotations of `read_annotations`.
    finding_names : names of findings by identifier, for example
        ``dict(zip(ontology.terms, ontology.names))``. A finding without a name keeps its
        identifier.
    prior_probability : prior of each disease, scalar or (n_diseases,). An assumption.
    noise_probability : probability of a finding without any of the diseases, scalar or
        (n_findings,). An assumption: the default gives every patient about one unrelated finding.
    unknown_frequency : frequency of a finding where the annotations state none.
    highest_frequency : upper bound of frequencies, because a finding may be overlooked.

    Returns
    -------
    Network with hidden names such as ``"Marfan syndrome (OMIM:154700)"``.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> rows = nor.Observations.from_indices([[0, 1]], 2, column_names=["HP:1", "HP:2"])
    >>> data = noisyor_hpo.Annotations("2025", rows, ("D:1",), ("flu",), np.array([0.8, np.nan]))
    >>> network = noisyor_hpo.disease_network(data, finding_names={"HP:1": "fever"})
    >>> network.hidden_names, network.visible_names
    (('flu (D:1)',), ('fever', 'HP:2'))
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


class Patients(NamedTuple):
    """Simulated patients: their known findings, and their diseases as sparse (n, n_hidden).

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> rows, diseases = noisyor_hpo.simulate_patients(nor.bipartite(4, 2), 3)
    >>> diseases.shape
    (3, 2)
    """

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
    """Simulate patients whose findings follow the model and are partly known.

    Patient i depends only on ``seed`` and i.

    Parameters
    ----------
    network : network of one layer, see `disease_network`.
    n_patients : number of patients; each has at least one finding.
    n_diseases : number of distinct diseases of each patient, drawn in proportion to their priors;
        None draws every disease independently until there is at least one.
    n_present : largest number of known present findings.
    n_absent : largest number of known absent findings. They are drawn from the findings of other
        diseases with one of the known findings, as a physician would ask for them.
    seed : seed of the draws.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> network = nor.bipartite(4, 2, failure_probability=0.2)
    >>> patients = noisyor_hpo.simulate_patients(network, 3, n_present=1)
    >>> patients.rows.n_rows, patients.diseases.sum(axis=1).tolist()
    (3, [1, 1, 1])
    """
    if np.diff(network.child_ptr)[network.n_visible :].any():
        raise InvalidSettingError("patients are simulated from networks of one layer of causes")
    by_finding = edge_matrix(network, probability=True)[: network.n_visible]
    by_disease = by_finding.T.tocsr()
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
        rivals = np.unique(by_finding[shown].indices)
        askable = np.setdiff1d(by_disease[rivals].indices, findings)
        asked = generator.choice(askable, min(n_absent, len(askable)), replace=False)
        present.append(shown.tolist())
        missing.append(np.setdiff1d(np.arange(network.n_visible), np.append(shown, asked)))
        truth.append(diseases)
    rows = Observations.from_indices(present, network.n_visible, missing=missing)
    diseases = Observations.from_indices(truth, network.n_hidden).to_csr()
    return Patients(rows, diseases)


def naive_bayes(network: Network, rows: Observations) -> FloatArray:
    """Return the (n_rows, n_hidden) probability of each cause if exactly one is on: a baseline.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
    >>> network = nor.bipartite(2, 2, failure_probability=[[0.1, 0.9], [0.9, 0.1]])
    >>> row = nor.Observations.from_evidence(2, present=[0], absent=[1])
    >>> noisyor_hpo.naive_bayes(network, row).round(2).tolist()
    [[0.99, 0.01]]
    """
    ones, missing = rows.to_csr().astype(np.float64), rows.missing_csr().astype(np.float64)
    theta = edge_matrix(network)[: network.n_visible]
    leak = network.theta[network.leak_param[: network.n_visible]]
    # log p(on) - log p(off) of a finding with the cause, minus the same without the cause.
    total = theta.copy()
    total.data += np.repeat(leak, np.diff(theta.indptr))
    gain = total.copy()
    without = np.repeat(np.log(np.expm1(leak)), np.diff(theta.indptr))
    gain.data = total.data + np.log(-np.expm1(-total.data)) - without
    all_off = np.asarray(theta.sum(axis=0))
    prior = network.prior_probability
    score = np.asarray(ones @ gain + missing @ theta - all_off + np.log(prior / (1.0 - prior)))
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
