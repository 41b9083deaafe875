"""Options of training: every wrong value is refused with what was expected and what came."""

from dataclasses import fields

import numpy as np
import pytest

import noisyor as nor
from noisyor._util.validation import OPTIONS
from noisyor.errors import InvalidSettingError
from noisyor.learning import TrainOptions, recipes
from noisyor.learning.state import choose_options


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": -1}, "steps must be 0, 1, … or None, got -1"),
        ({"steps": 1.5}, "steps must be 0, 1, … or None, got 1.5"),
        ({"passes": -1}, "passes must be 0, 1, …, got -1"),
        ({"passes": None}, "passes must be 0, 1, …, got None"),
        ({"batch_size": 0}, "batch_size must be 1, 2, … or None, got 0"),
        ({"batch_size": "all"}, "batch_size must be 1, 2, … or None, got 'all'"),
        (
            {"learning_rate": 0.0},
            "learning_rate must be a positive number or a function of the step, got 0.0",
        ),
        (
            {"learning_rate": float("nan")},
            "learning_rate must be a positive number or a function of the step, got nan",
        ),
        (
            {"learning_rate": "fast"},
            "learning_rate must be a positive number or a function of the step, got 'fast'",
        ),
        ({"final_learning_rate": -1.0}, "final_learning_rate must be a positive number or None"),
        ({"parameterization": "logs"}, "parameterization must be 'theta' or 'log', got 'logs'"),
        ({"smoothing": -1.0}, "smoothing must be at least 0, got -1.0"),
        ({"seed": -2}, "seed must be a whole number"),
        ({"evaluate_every": -1}, "evaluate_every must be 0, 1, …, got -1"),
        ({"callbacks": print}, "callbacks must be a list of functions"),
        ({"callbacks": ["print"]}, "callbacks must be a list of functions"),
        ({"checkpoint": 3}, "checkpoint must be a path or None, got 3"),
        ({"checkpoint_every": -1}, "checkpoint_every must be at least 0, got -1"),
        ({"resume": True}, "resume needs the checkpoint"),
        ({"resume": "yes"}, "resume must be True or False, got 'yes'"),
        ({"progress": "bar"}, "progress must be True or False or None, got 'bar'"),
    ],
)
def test_wrong_values_are_refused(wrong, message):
    with pytest.raises(InvalidSettingError, match=message):
        TrainOptions(**wrong)
    with pytest.raises(InvalidSettingError, match=message):
        nor.train(nor.bipartite(2, 1), object(), **wrong)  # before the data are looked at


def test_the_table_has_all_fields():
    assert {field.name for field in fields(TrainOptions)} <= set(OPTIONS)


def test_options_are_taken_as_they_are_and_changed_by_name():
    options = TrainOptions(steps=7, seed=3)
    assert choose_options(options, {}) is options
    changed = choose_options(options, {"seed": 4})
    assert (changed.steps, changed.seed) == (7, 4)
    assert choose_options(None, {"seed": 4}, TrainOptions(steps=9)).steps == 9
    with pytest.raises(InvalidSettingError, match="options must be TrainOptions or None, got int"):
        choose_options(100, {})
    with pytest.raises(InvalidSettingError, match="no option 'n_restart'; did you mean 'n_rest"):
        choose_options(None, {"n_restart": 1}, also=["n_restarts"])


def test_callbacks_from_a_generator_are_kept():
    options = TrainOptions(callbacks=(call for call in [print]))
    assert options.callbacks == (print,)
    assert choose_options(options, {"seed": 1}).callbacks == (print,)


def test_the_rate_falls_geometrically():
    options = TrainOptions(steps=4, learning_rate=0.16, final_learning_rate=0.01)
    np.testing.assert_allclose([options.rate(t) for t in range(5)], [0.16, 0.08, 0.04, 0.02, 0.01])
    assert TrainOptions(learning_rate=0.16).rate(100) == 0.16
    with pytest.raises(InvalidSettingError, match="final_learning_rate needs the number of steps"):
        TrainOptions(final_learning_rate=0.1).rate(1)


@pytest.mark.parametrize(
    ("recipe", "arguments"),
    [
        (nor.learn_factors, (np.eye(4), 2)),
        (nor.learn_topics, (np.eye(4), 2)),
        (nor.learn_features, (np.zeros((3, 4, 4)), 1, (2, 2))),
    ],
)
@pytest.mark.parametrize("wrong", [{"setps": 5}, {"steps": -5}, {"learning_rate": "fast"}])
def test_recipes_refuse_wrong_options_before_any_work(monkeypatch, recipe, arguments, wrong):
    searched = []
    for module, name in (
        (recipes, "search_rows"),
        (recipes, "search_features"),
        (recipes, "layered"),
        (recipes, "start_from_counts"),
    ):
        monkeypatch.setattr(module, name, lambda *_, **__: searched.append(1))
    with pytest.raises(InvalidSettingError):
        recipe(*arguments, **wrong)
    assert not searched
