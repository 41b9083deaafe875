"""Texts and classes from the data files, on the page."""

from __future__ import annotations

import csv
import json

import pytest

import noisyor as nor
from noisyor.cli.main import main
from noisyor.errors import InvalidSettingError
from noisyor.report.inputs import read_labels, read_model, rows_for
from noisyor.report.page import write_report


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """A model of two topics, and documents with titles and sections."""
    folder = tmp_path_factory.mktemp("documents")
    words = ["goal", "team", "orbit", "moon"]
    network = nor.from_edges(
        4,
        2,
        [(0, 0), (0, 1), (1, 2), (1, 3)],
        failure_probability=0.2,
        prior_probability=0.4,
        noise_probability=0.02,
        visible_names=words,
    )
    nor.save_network(folder / "m.safetensors", network, metadata={"kind": "topics"})
    records = [
        {"title": f"Match {k}", "section": "sports", "text": f"The team\nscored a GOAL {k} times."}
        for k in range(10)
    ] + [
        {"title": f"Launch {k}", "section": "space", "text": "To the moon, into orbit! " * 40}
        for k in range(10)
    ]
    (folder / "d.jsonl").write_text("\n".join(map(json.dumps, records)))
    return folder


def test_texts_and_classes_of_documents(documents):
    model, data = read_model(documents / "m.safetensors"), documents / "d.jsonl"
    found = rows_for(model, data).excerpts
    assert found[0] == "The team scored a GOAL 0 times."
    assert found[15].endswith(" …")
    assert len(found[15]) < 450
    assert read_labels(model, data, None, "section") == ("sports",) * 10 + ("space",) * 10


def test_the_page_shows_titles_texts_and_classes(documents):
    out = documents / "report.html"
    code = main(
        [
            *("report", str(documents / "m.safetensors"), str(documents / "d.jsonl")),
            *("--id-column", "title", "--labels", "section", "--out", str(out), "--quiet"),
        ]
    )
    assert code == 0
    page = out.read_text("utf-8")
    assert "Match 0" in page
    assert "scored a GOAL" in page
    assert 'id="labels"' in page
    assert "Topics by section" in page


def test_classes_of_a_table_that_were_dropped_in_training(tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["kind", "a", "b"])
        write.writerows([["x", 1, 0]] * 8 + [["y", 0, 1]] * 8)
    network = nor.bipartite(
        2, 2, failure_probability=[[0.1, 1], [1, 0.1]], visible_names=["a", "b"]
    )
    nor.save_network(tmp_path / "m.safetensors", network, metadata={"reading": {"drop": ["kind"]}})
    model = read_model(tmp_path / "m.safetensors")
    assert read_labels(model, tmp_path / "t.csv", None, "kind") == ("x",) * 8 + ("y",) * 8
    assert rows_for(model, tmp_path / "t.csv").excerpts is None


def test_labels_without_data(documents):
    with pytest.raises(InvalidSettingError, match="there are no data"):
        write_report(documents / "m.safetensors", out=documents / "x.html", labels="section")


def test_an_unknown_label_is_one_line(documents, capsys):
    code = main(
        [
            *("report", str(documents / "m.safetensors"), str(documents / "d.jsonl")),
            *("--labels", "colour", "--out", str(documents / "y.html")),
        ]
    )
    assert code == 2
    assert "no field 'colour'" in capsys.readouterr().err
