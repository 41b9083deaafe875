"""Missing entries are filled in by what the rest of the row says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import noisyor as nor
from noisyor.errors import InvalidSettingError
from noisyor.estimators import NoisyOrImputer

FAST = nor.BooleanMatrixFactorization(3, options={"n_restarts": 2})


@pytest.fixture
def holes(X):
    """Rows with a tenth of the entries hidden, and where."""
    hide = np.random.default_rng(1).random(X.shape) < 0.1
    return np.where(hide, np.nan, X), hide


def test_what_is_observed_stays_and_what_is_missing_is_mostly_right(X, holes):
    given, hide = holes
    filled = NoisyOrImputer(FAST).fit_transform(given)
    np.testing.assert_array_equal(filled[~hide], X[~hide])
    assert (filled[hide] == X[hide]).mean() > 0.85
    assert set(np.unique(filled)) == {0.0, 1.0}


def test_probabilities_are_those_of_the_network(holes):
    given, hide = holes
    imputer = NoisyOrImputer(FAST, output="probability").fit(given)
    expected = nor.inference.predict_visible(imputer.estimators_[0].network_, given).probability
    np.testing.assert_allclose(imputer.transform(given)[hide], expected[hide])


def test_another_mark_of_missing_entries(holes):
    given, _ = holes
    marked = np.where(np.isnan(given), -1, given).astype(int)
    by_mark = NoisyOrImputer(FAST, missing_values=-1).fit_transform(marked)
    np.testing.assert_array_equal(by_mark, NoisyOrImputer(FAST).fit_transform(given))


def test_names_of_columns(holes):
    names = [f"c{i}" for i in range(12)]
    imputer = NoisyOrImputer(FAST).set_output(transform="pandas")
    filled = imputer.fit_transform(pd.DataFrame(holes[0], columns=names))
    assert list(filled.columns) == names
    assert imputer.estimators_[0].network_.visible_names == tuple(names)


def test_in_a_pipeline(X, holes):
    given, _ = holes
    labels = X[:, :4].sum(axis=1) > 2
    pipeline = make_pipeline(NoisyOrImputer(FAST), LogisticRegression()).fit(given, labels)
    assert pipeline.score(given, labels) > 0.9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"output": "both"}, "output"),
        ({"missing_values": "?"}, "missing_values is NaN or a number, got '?'"),
        ({"estimator": LogisticRegression()}, "got LogisticRegression"),
        ({"n_estimators": 0}, "n_estimators"),
    ],
)
def test_wrong_settings(holes, setting, message):
    with pytest.raises(InvalidSettingError, match=message):
        NoisyOrImputer(**setting).fit(holes[0])


def test_one_of_each_question_is_filled_in():
    random = np.random.default_rng(0)
    kind = random.integers(0, 2, 300)
    colour = np.eye(3)[np.where(random.random(300) < 0.8, kind, 2)]
    X = np.hstack([(random.random((300, 4)) < np.where(kind, 0.9, 0.1)[:, None]), colour])
    imputer = NoisyOrImputer(FAST, output="probability").fit(X)
    assert [group.columns for group in imputer.one_hot_] == [range(4, 7)]
    given = X[:3].astype(float)
    given[0, 4:] = np.nan  # the answer is open
    given[1, 4:] = [1, np.nan, np.nan]
    given[2, 4:] = [0, 0, np.nan]
    chance = imputer.transform(given)[:, 4:]
    assert chance[0].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(chance[1], [1, 1 / 302, 1 / 302])
    np.testing.assert_allclose(chance[2], [0, 0, 1 - 1 / 302])


def test_several_networks_are_averaged(holes):
    given, hide = holes
    imputer = NoisyOrImputer(FAST, output="probability", n_estimators=3).fit(given)
    assert len(imputer.estimators_) == 3
    assert all(one.options == FAST.options for one in imputer.estimators_)
    single = [
        nor.inference.predict_visible(one.network_, given).probability
        for one in imputer.estimators_
    ]
    assert not np.allclose(single[0], single[1])
    odds = np.exp(np.mean([np.log(one / (1 - one)) for one in single], axis=0))
    np.testing.assert_allclose(imputer.transform(given)[hide], (odds / (1 + odds))[hide])
