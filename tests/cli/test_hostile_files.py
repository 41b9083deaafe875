"""Model files that are well formed and mean harm, or nothing: one line, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import noisyor as nor
from noisyor.cli.main import main
from noisyor.errors import ModelFileError
from noisyor.model.names import hidden_names

ROWS = "a,b,c,d\n" + 30 * "1,1,0,0\n0,0,1,1\n"
# One for each place that once ended in a traceback.
METADATA = [
    {"data": {"rows": "many", "columns": None}},
    {"data": [1, 2], "metrics": [3], "versions": "x", "created": "today"},
    {"metrics": {"elbo": "high", "other": 10**400}},
    {"kind": ["factors"], "settings": "none", "curve": 5},
    {"settings": {"seed": "x"}},
    {"settings": {"seed": 0.5, "held_out": "half"}},
    {"settings": {"held_out": [0.1]}},
    {"settings": {"steps": {}, "batch_size": -1}},
    {"settings": {"method": {"method": "max-product", "temperature": "hot"}}},
    {"settings": {"method": {"method": "max-product", "colour": 1}}},
    {"settings": {"method": {"method": ["mean-field"]}}},
    {"settings": {"learning_rate": "fast", "final_learning_rate": {}}},
    {"reading": {"id_column": 5}},
    {"reading": {"drop": "abc", "header": "yes"}},
    {"reading": {"above": "much", "vocabulary": 1.5}},
    {"reading": {"encoding": None, "text_field": 3}},
    {"data": {"source": "a\0b"}},
    {"data": {"source": 7}},
    {"curve": {"step": [1], "elbo": [[1]], "held_out_step": ["x"], "held_out_elbo": [None]}},
    {"estimator": {"params": {"n_components": "x", "steps": [], "options": 5}}},
    {"named": "\ud800", "source": "\ud800"},
]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(ROWS)


def refused_or_done(capsys, *arguments: str) -> int:
    code = main([*arguments])
    errors = [line for line in capsys.readouterr().err.splitlines() if "note:" not in line]
    assert code in (0, 1, 2)
    assert len(errors) == (code == 2)
    return code


@pytest.mark.parametrize("metadata", METADATA, ids=lambda it: json.dumps(it)[:40])
def test_metadata_of_any_kind(capsys, metadata):
    network = nor.bipartite(4, 2, visible_names=list("abcd"), failure_probability=0.3)
    nor.save_network("m", network, metadata=metadata)
    refused_or_done(capsys, "info", "m")
    refused_or_done(capsys, "info", "m", "--json")
    refused_or_done(capsys, "evaluate", "m", "rows.csv", "--quick")
    refused_or_done(capsys, "report", "m", "--out", "r.html", "--quiet")
    nor.save_network("m", network, metadata={"kind": "factors", **metadata})
    try:
        model = nor.BooleanMatrixFactorization.load("m")
    except nor.errors.NoisyOrError:
        return
    assert model.transform(nor.Observations.of(np.eye(4))).shape == (4, 2)


def test_a_saved_estimator_does_not_say_where_to_write(tmp_path):
    X = np.repeat(np.eye(4), 5, axis=0)
    Path("precious.txt").write_text("mine")
    params = {
        "checkpoint": "precious.txt",
        "options": {"checkpoint": "precious.txt", "resume": False, "smoothing": 0.5},
        "steps": 2,
    }
    metadata = {"kind": "factors", "estimator": {"params": params}}
    nor.save_network("m", nor.bipartite(4, 2), metadata=metadata)
    model = nor.BooleanMatrixFactorization.load("m")
    assert model.checkpoint is None
    assert model.options == {"smoothing": 0.5}
    model.fit(X)
    assert Path("precious.txt").read_text() == "mine"


def test_parameters_that_make_no_sense_are_refused_when_read():
    metadata = {"kind": "factors", "estimator": {"params": {"steps": "many"}}}
    nor.save_network("m", nor.bipartite(4, 2), metadata=metadata)
    with pytest.raises(ModelFileError, match=r"invalid parameters: steps must be"):
        nor.BooleanMatrixFactorization.load("m")


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "a\0b"],
        ["fit", "rows.csv", "--out", "a\0b"],
        ["fit", "rows.csv", "--components", "9" * 5000],
        ["fit", "rows.csv", "--feature-shape", "2," + "9" * 5000],
        ["explain", "m", "rows.csv", "--rows", "9" * 5000],
    ],
    ids=lambda arguments: arguments[0] + arguments[-1][:3],
)
def test_names_and_numbers_that_no_system_takes(capsys, arguments):
    assert refused_or_done(capsys, *arguments) == 2


def test_half_a_surrogate_pair_in_a_report(capsys):
    names = ["a\ud800", "b", "c", "d"]
    nor.save_network("m", nor.bipartite(4, 2, visible_names=names, failure_probability=0.1))
    assert refused_or_done(capsys, "report", "m", "--out", "r.html", "--quiet") == 0
    assert "a?" in Path("r.html").read_text("utf-8")


class TestLongNames:
    def test_more_than_a_model_file_holds(self, capsys, monkeypatch):
        monkeypatch.setattr("noisyor.io.model_file._MAX_NAMES", 1000)
        names = ",".join(f"{letter}{'x' * 400}" for letter in "abcd")
        Path("rows.csv").write_text(ROWS.replace("a,b,c,d", names))
        monkeypatch.setattr("noisyor.estimators.base.NoisyOrEstimator.fit", None)  # not reached
        assert refused_or_done(capsys, "fit", "rows.csv", "--components", "2", "--out", "m") == 2
        assert sorted(path.name for path in Path().iterdir()) == ["rows.csv"]

    def test_causes_have_short_names(self):
        network = nor.bipartite(
            2, 1, failure_probability=0.1, visible_names=["a" * 10**6, "b" * 10**6]
        )
        assert len(hidden_names(network, "factors")[0]) < 300


def test_names_do_not_steer_the_terminal(capsys):
    names = ["\x1b]0;title\x07a", "b\x9b31m", "c\x08\x08", "d\u202e"]
    network = nor.bipartite(4, 2, visible_names=names, hidden_names=["\x1b[2J", "e"])
    nor.save_network("m", network, metadata={"data": {"source": "\x1b[A"}, "kind": "factors"})
    np.save("rows.npy", np.eye(4))
    for line in (
        ["info", "m"],
        ["explain", "m", "rows.npy"],
        ["explain", "m", "--observe", "\x1b[1mx"],
        ["evaluate", "m", "rows.npy"],
        ["report", "m", "rows.npy"],
    ):
        main(line)
        printed = capsys.readouterr()
        assert (printed.out + printed.err).replace("\n", "").replace("\t", "").isprintable()
