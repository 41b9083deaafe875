"""The runner of PhEval, run and scored by PhEval itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from noisyor.errors import NoisyOrError
from rare_diseases import DISEASES, PATIENT, write_annotations, write_ontology, write_patient

pytest.importorskip("pheval", reason='pheval is not installed: pip install "noisyor-hpo[pheval]"')
if not entry_points(group="pheval.plugins", name="noisyor"):
    pytest.skip("noisyor-hpo is not installed", allow_module_level=True)

CONFIG = {
    "tool": "noisyor",
    "tool_version": "1",
    "variant_analysis": False,
    "gene_analysis": False,
    "disease_analysis": True,
    "tool_specific_configuration_options": {"annotations": "small.hpoa", "ontology": "small.obo"},
}
FLU = [{"type": {"id": "HP:0000012"}}, {"type": {"id": "HP:0000020"}}]


def solved(disease: str) -> list[dict]:
    named = {"id": disease, "label": DISEASES[disease][0]}
    return [{"id": "x", "progressStatus": "SOLVED", "diagnosis": {"disease": named}}]


@pytest.fixture
def folder(tmp_path):
    """An input folder and a corpus as PhEval wants them."""
    for name in ("input", "corpus/phenopackets", "output"):
        (tmp_path / name).mkdir(parents=True)
    write_ontology(tmp_path / "input" / "small.obo")
    write_annotations(tmp_path / "input" / "small.hpoa")
    corpus = tmp_path / "corpus" / "phenopackets"
    write_patient(corpus / "anna.json")
    write_patient(corpus / "ben.json", phenotypicFeatures=FLU, interpretations=solved("OMIM:1"))
    # Nothing is known of her, so her disease is missed.
    write_patient(corpus / "cleo.json", phenotypicFeatures=[], interpretations=solved("OMIM:2"))
    return tmp_path


def configure(folder, **config):
    (folder / "input" / "config.yaml").write_text(json.dumps({**CONFIG, **config}))


def pheval(folder, command, *arguments):
    code = f"from pheval.cli import {command}; {command}()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
    )


def test_pheval_runs_and_scores_it(folder):
    configure(folder)
    arguments = ["-i", "input", "-t", "corpus", "-r", "noisyor", "-o", "output", "-v", "1"]
    done = pheval(folder, "pheval", "run", *arguments)
    assert done.returncode == 0, done.stderr
    import polars

    ranks = {}
    for name in ("anna", "ben", "cleo"):
        table = polars.read_parquet(
            folder / "output" / "pheval_disease_results" / f"{name}-disease_result.parquet"
        )
        ranks[name] = table.filter(polars.col("true_positive"))["rank"].to_list()
    assert ranks == {"anna": [1], "ben": [1], "cleo": [0]}
    assert "cleo.json: no terms" in done.stderr + done.stdout
    raw = json.loads((folder / "output" / "raw_results" / "anna.json").read_text())
    assert raw[0]["id"] == PATIENT["interpretations"][0]["diagnosis"]["disease"]["id"]

    runs = {
        "benchmark_name": "small",
        "runs": [
            {
                "run_identifier": "noisyor",
                "results_dir": str(folder / "output"),
                "phenopacket_dir": str(folder / "corpus" / "phenopackets"),
                "gene_analysis": False,
                "variant_analysis": False,
                "disease_analysis": True,
                "threshold": None,
                "score_order": "descending",
            }
        ],
        "plot_customisation": {
            f"{kind}_plots": {
                "plot_type": "bar_cumulative",
                "rank_plot_title": None,
                "roc_curve_title": None,
                "precision_recall_title": None,
            }
            for kind in ("gene", "disease", "variant")
        },
    }
    (folder / "runs.yaml").write_text(json.dumps(runs))
    done = pheval(folder, "pheval_utils", "benchmark", "-r", "runs.yaml", "--no-curves")
    assert done.returncode == 0, done.stderr
    import duckdb

    with duckdb.connect(folder / "small.duckdb", read_only=True) as scores:
        counted = scores.execute("select top1, found, total from small_disease_summary")
        assert counted.fetchall() == [(2, 2, 3)]


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"gene_analysis": True}, "noisyor ranks diseases"),
        ({"tool_specific_configuration_options": {"tops": 3}}, "top, got"),
        (
            {"tool_specific_configuration_options": {"annotations": "nowhere.hpoa"}},
            "nowhere.hpoa does not exist",
        ),
    ],
)
def test_wrong_configurations(folder, config, fault):
    from noisyor_hpo.pheval import NoisyOrImplementation

    configure(folder, **config)
    places = (folder / "input", folder / "corpus", None, folder / "output", None, "1")
    with pytest.raises(NoisyOrError, match=fault):
        NoisyOrImplementation(*places).prepare()
