"""`noisyor impute` writes the table with nothing missing, and `explain` names likely columns."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas
import pytest

import noisyor as nor
from noisyor.cli.main import main

COLUMNS = ["fever", "cough", "rash", "itch"]


@pytest.fixture
def files(tmp_path):
    network = nor.bipartite(
        4,
        2,
        failure_probability=[[0.1, 0.1, 1.0, 1.0], [1.0, 1.0, 0.1, 0.1]],
        prior_probability=0.3,
        noise_probability=0.01,
        visible_names=COLUMNS,
    )
    model, data = tmp_path / "model.safetensors", tmp_path / "data.csv"
    nor.save_network(model, network, metadata={"reading": {"id_column": "patient"}})
    data.write_text("patient,fever,cough,rash,itch\na,1,,0,0\nb,,0,,1\nc,1,1,0,0\n")
    return model, data, network


def test_csv_keeps_names_and_what_is_observed(files, tmp_path, capsys):
    model, data, _ = files
    out = tmp_path / "filled.csv"
    assert main(["impute", str(model), str(data), "--out", str(out)]) == 0
    assert "3 rows, 3 entries filled in" in capsys.readouterr().out
    rows = list(csv.reader(out.read_text().splitlines()))
    assert rows[0] == ["patient", *COLUMNS]
    assert rows[1:] == [
        ["a", "1", "1", "0", "0"],
        ["b", "0", "0", "1", "1"],
        ["c", "1", "1", "0", "0"],
    ]


def test_probabilities_are_those_of_the_network(files, tmp_path, capsys):
    model, data, network = files
    out = tmp_path / "chances.csv"
    given = ["impute", str(model), str(data), "--out", str(out), "--probabilities", "--json"]
    assert main(given) == 0
    assert json.loads(capsys.readouterr().out)["filled"] == 3
    table = pandas.read_csv(out)
    assert table["patient"].tolist() == ["a", "b", "c"]
    found = table[COLUMNS].to_numpy()
    rows = np.array([[1, np.nan, 0, 0], [np.nan, 0, np.nan, 1], [1, 1, 0, 0]])
    expected = nor.inference.predict_visible(network, rows, observed="kept").probability
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("name", "message"), [("data.csv", "also the input"), ("x.txt", ".csv")])
def test_places_that_cannot_be_written(files, tmp_path, capsys, name, message):
    model, data, _ = files
    assert main(["impute", str(model), str(data), "--out", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err


def test_nothing_is_replaced_unasked(files, tmp_path, capsys):
    model, data, _ = files
    out = tmp_path / "filled.csv"
    out.write_text("mine")
    assert main(["impute", str(model), str(data), "--out", str(out)]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["impute", str(model), str(data), "--out", str(out), "--force", "--quiet"]) == 0
    assert out.read_text() != "mine"


def test_explain_names_the_likeliest_of_what_is_unknown(files, capsys):
    model, _, network = files
    assert main(["explain", str(model), "--observe", "fever", "--top", "2", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    fever = np.array([[1, np.nan, np.nan, np.nan]])
    expected = nor.inference.predict_visible(network, fever).probability[0]
    assert row["likeliest_unknown"] == [
        {"name": "cough", "probability": pytest.approx(expected[1])},
        {"name": "rash", "probability": pytest.approx(expected[2])},
    ]
