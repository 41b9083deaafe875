"""Typical mistakes on the command line and in Python: each ends in one clear line.

The second entry of every case is a fact that the line must hold: a name, a number or a remedy.
"""

from __future__ import annotations

import warnings
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest

import noisyor as nor
from noisyor.cli.main import main

COLUMNS = list("abcdefghi")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files as people have them, right and wrong, and a model of the good table."""
    folder = tmp_path_factory.mktemp("mistakes")
    X = rows()
    good = pd.DataFrame(X, columns=COLUMNS)
    labels = good.assign(name=[f"r{k}" for k in range(60)], kind=["x", "y", "z"] * 20)
    texts = {
        "good.csv": good.to_csv(index=False),
        "narrow.csv": good[COLUMNS[:5]].to_csv(index=False),
        "other.csv": good.set_axis([f"{c}_new" for c in COLUMNS], axis=1).to_csv(index=False),
        "counts.csv": (good * 3).to_csv(index=False),
        "labels.csv": labels.to_csv(index=False),
        "words.csv": "a,b\n" + "rep,y\ndem,n\n" * 4,
        "empty.csv": "",
        "header.csv": "a,b\n",
        "ragged.csv": "a,b\n1,0\n1,0,1\n",
        "blank.csv": "a,b\n,\n,\n",
        "data.xyz": "a,b\n1,0\n",
        "fake.safetensors": "hello",
        "zeros.csv": (good * 0).to_csv(index=False),
        "signs.csv": good.replace(0, -1).to_csv(index=False),
        "colors.csv": good.replace({0: "red", 1: "blue"}).to_csv(index=False),
        "typo.csv": "a,b\n1,0\n0,1\n" + "1,oops\n" + "1,0\n0,1\n" * 5,
        "ja.csv": "a,b\n" + "ja,nein\nnein,ja\n" * 4,
        "dash.csv": good.astype(object).mask(rng.random(good.shape) < 0.2, "-").to_csv(index=False),
        "answers.csv": (good * 3 + 1).to_csv(index=False),
        "normal.csv": (good + rng.normal(size=good.shape)).to_csv(index=False),
        "spaces.csv": good.to_csv(index=False, sep=" "),
        "semicolons.tsv": good.to_csv(index=False, sep=";"),
        "lists.txt": "white bread,butter\nbeer,crisps\nbeer\n",
        "four.txt": "bread butter\nbeer crisps\n" * 2 + "beer nuts\n",
        "open.csv": 'a,b\n"1,0\n1,0\n',
        "texts.csv": "text\n" + "a cat and a dog\nthe i of a b\n" * 5,
        "records.json": good.to_json(orient="records"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("é,b\n1,0\n".encode("latin-1"))
    np.save(folder / "vector.npy", X[:, 0])
    np.save(folder / "normal.npy", -rng.random(X.shape))
    for name, member in {"archive.zip": "good.csv", "table.ods": "content.xml"}.items():
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, "a,b")
    model = folder / "m.safetensors"
    arguments = [str(folder / "good.csv"), "--components", "3", "--steps", "5", "--quiet"]
    assert main(["fit", *arguments, "--out", str(model)]) == 0
    return folder


def rows():
    states = np.random.default_rng(0).integers(0, 2, (60, 3))
    return (states @ np.kron(np.eye(3, dtype=int), np.ones((1, 3), dtype=int)) > 0).astype(int)


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("fti good.csv", "'fit'"),
        ("explian m.safetensors", "'explain'"),
        ("fit", "DATA"),
        ("fit absent.csv", "absent.csv does not exist"),
        ("fit good.csv --componets 3", "--components"),
        ("fit good.csv --components three", "'three'"),
        ("fit good.csv --components 0", "'0'"),
        ("fit good.csv --seed abc", "got 'abc'"),
        ("fit good.csv --above much", "got 'much'"),
        ("fit good.csv --held-out 1.5", "1.5"),
        ("fit good.csv --truth yes", "'yes'"),
        ("fit good.csv --out m.safetensors", "--force"),
        ("fit good.csv --out absent/m.safetensors", "absent"),
        ("fit good.csv --out good.csv --force", "input"),
        ("fit good.csv --drop zebra", "'zebra'"),
        ("fit good.csv --id-column zebra", "'zebra'"),
        ("fit good.csv --kind features --components 2 --feature-shape 2,2", "9 columns"),
        ("fit good.csv --layers 3 --components 4", "--layers"),
        ("fit good.csv --topics 3 --components 3", "--topics"),
        ("fit counts.csv", "--above 0"),
        ("fit labels.csv", "--drop name,kind"),
        ("fit words.csv", "--truth rep,y/dem,n"),
        ("fit empty.csv", "empty"),
        ("fit header.csv", "no rows"),
        ("fit ragged.csv", "line 3"),
        ("fit blank.csv", "every entry is missing"),
        ("fit latin.csv", "--encoding latin-1"),
        ("fit data.xyz", "--format csv"),
        ("fit m.safetensors", "m.safetensors is a model"),
        ("explain good.csv m.safetensors", "MODEL comes before DATA"),
        ("explain m.safetensors", "--observe"),
        ("explain m.safetensors good.csv --rows 100-200", "rows 0 to 59"),
        ("explain m.safetensors --observe zebra", "'zebra'"),
        ("explain m.safetensors other.csv", "'a_new'"),
        ("explain m.safetensors narrow.csv", "lacks 4 of the 9 columns"),
        ("info fake.safetensors", "not a model file"),
        ("train good.csv", "fit"),
        ("fit good.csv --method mean-field", "--help"),
        ("fit zeros.csv", "no entry is 1"),
        ("fit good.csv --above 5", "no entry is 1"),
        ("fit signs.csv", "--truth 1/-1"),
        ("fit colors.csv", "--truth blue/red"),
        ("fit colors.csv", "--truth red/blue"),
        ("fit colors.csv --truth blue/green", "--truth blue/red"),
        ("fit typo.csv", "correct 'oops'"),
        ("fit ja.csv", "--truth ja/nein"),
        ("fit dash.csv", "--truth 1/0/-"),
        ("fit ja.csv --truth y/n", "expected 'y', 'n' or missing, got"),
        ("fit answers.csv", "--above 2.5"),
        ("fit normal.csv", "--above"),
        ("fit vector.npy", "(60,)"),
        ("fit normal.npy", "--above 0"),
        ("fit archive.zip", "unpack"),
        ("fit table.ods", "CSV"),
        ("fit spaces.csv", "one of , ; | or a tab"),
        ("fit semicolons.tsv", "one of , ; | or a tab"),
        ("fit ragged.csv", "quoted"),
        ("fit four.txt", "--layers is at most 2"),
        ("fit lists.txt", "--format baskets"),
        ("fit good.csv --components 1000", "--components is 1,000"),
        ("fit open.csv", "quotation mark"),
        ("fit records.json", "CSV"),
        ("fit good.csv --transpose", "transpose"),
        ("fit good.csv --no-header", "--header"),
        ("fit good.csv --out causes.csv", ".safetensors"),
        ("explain good.csv", "not a model file"),
        ("explain m.safetensors m.safetensors", "m.safetensors is a model"),
        ("explain m.safetensors texts.csv", "documents"),
        ("evaluate m.safetensors texts.csv", "documents"),
        ("report m.safetensors texts.csv", "documents"),
        ("explain m.safetensors good.csv --drop a", "'a' is a column of the model"),
        ("report m.safetensors good.csv --labels a", "'a' is a column of the model"),
        ("report m.safetensors good.csv --labels zebra", "'zebra'"),
        ("impute m.safetensors good.csv", "'--out'"),
    ],
)
def test_mistakes_on_the_command_line(folder, monkeypatch, capsys, command, fact):
    monkeypatch.chdir(folder)
    assert main(command.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("noisyor: error: ")
    assert printed.err.count("\n") == 1
    assert fact in printed.err


X = rows()
BMF = nor.BooleanMatrixFactorization
rng = np.random.default_rng(1)
FRAME = pd.DataFrame(X, columns=COLUMNS)
WITH_LABELS = FRAME.assign(name=[f"r{k}" for k in range(60)], kind=["x", "y"] * 30)


@pytest.fixture(scope="module")
def model():
    return BMF(3, steps=5, n_jobs=1).fit(FRAME)


@pytest.mark.parametrize(
    ("mistake", "fact"),
    [
        (lambda m: BMF(3).fit("good.csv"), "read_table"),
        (lambda m: BMF(3).fit(None), "NoneType"),
        (lambda m: BMF(3).fit(X[0]), "1D array"),
        (lambda m: BMF(3).fit(X.reshape(20, 3, 9)), "dim 3"),
        (lambda m: BMF(3).fit(X[:0]), "0 sample"),
        (lambda m: BMF(3).fit(X * 3), "X > 0"),
        (lambda m: BMF(3).fit(-X), "-1 is missing"),
        (lambda m: BMF(3).fit(np.where(X, np.inf, 0)), "infinity"),
        (lambda m: BMF(3).fit(X.astype(str)), "X == '1'"),
        (lambda m: BMF(3).fit(np.full((5, 4), np.nan)), "every entry of X is missing"),
        (lambda m: BMF(3).fit(WITH_LABELS), "['name', 'kind']"),
        (lambda m: BMF(3).fit([[1, 0], [0]]), "different lengths"),
        (lambda m: BMF(3).fit(["a text", "another"]), "vectorize"),
        (lambda m: BMF(3).fit({"a": [0, 1]}), "dict"),
        (lambda m: BMF(3).fit(row for row in X), "generator"),
        (lambda m: BMF(3).fit(pl.from_pandas(FRAME).lazy()), "collect()"),
        (lambda m: BMF(3).fit(FRAME.assign(d=pd.Timestamp(0))), "columns=['d']"),
        (lambda m: BMF(3).fit(X + 0.5 * rng.normal(size=X.shape)), "threshold"),
        (lambda m: nor.marginals(m, X, engine="cuda"), "'cuda'"),
        (lambda m: nor.inference.predict_visible(m, X, engine="cuda"), "'cuda'"),
        (lambda m: nor.inference.log_probability(m, X, engine="cuda"), "'cuda'"),
        (lambda m: nor.explanation.next_question(m, ["a"]), "named_evidence"),
        (lambda m: BMF("3").fit(X), "n_components must be 1, 2, … or 'auto', got '3'"),
        (lambda m: BMF(2.5).fit(X), "2.5"),
        (lambda m: BMF(X).fit(X), "n_components must be"),
        (lambda m: BMF(3).fit(FRAME.astype("category")), "X['a'] == 1"),
        (lambda m: BMF(3).fit(FRAME.astype(object).replace({"e": {0: "no"}})), "['e']"),
        (lambda m: BMF(3).fit(X * 0), "no entry of X is 1"),
        (lambda m: BMF(3).fit(np.where(X, 1.0, np.nan)), "1 or missing"),
        (lambda m: BMF(3, steps=1, learning_rate=lambda: 0.1).fit(X), "a function of the step"),
        (lambda m: nor.learn_features(X.reshape(60, 3, 3), 2, 2), "feature_shape"),
        (lambda m: nor.learn_topics(["a text", "another"]), "vectorize"),
        (lambda m: nor.read_table("t.csv", sep=";"), "format, header"),
        (lambda m: nor.learn_network(X, m), "expected a network"),
        (lambda m: nor.learning.learn_by_gibbs(X, m), "expected a network"),
        (lambda m: nor.learn_topics(X, n_components="two"), "n_components must be"),
        (lambda m: nor.convolutional(4, 2, (2, 2)), "(height, width)"),
        (lambda m: nor.explanation.named_evidence(m, {"a": 0}), "a list of names"),
        (lambda m: nor.learning.train_phases(m.network_, X, [("a", 2)]), "Phase(name"),
        (lambda m: BMF(3, objective="mld").fit(X), "'mdl'"),
        (lambda m: BMF(3, method="mean-field").fit(X), "MaxProduct()"),
        (lambda m: BMF(3, time_limit="1m").fit(X), "'1m'"),
        (lambda m: BMF(3, resume=True).fit(X), "checkpoint"),
        (lambda m: BMF(3).transform(X), "call fit first"),
        (lambda m: BMF(3).save("m.safetensors"), "call fit first"),
        (lambda m: BMF(1, steps=2).fit(X).transform(X[:, :4]), "expecting 9"),
        (lambda m: m.transform(FRAME[COLUMNS[::-1]]), "same order"),
        (lambda m: m.inverse_transform(X), "9 causes"),
        (lambda m: m.fit(X, sample_weight=np.ones(3)), "(60,)"),
        (lambda m: nor.train(m, X, "mean-field"), "MeanField()"),
        (lambda m: nor.train(m, X, nor.MaxProduct), "the class MaxProduct"),
        (lambda m: nor.train(X, m), "expected a network or a fitted estimator"),
        (lambda m: nor.train(m, X, setps=3), "'steps'"),
        (lambda m: nor.train(m, X, steps="100"), "'100'"),
        (lambda m: nor.explain(X, m), "expected a network or a fitted estimator"),
        (lambda m: nor.explain(BMF(3), X), "call fit first"),
        (lambda m: nor.explain(m, X[:, :3]), "3 columns, expected 9"),
        (lambda m: nor.explain(m, FRAME.rename(columns={"c": "z"})), "'c'"),
        (lambda m: nor.train(m, FRAME.rename(columns={"c": "z"}), steps=1), "'c'"),
        (lambda m: nor.train(BMF, X), "the class BooleanMatrixFactorization"),
        (lambda m: nor.evaluate(m, X * 2), "got 2"),
        (lambda m: nor.explanation.rank_causes(m, X), "60"),
        (lambda m: nor.learn_factors(X, n_component=3), "'n_components'"),
        (lambda m: nor.learn_factors(np.full((60, 9), np.nan), 2), "60 rows"),
        (lambda m: BMF(2).fit(np.full((60, 9), np.nan)), "missing"),
        (lambda m: nor.load_network("absent.safetensors"), "absent.safetensors"),
        (lambda m: nor.save_network(m, "m.safetensors"), "str"),
        (lambda m: nor.read_table("t.csv", abve=0), "'above'"),
        (lambda m: nor.read_table(FRAME), "DataFrame"),
        (lambda m: nor.report.write_report(m, "p.html", X), 'write_report(model, X, "page.html")'),
    ],
)
def test_mistakes_in_python(model, mistake, fact):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((nor.NoisyOrError, UserWarning)) as caught:
            mistake(model)
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("log_probability", "nor.inference.log_probability"),
        ("learn_mixture", "nor.baselines.learn_mixture"),
        ("NoisyOrImputer", "nor.estimators.NoisyOrImputer"),
        ("nothing_of_this_name", "nothing_of_this_name"),
    ],
)
def test_names_of_other_namespaces_are_found(name, place):
    with pytest.raises(AttributeError) as caught:
        getattr(nor, name)
    assert place in str(caught.value)
    assert not hasattr(nor, "_nothing")


def test_rows_of_read_table_and_fitted_models_are_taken_everywhere(folder, model):
    table = nor.read_table(folder / "good.csv")
    assert BMF(2, steps=2).fit(table).transform(table).shape == (60, 2)
    assert nor.explain(model, table).n_rows == 60
    assert nor.marginals(model, table).probability.shape == (60, 3)
    assert nor.evaluate(model, table).elbo_mp.per_row.shape == (60,)
    assert nor.sample(model, 4).visible.shape == (4, 9)
    nor.save_network(folder / "again.safetensors", model)
    assert nor.load_network(folder / "again.safetensors").n_hidden == 3


def test_columns_are_found_by_their_names(model):
    chosen = FRAME[["a", "d", "g", "b", "c", "e", "f", "h", "i"]]
    states = nor.explain(model, FRAME).states.toarray()
    np.testing.assert_array_equal(nor.explain(model, chosen).states.toarray(), states)
    np.testing.assert_array_equal(
        nor.marginals(model, chosen).probability, nor.marginals(model, FRAME).probability
    )


def test_masked_entries_are_missing():
    masked = np.ma.masked_array(X, mask=np.eye(60, 9))
    expected = BMF(2, steps=2).fit(np.where(np.eye(60, 9), np.nan, X))
    np.testing.assert_array_equal(BMF(2, steps=2).fit(masked).components_, expected.components_)


def test_a_learning_rate_of_an_estimator_may_be_a_function():
    model = BMF(3, steps=5, learning_rate=lambda step: 1e-3).fit(X)
    assert "final_learning_rate" not in model.settings_


def test_columns_without_names_are_matched_by_position_with_a_note(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "plain.csv").write_text(FRAME.to_csv(index=False, header=False))
    assert main(["evaluate", "m.safetensors", "plain.csv", "--quick"]) == 0
    assert "note: plain.csv does not name its columns" in capsys.readouterr().err
    assert main(["evaluate", "m.safetensors", "good.csv", "--quick"]) == 0
    assert "note" not in capsys.readouterr().err
