"""Simulated patients, and the usual method to compare a diagnosis with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.model.forward import edge_matrix
from noisyor.model.graph import Network

__all__ = ["Patients", "naive_bayes", "simulate_patients"]


class Patients(NamedTuple):
    """Simulated patients: what is known of them, and their diseases, sparse (n, n_hidden).

    Examples
    --------
    >>> import noisyor as nor
    >>> rows, diseases = nor.diagnosis.simulate_patients(nor.bipartite(4, 2), 3)
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
    """Patients whose findings follow the model, of which a handful is known.

    Patient i depends on (seed, i) alone.

    Parameters
    ----------
    network : of one layer of diseases, see `disease_network`.
    n_patients : number of patients; each has at least one finding.
    n_diseases : different diseases of each, drawn in proportion to their priors; None draws every
        disease by itself until there is at least one.
    n_present : known findings at most, drawn from those present.
    n_absent : known absent findings at most, drawn from those that another disease with one of the
        known findings may show: the questions a physician would ask.
    seed : key of the draws.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(4, 2, failure_probability=0.2)
    >>> patients = nor.diagnosis.simulate_patients(network, 3, n_present=1)
    >>> patients.rows.n_rows, patients.diseases.sum(axis=1).tolist()
    (3, [1, 1, 1])
    """
    if np.diff(network.child_ptr)[network.n_visible :].any():
        raise InvalidSettingError("patients are simulated from networks of one layer of causes")
    if network.sets:
        raise InvalidSettingError(
            "patients are simulated from networks of independent causes, not from sets of "
            "alternatives"
        )
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
    """Probability of each cause if exactly one is on, (n_rows, n_hidden): the usual comparison.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 2, failure_probability=[[0.1, 0.9], [0.9, 0.1]])
    >>> row = nor.Observations.from_evidence(2, present=[0], absent=[1])
    >>> nor.diagnosis.naive_bayes(network, row).round(2).tolist()
    [[0.99, 0.01]]
    """
    ones, missing = rows.to_csr().astype(np.float64), rows.missing_csr().astype(np.float64)
    theta = edge_matrix(network)[: network.n_visible]
    leak = network.theta[network.leak_param[: network.n_visible]]
    # log p(on) - log p(off) of a finding: with the cause, on top of what it is without.
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
