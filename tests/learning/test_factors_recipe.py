"""`learn_factors`: objectives, the number of causes, unused causes and limits of time."""

import time

import numpy as np
import pytest

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.datasets.synthetic import generate_bmf
from noisyor.engines.context import Context
from noisyor.errors import InvalidSettingError
from noisyor.inference import log_probability
from noisyor.learning import recipes
from noisyor.learning.causes import start_causes
from noisyor.learning.recipes import _code_length_ratio
from noisyor.learning.validation import (
    SizeCurve,
    choose_size,
    estimate_log_p,
    leave_one_out_gain,
    split_validation,
)
from noisyor.metrics import factorization_error
from noisyor.search.factors import search_rows

KINDS = np.where(np.random.default_rng(7).random((4, 12)) < 0.5, 0.8, 0.05)


def one_of_four(n_rows=600, seed=0):
    """Rows of exactly one of four kinds, each with likely columns that others have, too."""
    generator = np.random.default_rng(seed)
    return (generator.random((n_rows, 12)) < KINDS[generator.integers(4, size=n_rows)]).astype(int)


def boolean_rows(n_rows=600, flip=0.01, seed=0):
    """Overlapping factors, each on by itself; some entries are flipped."""
    generator = np.random.default_rng(seed)
    rows = (generator.random((n_rows, 5)) < 0.3) @ (generator.random((5, 20)) < 0.3) > 0
    return (rows ^ (generator.random(rows.shape) < flip)).astype(np.uint8)


def faint_causes(n_rows=1500):
    """Rows of four causes that work in less than half of their columns."""
    truth = nor.bipartite(
        24,
        4,
        noise="per_visible",
        failure_probability=np.where(np.kron(np.eye(4), np.ones(6)) > 0, 0.55, 1.0),
        prior_probability=0.3,
        noise_probability=0.05,
    )
    return nor.sample(truth, n_rows, seed=3).visible.toarray()


class TestObjective:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"objective": "probability"}, "objective"),
            ({"noise": "shared"}, "noise"),
        ],
    )
    def test_wrong_settings(self, options, message):
        with pytest.raises(InvalidSettingError, match=message):
            nor.learn_factors(np.eye(3), 2, progress=False, **options)

    def test_fewest_errors_keeps_the_factors_that_were_asked_for(self):
        fitted = nor.learn_factors(
            one_of_four(), 4, objective="hamming", n_restarts=2, progress=False
        )
        assert fitted.network.n_hidden == 4
        assert fitted.settings["steps"] == 0

    def test_causes_from_a_mixture_describe_unseen_rows_better_than_it_does(self):
        rows = faint_causes(2500)
        learned, unseen = rows[:2000], rows[2000:]
        fitted = nor.learn_factors(learned, 4, objective="likelihood", progress=False)
        assert fitted.settings["steps"] == 0
        mixture = nor.baselines.learn_mixture(learned, 4)
        ours = log_probability(fitted.network, unseen).mean
        assert ours > mixture.log_probability(unseen).mean() + 0.1

    @pytest.mark.parametrize(
        ("rows", "objective"),
        [(boolean_rows(), "mdl"), (one_of_four(), "likelihood"), (faint_causes(), "likelihood")],
    )
    def test_a_quick_start_chooses_by_default(self, rows, objective):
        fitted = nor.learn_factors(rows, 4, n_restarts=2, steps=1, progress=False)
        assert fitted.settings["objective"] == objective

    @pytest.mark.parametrize(("n", "r"), [(100, 20), (100, 40)])
    def test_boolean_products_of_any_rank_are_searched(self, n, r):
        rows = generate_bmf(n, r, seed=900).train
        fitted = nor.learn_factors(rows, r, progress=False)
        assert fitted.settings["objective"] == "mdl"
        states = nor.explain(fitted.network, rows).states.toarray()
        assert factorization_error(fitted.network, states, rows) < 0.01

    def test_more_factors_are_tried_if_some_describe_a_part(self, monkeypatch):
        rows = Observations.of(generate_bmf(100, 40, seed=900).train)
        monkeypatch.setattr(recipes, "_TEST_FACTORS", 10)
        tried = []

        def search(some, settings, context):
            tried.append(settings.n_components)
            return search_rows(some, settings, context)

        monkeypatch.setattr(recipes, "search_rows", search)
        task = recipes._FactorSearch(rows, "auto", 1, Context.of("auto", 0, False, None, None))
        assert task._choose_objective() == "mdl"
        assert tried == [20, 40]

    def test_boolean_products_with_a_tenth_of_the_entries_flipped_are_searched(self):
        clean = generate_bmf(100, 20, seed=900).train.astype(bool)
        rows = clean ^ (np.random.default_rng(1).random(clean.shape) < 0.1)
        fitted = nor.learn_factors(rows, 20, progress=False)
        assert fitted.settings["objective"] == "mdl"
        states = nor.explain(fitted.network, rows).states.toarray()
        assert factorization_error(fitted.network, states, clean) < 1.5

    def test_code_length_falls_with_structure(self):
        two = np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], 20, axis=0)
        noise = np.random.default_rng(0).integers(0, 2, (40, 6))
        with_gaps = np.where(np.random.default_rng(1).random((40, 6)) < 0.1, np.nan, two)
        ratios = [
            _code_length_ratio(nor.search.search_factors(rows, 2, n_restarts=1))
            for rows in (two, with_gaps, noise)
        ]
        assert ratios[0] < 0.5
        assert ratios[1] < 0.6
        assert ratios[2] > 0.9


class TestNumber:
    def test_an_integer_is_the_number_of_causes(self):
        rows = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 200, axis=0)
        fitted = nor.learn_factors(rows, 6, n_restarts=2, progress=False)
        assert fitted.network.n_hidden == 6  # more than columns
        assert fitted.settings["n_unused"] == 4
        assert (fitted.network.prior_probability[2:] < 1e-3).all()
        two = nor.learn_factors(rows, 2, n_restarts=2, progress=False)
        assert "n_unused" not in two.settings
        both = [log_probability(one.network, rows).mean for one in (fitted, two)]
        assert both[0] == pytest.approx(both[1])
        states = nor.explain(fitted.network, rows).states.toarray()
        assert not states[:, 2:].any()

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("objective", ["mdl", "likelihood"])
    def test_independent_columns_have_one_cause(self, objective, seed):
        rows = np.random.default_rng(seed).random((200, 8)) < np.linspace(0.1, 0.6, 8)
        fitted = nor.learn_factors(
            rows, "auto", objective=objective, n_restarts=2, steps=1, progress=False
        )
        assert fitted.network.n_hidden == 1

    @pytest.mark.parametrize("objective", ["mdl", "likelihood"])
    def test_faint_causes_are_counted(self, objective):
        fitted = nor.learn_factors(
            faint_causes(), "auto", objective=objective, n_restarts=2, steps=1, progress=False
        )
        curve = fitted.settings["n_components_curve"]
        assert 3 <= fitted.network.n_hidden == curve["chosen"] <= 6
        assert curve["n_components"] == sorted(curve["n_components"])
        assert curve["n_rows"] == 375

    def test_exact_factors_are_all_kept_and_counted_in_all_rows(self):
        rows = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 200, axis=0)
        fitted = nor.learn_factors(rows, "auto", n_restarts=2, progress=False)
        assert "n_components_curve" not in fitted.settings
        assert fitted.network.n_hidden == 2
        np.testing.assert_allclose(fitted.network.prior_probability, 401 / 602)

    def test_the_fewest_within_one_standard_error_of_the_best(self):
        rows = np.array([-9.0, -1.0, -4.0, -2.0])
        spread = np.array([1.0, -1.0, 1.0, -1.0])  # standard error of the difference: 0.577
        per_row = {8: rows, 4: rows - 0.5 + spread, 2: rows - 0.6 + spread, 1: rows - 0.1}
        curve = SizeCurve.of(per_row, np.ones(4))
        assert curve.chosen == 4  # all rows lose by a single cause: its error is zero
        assert curve.n_components == [1, 2, 4, 8]
        np.testing.assert_allclose(curve.standard_error, [0.0, 3**-0.5, 3**-0.5, 0.0], atol=1e-12)

    @pytest.mark.parametrize(
        ("sizes", "best", "between"),
        [
            ([30, 40, 54], 40, 35),  # below the best
            ([39, 40, 54], 40, 47),  # above the best
            ([39, 40, 41], 40, None),
            ([96, 100, 104], 100, None),  # as good as equal
            ([1], 1, None),
        ],
    )
    def test_sizes_beside_the_best_follow(self, sizes, best, between):
        rows = np.array([-9.0, -1.0, -4.0, -2.0])
        curve = SizeCurve.of({size: rows - (size != best) for size in sizes}, np.ones(4))
        assert curve.chosen == best
        assert curve.between() == between

    def test_sizes_below_the_chosen_one_follow(self):
        rows, spread = np.array([-9.0, -1.0, -4.0, -2.0]), np.array([1.0, -1.0, 1.0, -1.0])
        curve = SizeCurve.of({5: rows - 2, 9: rows + spread - 0.1, 10: rows}, np.ones(4))
        assert curve.chosen == 9
        assert curve.between() == 7

    def test_a_row_that_occurs_often_has_more_chains(self):
        # Its error counts as often, and more than the errors of many different rows together.
        network = nor.bipartite(8, 16, failure_probability=0.6, prior_probability=0.1)
        rows = np.repeat(np.eye(8, dtype=np.uint8)[:3], [1, 7, 200], axis=0)
        found = estimate_log_p(network, Observations.of(rows), Context.of())
        for row, n_chains in ((0, 2), (1, 8), (8, 64)):
            alone = nor.inference.log_probability(network, rows[[row]], n_chains=n_chains)
            assert found.per_row[row] == alone.per_row[0]

    def test_more_causes_are_started_until_rows_gain_nothing(self, monkeypatch):
        started = []

        def start(rows, n_components, context):
            started.append(n_components)
            return start_causes(rows, n_components, context)

        monkeypatch.setattr("noisyor.learning.recipes.start_causes", start)
        options = {"objective": "likelihood", "progress": False}
        fitted = nor.learn_factors(faint_causes(900)[:, :12], "auto", **options)
        assert started[:3] == [8, 32, 16]  # and not 128 for four causes
        assert 128 not in started
        assert fitted.network.n_hidden < 16

    def test_sizes_above_the_best_start_from_a_larger_network(self):
        rows = Observations.of(faint_causes(400))
        training, validation = split_validation(rows, 0)
        networks = [start_causes(training, number, Context.of()).network for number in (4, 12)]
        refitted = []

        def refit(smaller):
            refitted.append(smaller.n_hidden)
            return smaller

        _, curve = choose_size(networks, training, validation, refit, Context.of())
        assert {4, 12} < set(curve.n_components)
        assert any(size < 4 for size in refitted)
        assert any(4 < size < 12 for size in refitted)
        assert max(refitted) < 12

    def test_sizes_follow_one_ranking(self, monkeypatch):
        rows = Observations.of(faint_causes(400))
        training, validation = split_validation(rows, 0)
        options = {"objective": "mdl", "n_restarts": 1, "steps": 0}
        network = nor.learn_factors(training, 4, progress=False, **options).network
        gain = leave_one_out_gain(network, training)
        best = network.failure_probability[np.argmax(gain)]
        seen = []

        def refit(smaller):
            seen.append(smaller.failure_probability)
            return smaller

        monkeypatch.setattr("noisyor.learning.validation._CLEARLY", np.inf)
        choose_size([network], training, validation, refit, Context.of())
        assert min(len(failure) for failure in seen) == 1
        for failure in seen:
            assert (failure == best).all(axis=1).any()


class Clock:
    """A clock that moves on by one second whenever somebody looks at it."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now

    def __getattr__(self, name):
        return getattr(time, name)


LIMITS = [1, 2, 3, *np.random.default_rng(0).integers(4, 3000, 9).tolist()]


class TestTime:
    """Whenever the time is over, there is a network of the right size."""

    @pytest.mark.parametrize("limit", LIMITS)
    @pytest.mark.parametrize(
        ("objective", "n_components"),
        [("auto", "auto"), ("mdl", "auto"), ("likelihood", "auto"), ("mdl", 3), ("hamming", 3)],
    )
    def test_factors(self, monkeypatch, limit, objective, n_components):
        monkeypatch.setattr("noisyor._util.progress.time", Clock())
        rows = faint_causes(120)[:, :12]
        fitted = nor.learn_factors(
            rows,
            n_components,
            objective=objective,
            n_restarts=2,
            steps=20,
            time_limit=limit,
            progress=False,
        )
        assert fitted.network.n_visible == 12
        assert np.isfinite(fitted.network.theta).all()
        if n_components == 3:
            assert fitted.network.n_hidden == 3

    @pytest.mark.parametrize("limit", LIMITS[:6])
    def test_topics_and_features(self, monkeypatch, limit):
        monkeypatch.setattr("noisyor._util.progress.time", Clock())
        rows = faint_causes(60)[:, :12]
        for options in ({"n_components": 2}, {"n_layers": 2, "shrink": 2, "n_parents": 1}):
            fitted = nor.learn_topics(rows, time_limit=limit, steps=5, progress=False, **options)
            assert np.isfinite(fitted.network.theta).all()
        images = rows.reshape(-1, 3, 4)
        fitted = nor.learn_features(
            images, 2, (2, 2), n_restarts=1, steps=3, time_limit=limit, progress=False
        )
        assert np.isfinite(fitted.network.theta).all()


class TestResume:
    @pytest.mark.parametrize(
        ("objective", "n_components"),
        [("auto", "auto"), ("likelihood", "auto"), ("likelihood", 3), ("mdl", "auto")],
    )
    def test_what_was_found_is_not_searched_again(
        self, tmp_path, monkeypatch, objective, n_components
    ):
        rows = faint_causes(300)[:, :12]
        options = {
            "objective": objective,
            "n_restarts": 1,
            "steps": 5,
            "checkpoint": tmp_path / "run",
            "progress": False,
        }
        first = nor.learn_factors(rows, n_components, **options)
        for name in ("search_rows", "learn_causes", "learn_by_gibbs", "choose_size"):
            monkeypatch.setattr(f"noisyor.learning.recipes.{name}", None)
        again = nor.learn_factors(rows, n_components, resume=True, **options)
        assert again.network.theta.tobytes() == first.network.theta.tobytes()
        assert again.settings == first.settings

    def test_a_stop_in_gibbs_sampling_costs_no_bits(self, tmp_path, monkeypatch):
        rows = faint_causes(300)[:, :12]
        options = {"objective": "mdl", "n_restarts": 2, "steps": 5, "progress": False}
        whole = nor.learn_factors(rows, "auto", **options)

        def stop(*arguments, **keywords):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("noisyor.learning.recipes.learn_by_gibbs", stop)
            with pytest.raises(KeyboardInterrupt):
                nor.learn_factors(rows, "auto", checkpoint=tmp_path / "run", **options)
        again = nor.learn_factors(rows, "auto", checkpoint=tmp_path / "run", resume=True, **options)
        assert again.network.theta.tobytes() == whole.network.theta.tobytes()


def test_factors_describe_a_table_of_more_factors_than_half_its_columns():
    data = generate_bmf(100, 60, 901)
    fitted = nor.learn_factors(data.train, 60, n_restarts=1, seed=901, steps=1, progress=False)
    assert fitted.settings["objective"] == "mdl"


def test_auto_compares_numbers_of_factors_with_errors():
    rng = np.random.default_rng(1)
    factors = np.kron(np.eye(4), np.ones((1, 4)))
    X = (rng.random((500, 4)) < 0.3) @ factors > 0
    X ^= rng.random(X.shape) < 0.03
    found = nor.learn_factors(X, "auto", progress=False)
    assert found.network.n_hidden == 4
    assert found.settings["n_components_curve"]["chosen"] == 4
