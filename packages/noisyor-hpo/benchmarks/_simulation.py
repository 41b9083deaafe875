"""Patients simulated from a two-layer network of diseases, and naive Bayes as a baseline."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor import Network, Observations
from noisyor.errors import InvalidSettingError
from noisyor.model.forward import edge_matrix

FloatArray = npt.NDArray[np.float64]


class Patients(NamedTuple):
    """Simulated patients: their known findings, and their diseases as sparse (n, n_hidden)."""

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
    """Return the (n_rows, n_hidden) probability of each cause if exactly one is on: a baseline."""
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
