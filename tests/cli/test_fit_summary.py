"""What `noisyor fit` prints: the numbers of causes that were compared, with their errors."""

import json

import numpy as np

import noisyor as nor
from noisyor.cli.fit import _curve_lines
from noisyor.cli.main import main

CURVE = {
    "chosen": 2,
    "n_components": [1, 2],
    "log_p": [-9.0, -7.0],
    "standard_error": [0.1, 0.2],
    "n_rows": 400,
}


def test_sizes_that_were_compared():
    first, one, two = _curve_lines({"n_components_curve": CURVE})
    assert "400 validation rows" in first
    assert "-9.000 ± 0.100" in one
    assert two.endswith("-7.000 ± 0.200 <")
    assert _curve_lines({}) == []


def test_unused_causes_are_counted_and_not_listed(tmp_path, capsys):
    rows = np.kron(np.eye(3)[np.random.default_rng(0).integers(3, size=90)], np.ones(4))
    np.save(tmp_path / "rows.npy", rows.astype(np.uint8))
    out = str(tmp_path / "model.safetensors")
    assert main(["fit", str(tmp_path / "rows.npy"), "--components", "5", "--out", out]) == 0
    text = capsys.readouterr().out
    assert "5 causes in 1 layer, 2 of them unused" in text
    assert text.split("likely causes")[1].count("\n  0.") == 3
    model = nor.BooleanMatrixFactorization.load(out)
    assert (model.n_components, model.settings_["n_unused"]) == (5, 2)


def test_resamples_tell_which_causes_recur(tmp_path, capsys):
    rows = np.kron(np.eye(3)[np.random.default_rng(0).integers(3, size=90)], np.ones(4))
    np.save(tmp_path / "rows.npy", rows.astype(np.uint8))
    data, out = str(tmp_path / "rows.npy"), str(tmp_path / "model.safetensors")
    assert main(["fit", data, "--components", "4", "--resamples", "2", "--out", out]) == 0
    text = capsys.readouterr().out
    assert "3 of 4 causes, in most of 2 resamples" in text
    record = nor.BooleanMatrixFactorization.load(out).provenance_["stability"]
    assert sorted(record["recurrence"]) == [0.0, 1.0, 1.0, 1.0]
    assert main(["fit", data, "--kind", "topics", "--resamples", "2"]) == 2


def test_resamples_of_layers_are_refused_before_the_fit(tmp_path, capsys):
    data = tmp_path / "mails.txt"
    data.write_text("cats dogs\nbirds fish\nmice cats\nfish rats\n" * 10)
    assert main(["fit", str(data), "--resamples", "2"]) == 2
    assert "--topics" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mails.txt"]


def test_odd_rows_are_listed(tmp_path, capsys):
    failure = [[0.1, 0.1, 1, 1], [1, 1, 0.1, 0.1]]
    network = nor.bipartite(4, 2, failure_probability=failure, prior_probability=0.3)
    model, data = str(tmp_path / "model.safetensors"), str(tmp_path / "rows.npy")
    nor.save_network(model, network)
    np.save(data, np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]], np.uint8))
    assert main(["explain", model, data, "--odd", "1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("row 1: log p -4.80")
    assert "0.047  column 2 present" in text
    assert main(["explain", model, data, "--odd", "2", "--json"]) == 0
    assert [odd["row"] for odd in json.loads(capsys.readouterr().out)["odd"]] == [1, 0]
    assert main(["explain", model, data, "--odd", "2", "--rows", "0"]) == 2
    assert main(["explain", model, "--observe", "0", "--odd", "2"]) == 2


def test_columns_that_are_never_1_are_named(tmp_path, capsys):
    table = "a,b,c,d\n" + "1,1,0,0\n0,1,0,1\n" * 5
    (tmp_path / "table.csv").write_text(table)
    out = str(tmp_path / "model.safetensors")
    assert main(["fit", str(tmp_path / "table.csv"), "--components", "1", "--out", out]) == 0
    assert "never 1: c\n" in capsys.readouterr().out


def test_the_model_of_the_present_folder_has_its_name(tmp_path, monkeypatch):
    folder = tmp_path / "mails"
    folder.mkdir()
    for number, text in enumerate(["cats dogs", "birds fish", "mice cats", "fish rats"] * 5):
        (folder / f"{number}.txt").write_text(text)
    monkeypatch.chdir(folder)
    assert main(["fit", ".", "--topics", "2", "--steps", "1", "--quiet"]) in (0, 1)
    assert (folder / "mails.safetensors").exists()
