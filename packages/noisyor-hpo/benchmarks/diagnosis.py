"""How good are differentials of simulated patients, against naive Bayes and exact inference?

    python benchmarks/diagnosis.py [--data DIR] [--json results/diagnosis.json] [--patients 200]

Patients have one, two or three diseases of the network that is built from the HPO annotations, or
as many as the priors of the network give them, at least one; known are up to five of their findings
and three absences. ``top1``: the first of the ranking is one of the patient's diseases; ``top5``:
at least one of the first five is; ``found5``: share of the patient's diseases among the first five.
Naive Bayes supposes exactly one disease.

Exact inference: sub-networks of a patient's disease, the rivals that share most findings with it
and the known findings, by pyAgrum where it is installed and by our own enumeration.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from _common import Machine, arguments, data_directory, significant, write
from _simulation import Patients, naive_bayes, simulate_patients

import noisyor as nor
import noisyor_hpo
from noisyor import Network, Observations, from_edges
from noisyor_hpo import read_annotations

FloatArray = npt.NDArray[np.float64]

CHAINS = 32
EXACT_PATIENTS = 20
EXACT_DISEASES = 14


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder with hpo_phenotype.hpoa.xz")
    parser.add_argument("--patients", type=int, default=200)
    options = parser.parse_args()
    machine = Machine()
    data = data_directory(options.data)
    began = time.process_time()
    annotations = read_annotations(None if data is None else data / "hpo_phenotype.hpoa.xz")
    read = time.process_time() - began
    network = noisyor_hpo.disease_network(annotations)
    built = time.process_time() - began - read
    print(f"{network}: read in {read:.1f} s, built in {built:.1f} s of CPU time")
    table = []
    for n_diseases in (None, 1, 2, 3):
        patients = simulate_patients(network, options.patients, n_diseases=n_diseases, seed=1)
        began = time.process_time()
        found = nor.marginals(network, patients.rows, n_samples=CHAINS)
        seconds = (time.process_time() - began) / options.patients
        drawn = nor.explain(network, patients.rows, nor.MaxProduct(temperature=1.0, n_samples=64))
        for name, probability in [
            ("noisy-OR, chains", found.probability),
            ("noisy-OR, samples", drawn.marginals().toarray()),
            ("naive Bayes", naive_bayes(network, patients.rows)),
        ]:
            row = {
                "diseases": n_diseases or "by prior",
                "ranking": name,
                **accuracy(patients, probability),
            }
            table.append(row)
            print(row, flush=True)
        error = found.error.max(axis=1)
        table[-3]["median_largest_error"] = significant(median(error), 3)
        table[-3]["cpu_seconds_per_patient"] = significant(seconds, 3)
    times = diagnosis_times(network)
    exact = against_exact(network)
    print(times, exact)
    content = {
        "diseases": network.n_hidden,
        "findings": network.n_visible,
        "edges": network.n_edges,
        "cpu_seconds_to_read": significant(read, 3),
        "cpu_seconds_to_build": significant(built, 3),
        "patients_each": options.patients,
        "table": table,
        "one_diagnosis": times,
        "against_exact": exact,
        "machine": machine.describe("pyagrum"),
    }
    write(options.json, content)


def accuracy(patients: Patients, probability: FloatArray) -> dict[str, float]:
    truth = patients.diseases.toarray().astype(np.bool_)
    order = np.argsort(-probability, axis=1, kind="stable")
    hits = np.take_along_axis(truth, order, axis=1)
    return {
        "top1": significant(float(hits[:, 0].mean()), 3),
        "top5": significant(float(hits[:, :5].any(axis=1).mean()), 3),
        "found5": significant(float(hits[:, :5].sum() / truth.sum()), 3),
    }


def diagnosis_times(network: Network) -> dict[str, float]:
    """CPU and wall time of whole diagnoses, one after another, after a first that compiles."""
    rows = simulate_patients(network, 20, seed=2).rows
    walls, cpus = [], []
    for number in range(rows.n_rows):
        present = rows.columns[rows.ptr[number] : rows.ptr[number + 1]].tolist()
        began, began_cpu = time.perf_counter(), time.process_time()
        noisyor_hpo.diagnose(network, present)
        walls.append(time.perf_counter() - began)
        cpus.append(time.process_time() - began_cpu)
    return {
        "median_wall_seconds": significant(median(walls[1:]), 3),
        "largest_wall_seconds": significant(max(walls[1:]), 3),
        "median_cpu_seconds": significant(median(cpus[1:]), 3),
    }


def against_exact(network: Network) -> dict[str, Any]:
    patients = simulate_patients(network, EXACT_PATIENTS, seed=3)
    ours, enumerated, agrum = [], [], []
    for number in range(EXACT_PATIENTS):
        part, row = sub_network(network, patients, number)
        exact = nor.inference.enumerate_posterior(part, row).marginals[0]
        ours.append(nor.marginals(part, row, "chains", n_samples=CHAINS).probability[0] - exact)
        by_agrum = pyagrum_marginals(part, row)
        if by_agrum is not None:
            agrum.append(np.abs(by_agrum - exact).max())
        enumerated.append(part.n_hidden)
    errors = np.concatenate(ours)
    return {
        "sub_networks": EXACT_PATIENTS,
        "diseases": int(np.median(enumerated)),
        "largest_difference_of_ours": significant(float(np.abs(errors).max()), 3),
        "root_mean_square": significant(float(np.sqrt((errors**2).mean())), 3),
        "largest_difference_pyagrum_enumeration": (
            significant(float(max(agrum)), 3) if agrum else "pyAgrum is not installed"
        ),
    }


def sub_network(network: Network, patients: Patients, number: int) -> tuple[Network, Observations]:
    """The disease, its closest rivals and the known findings of one patient."""
    rows = patients.rows
    ones = rows.columns[rows.ptr[number] : rows.ptr[number + 1]]
    unknown = rows.missing_columns[rows.missing_ptr[number] : rows.missing_ptr[number + 1]]
    known = np.setdiff1d(np.arange(network.n_visible), unknown)
    edges = np.concatenate(
        [np.arange(network.child_ptr[i], network.child_ptr[i + 1]) for i in known]
    )
    shared = np.bincount(network.parent[edges], minlength=network.n_hidden).astype(np.float64)
    shared[patients.diseases[[number]].indices] += len(known)
    diseases = np.argsort(-shared, kind="stable")[:EXACT_DISEASES]
    diseases = diseases[shared[diseases] > 0]
    kept = edges[np.isin(network.parent[edges], diseases)]
    place_of = {int(k): j for j, k in enumerate(diseases)}
    parents = np.array([place_of[int(k)] for k in network.parent[kept]])
    linked, parents = np.unique(parents, return_inverse=True)
    part = from_edges(
        len(known),
        len(linked),
        np.stack([parents, np.searchsorted(known, network.edge_child[kept])], axis=1),
        failure_probability=np.exp(-network.theta[network.param[kept]]),
        prior_probability=network.prior_probability[diseases[linked]],
        noise_probability=network.noise_probability[known],
    )
    return part, Observations.of(np.isin(known, ones)[None].astype(np.uint8))


def pyagrum_marginals(network: Network, row: Observations) -> FloatArray | None:
    """Exact probabilities of the causes by lazy propagation, or None without pyAgrum."""
    try:
        import pyagrum
    except ImportError:
        return None
    model = pyagrum.BayesNet()
    for k, prior in enumerate(network.prior_probability):
        model.add(pyagrum.LabelizedVariable(f"d{k}", "", 2))
        model.cpt(f"d{k}").fillWith([1 - prior, prior])
    for i, noise in enumerate(network.noise_probability):
        model.addNoisyOR(pyagrum.LabelizedVariable(f"f{i}", "", 2), noise)
    works = -np.expm1(-network.theta[network.param])
    for parent, child, weight in zip(network.parent, network.edge_child, works, strict=True):
        model.addWeightedArc(f"d{parent}", f"f{child}", float(weight))
    inference = pyagrum.LazyPropagation(model)
    values = row.to_dense()[0]
    inference.setEvidence({f"f{i}": int(value) for i, value in enumerate(values)})
    inference.makeInference()
    return np.array([inference.posterior(f"d{k}")[1] for k in range(network.n_hidden)])


if __name__ == "__main__":
    main()
