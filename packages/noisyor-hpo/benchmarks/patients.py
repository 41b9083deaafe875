"""How well are real patients' diseases ranked, by us, naive Bayes and semantic similarity?

    python benchmarks/patients.py [--data DIR] [--half report] [--json results/patients/report.json]

Published cases with a confirmed disease, scored three ways: as others report; with the case's own
paper taken out of the annotations of its disease; and only cases whose paper is no reference of the
disease. Free settings were chosen on the development half of the papers (by a hash of the PMID),
the report half is for the tables. Large papers have hundreds of patients, so the tables of the
store are of ``--cases`` cases, at most ``--per-paper`` of each paper and disease; ours and naive
Bayes are scored on every case too. Two diseases: the findings of two patients together, own papers
out.

hpo3 (PyPI) reads the same ontology and the same annotations; where it is not installed its rows
are left out.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from _common import Machine, arguments, data_directory, earlier, significant, write
from _patient_scores import (
    Description,
    Inputs,
    Scores,
    Wanted,
    bayes_scores,
    hpo3_scores,
    our_scores,
    together,
)
from _patients import (
    FILES,
    HALVES,
    Case,
    Scorer,
    calibration,
    capped,
    rank_of,
    summary,
    with_own_papers_out,
)

import noisyor_hpo
from noisyor_hpo.posterior import Likelihoods, posterior

SCORINGS = ("as reported", "own paper out", "not cited")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder with the HPO's files and patients/")
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--per-paper", type=int, default=1, help="cases of the store's tables")
    parser.add_argument("--cases", type=int, default=250, help="of the store, in its tables")
    parser.add_argument("--pairs", type=int, default=100, help="of two patients")
    parser.add_argument(
        "--only-calibration", action="store_true", help="measure that anew, keep the rest of --json"
    )
    options = parser.parse_args()
    machine = Machine()
    folder = data_directory(options.data)
    if folder is None:
        raise SystemExit("the folder with the patients is not there; give it with --data")
    wanted = Wanted(folder, options.half, options.per_paper, options.cases, options.pairs)
    if options.only_calibration:
        recalibrate(wanted, options.json)
        return
    with ProcessPoolExecutor(1) as elsewhere:
        rival = elsewhere.submit(hpo3_scores, wanted)  # it takes longest, so it begins first
        ours = Inputs.read(wanted)
        content: dict[str, Any] = {
            "command": f"python benchmarks/patients.py --half {options.half}",
            "half": options.half,
            "per_paper": options.per_paper,
            "cases": len(ours.cases),
            "cases_in_sample": len(ours.sample),
            "papers": len({case.paper for case in ours.cases}),
            "left_out_of_both_halves": ours.found.left_out,
            "annotations": ours.data.version,
            "ontology": ours.ontology.version,
        }
        bayes = bayes_scores(ours)
        print("naive Bayes is done", flush=True)
        content["tables"] = {
            "OMIM only": tables(ours, bayes, ["OMIM"]),
            "all diseases": tables(ours, bayes, None),
        }
        model = noisyor_hpo.build_model(ours.data, ours.ontology)
        content["settings"] = asdict(model.settings)
        content["seconds_per_patient"] = times(model, ours.sample)
        content["machine"] = machine.describe("hpo3")
        write(options.json, content)
        found = rival.result()
    if found is not None:
        for name, databases in (("OMIM only", ["OMIM"]), ("all diseases", None)):
            columns = Columns.of(ours, databases)
            scores = functools.partial(_looked_up, found, columns.of_all)
            entry = content["tables"][name]
            for source in FILES:
                cases = [case for case in ours.sample if case.source == source]
                entry["ranks"] += scored(source, "sample", "hpo3", scores, cases, columns.number)
            entry["two_diseases"] += two_diseases(None, {"hpo3": scores}, ours.pairs, columns)
            print(name, entry["ranks"][-6:], entry["two_diseases"][-1], flush=True)
        content["machine"] = machine.describe("hpo3")
        write(options.json, content)


def recalibrate(wanted: Wanted, path: Path | None) -> None:
    """Measure the calibration again, as settings that change no rank allow."""
    inputs, found = Inputs.read(wanted), {}
    for name, databases in (("OMIM only", ["OMIM"]), ("all diseases", None)):
        model = noisyor_hpo.build_model(inputs.data, inputs.ontology, databases=databases)
        scorer = Scorer(model, inputs.data, inputs.found)
        number = Columns.of(inputs, databases).number
        found[name] = calibrated(scorer, capped(inputs.cases, 3), number)
        print(name, found[name], flush=True)
    content = earlier(path, {"tables": {name: {} for name in found}})
    for name, measured in found.items():
        content["tables"][name]["calibration"] = measured
    content["settings"] = asdict(model.settings)
    write(path, content)


class Columns(NamedTuple):
    """Diseases of some databases: numbers by identifier, and their columns among all scores."""

    number: dict[str, int]
    of_all: np.ndarray

    @staticmethod
    def of(inputs: Inputs, databases: list[str] | None) -> Columns:
        ids = inputs.data.disease_ids
        kept = [
            k
            for k, disease in enumerate(ids)
            if databases is None or disease.partition(":")[0] in databases
        ]
        left = len(ids) + np.arange(len(inputs.found.left))
        number = {ids[k]: place for place, k in enumerate(kept)}
        return Columns(number, np.append(np.array(kept), left))


def tables(
    inputs: Inputs, bayes: dict[Description, np.ndarray], databases: list[str] | None
) -> dict[str, Any]:
    """Everything about our model and naive Bayes over the diseases of some databases."""
    model = noisyor_hpo.build_model(inputs.data, inputs.ontology, databases=databases)
    columns = Columns.of(inputs, databases)
    if tuple(columns.number) != model.disease_ids:
        raise SystemExit("the model left diseases out; scores would be of other columns")
    scorer = Scorer(model, inputs.data, inputs.found)
    methods: dict[str, Scores] = {
        "noisy-OR": our_scores(scorer),
        "naive Bayes": lambda on, off: bayes[on, off][columns.of_all],
        "naive Bayes, absences ignored": lambda on, off: bayes[on, ()][columns.of_all],
    }
    table = []
    for source in FILES:
        of_source = [case for case in inputs.sample if case.source == source]
        for method, scores in methods.items():
            table += scored(source, "sample", method, scores, of_source, columns.number)
    every = [case for case in inputs.cases if case.source == "store"]
    for method in ("noisy-OR", "naive Bayes"):
        table += scored("store", "every case", method, methods[method], every, columns.number)
    found = {
        "diseases": model.n_diseases,
        "edges": len(model.term),
        "ranks": table,
        "calibration": calibrated(scorer, capped(inputs.cases, 3), columns.number),
        "two_diseases": two_diseases(
            scorer, {"naive Bayes": methods["naive Bayes"]}, inputs.pairs, columns
        ),
    }
    for row in [*table, found["calibration"], *found["two_diseases"]]:
        print(databases or "all", row, flush=True)
    return found


def _looked_up(
    found: dict[tuple[str, ...], np.ndarray],
    columns: np.ndarray,
    present: tuple[str, ...],
    absent: tuple[str, ...],
) -> np.ndarray:
    return found[present][columns]


# ---- tables


def scored(
    source: str,
    cases_are: str,
    method: str,
    scores: Scores,
    cases: Sequence[Case],
    number: dict[str, int],
) -> list[dict[str, Any]]:
    """One row of a table for each way of scoring."""
    ranks: dict[str, list[float]] = {scoring: [] for scoring in SCORINGS}
    for case in cases:
        values = scores(case.patient.present, case.patient.absent)
        disease = number[case.disease]
        plain = rank_of(values[: len(number)], disease)
        ranks["as reported"].append(plain)
        if not case.cited:
            ranks["not cited"].append(plain)
        if case.left is not None:
            left = with_own_papers_out(values, len(number), [(disease, case.left)])
            ranks["own paper out"].append(rank_of(left, disease))
    return [
        {
            "cases": source,
            "of": cases_are,
            "scoring": scoring,
            "method": method,
            **summary(ranks[scoring]),
        }
        for scoring in SCORINGS
    ]


def calibrated(
    scorer: Scorer, cases: Sequence[Case], number: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """Stated probabilities of the ten first diseases, and how often they are right."""
    stated: dict[str, list[float]] = {"own paper out": [], "not cited": []}
    right: dict[str, list[bool]] = {"own paper out": [], "not cited": []}
    for case in cases:
        read = scorer.readings(case.patient.present, case.patient.absent)
        log_likelihood = read.log_likelihood(np.ones(len(read.noise)), 0.0)
        disease = number[case.disease]
        for scoring in stated:
            if scoring == "not cited" and case.cited:
                continue
            values = log_likelihood[: len(number)]
            if scoring == "own paper out":
                if case.left is None:
                    continue
                values = with_own_papers_out(log_likelihood, len(number), [(disease, case.left)])
            weight = np.exp(values - values.max())
            doubt = scorer.model.settings.doubt
            probability = (1.0 - doubt) * weight / weight.sum() + doubt / len(values)
            first = np.argsort(-probability, kind="stable")[:10]
            stated[scoring] += probability[first].tolist()
            right[scoring] += (first == disease).tolist()
    return {scoring: calibration(stated[scoring], right[scoring]) for scoring in stated}


def two_diseases(
    scorer: Scorer | None,
    rivals: dict[str, Scores],
    pairs: Sequence[tuple[Case, Case]],
    columns: Columns,
) -> list[dict[str, Any]]:
    """How often both, and how many, of two diseases are among the first ten; own papers out."""
    found: dict[str, list[int]] = {}
    n_diseases = len(columns.number)
    for pair in pairs:
        present = together(*pair)
        replaced = [(columns.number[c.disease], c.left) for c in pair if c.left is not None]
        values = {} if scorer is None else _both_priors(scorer, present, replaced)
        for name, scores in rivals.items():
            values[name] = with_own_papers_out(scores(present, ()), n_diseases, replaced)
        for name, value in values.items():
            first = np.argsort(-value, kind="stable")[:10]
            found.setdefault(name, []).append(sum(int(k) in first for k, _ in replaced))
    return [
        {
            "method": name,
            "n": len(hits),
            "both_in_ten": round(100.0 * float(np.mean(np.array(hits) == 2)), 1),
            "one_or_both_in_ten": round(100.0 * float(np.mean(np.array(hits) > 0)), 1),
        }
        for name, hits in found.items()
    ]


def _both_priors(
    scorer: Scorer, present: tuple[str, ...], replaced: list[tuple[int, int]]
) -> dict[str, np.ndarray]:
    read, n_diseases = scorer.readings(present, ()), scorer.model.n_diseases
    own = Likelihoods(
        with_own_papers_out(read.shown, n_diseases, replaced),
        read.noise,
        read.denied[:, :n_diseases],
        read.weight,
        with_own_papers_out(read.constant, n_diseases, replaced),
    )
    odds = scorer.model.settings.odds
    return {
        "noisy-OR, at least one": posterior(own, "at_least_one", odds).probability,
        "noisy-OR, exactly one": posterior(own, "one", odds).probability,
    }


def times(model: noisyor_hpo.DiseaseModel, cases: Sequence[Case]) -> dict[str, float]:
    """Seconds of a whole ranking, one patient after another."""
    found: dict[str, list[float]] = {"wall": [], "cpu": []}
    for case in cases[:40]:
        began, began_cpu = time.perf_counter(), time.process_time()
        noisyor_hpo.rank_diseases(model, case.patient)
        found["wall"].append(time.perf_counter() - began)
        found["cpu"].append(time.process_time() - began_cpu)
    return {
        "median_wall": significant(median(found["wall"][1:]), 3),
        "median_cpu": significant(median(found["cpu"][1:]), 3),
        "largest_cpu": significant(max(found["cpu"][1:]), 3),
    }


if __name__ == "__main__":
    main()
