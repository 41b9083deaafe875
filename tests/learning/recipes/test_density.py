"""Networks for the probability of rows: the layout is chosen by held-out rows, and recorded."""

from __future__ import annotations

import numpy as np
import pytest
from kinds_of_rows import many_kinds

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.engines import NumbaEngine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import enumerate_posterior
from noisyor.learning import learn_density
from noisyor.learning.judge import hold_out
from noisyor.learning.recipes import density, density_race
from noisyor.learning.recipes.density import _pyramid
from noisyor.search.mixtures import average

SIZES = [2, 2]


def two_respects(n_rows: int, seed: int) -> Observations:
    """Rows of two kinds in the first eight columns, and of two in the last four: four in all."""
    generator = np.random.default_rng(seed)
    parts = []
    for width in (8, 4):
        kinds = np.repeat(np.eye(2), width // 2, axis=1) * 0.85 + 0.05
        parts.append(kinds[generator.integers(0, 2, n_rows)])
    return Observations.of((generator.random((n_rows, 12)) < np.hstack(parts)).astype(float))


@pytest.fixture(scope="module")
def fitted():
    return learned(3)


@pytest.fixture(scope="module")
def averaged():
    return learn_density(many_kinds(200, 0), held_out=many_kinds(200, 1), progress=False)


def learned(seed: int):
    return learn_density(
        two_respects(800, 0),
        sets=[[2], SIZES],
        held_out=two_respects(400, 1),
        max_rounds=60,
        seed=seed,
        progress=False,
    )


class TestLayouts:
    def test_held_out_rows_choose_the_sets(self, fitted):
        assert fitted.settings["sets"] == SIZES
        assert fitted.network.alternatives.tolist() == [0, 0, 1, 1]
        tried = fitted.settings["tried"]
        assert [one["sets"] for one in tried] == [[2], SIZES, SIZES]  # one start, and a second
        assert max(one["held_out"] for one in tried[1:]) > tried[0]["held_out"] + 0.5

    @pytest.mark.parametrize("seed", range(3))
    def test_from_any_seed(self, seed):
        found = learned(seed)
        assert found.settings["sets"] == SIZES
        tried = found.settings["tried"]
        assert max(one["held_out"] for one in tried[1:]) > tried[0]["held_out"] + 0.5

    def test_it_is_better_on_rows_that_decided_nothing(self, fitted):
        test = two_respects(500, 2)
        mixture = nor.search.learn_mixture(two_respects(800, 0), 2, held_out=two_respects(400, 1))
        found = enumerate_posterior(fitted.network, test).log_likelihood
        assert found.mean() > mixture.log_probability(test).mean() + 0.5

    def test_rows_of_one_respect_stay_a_mixture(self):
        """A second set gains nothing that could not be chance."""
        rows = Observations.of(two_respects(600, 0).to_dense()[:, :8])
        found = learn_density(rows, sets=[[2], [2, 1]], max_rounds=10, progress=False)
        assert found.settings["sets"] == [2]
        assert found.settings["rounds"] == 0

    def test_a_number_of_hidden_nodes_is_shared_out(self):
        rows = two_respects(60, 0)
        found = learn_density(rows, 4, max_rounds=1, progress=False)
        tried = [one["sets"] for one in found.settings["tried"]]
        assert tried[:3] == [[4], [2, 2], [2, 1, 1]]
        assert found.network.n_hidden == 4
        one = learn_density(rows, 1, max_rounds=1, progress=False)
        assert one.network.n_hidden == 1

    @pytest.mark.parametrize(
        ("total", "sizes"), [(1, [1]), (2, [1, 1]), (5, [3, 1, 1]), (100, [50, 25, 25])]
    )
    def test_pyramids(self, total, sizes):
        assert _pyramid(total) == sizes

    def test_the_number_of_hidden_nodes_is_found(self):
        """The mixtures on the way to the best number of classes are where pyramids start."""
        found = learn_density(two_respects(800, 0), held_out=two_respects(400, 1), progress=False)
        tried = found.settings["tried"]
        first, *others = (one["sets"] for one in tried if one["averaged"] == 1)
        assert others
        assert all(sizes in ([*first, first[0] // 2], _pyramid(sum(sizes))) for sizes in others)

    def test_mixtures_are_averaged_if_the_number_is_open(self, averaged):
        settings = averaged.settings
        first, average, *_ = settings["tried"]
        assert first["averaged"] == 1
        assert average["averaged"] > 1
        assert average["held_out"] > first["held_out"]
        assert settings["averaged"] == average["averaged"]
        assert settings["sets"] == [averaged.network.n_hidden] == average["sets"]
        assert averaged.network.sets.n_sets == 1

    def test_an_average_has_the_probability_that_was_recorded(self, averaged):
        rows = many_kinds(200, 1)
        found = nor.inference.log_probability(averaged.network, rows)
        assert found.exact
        assert found.mean == pytest.approx(averaged.settings["tried"][1]["held_out"], abs=1e-3)

    def test_an_average_that_gains_much_has_no_rivals(self, averaged):
        first, average = averaged.settings["tried"]
        assert average["held_out"] > first["held_out"] + density._OUT_OF_REACH

    def test_sets_that_are_behind_at_a_look_go_no_further(self, monkeypatch):
        monkeypatch.setattr(density, "_OUT_OF_REACH", np.inf)
        found = learn_density(many_kinds(200, 0), held_out=many_kinds(200, 1), progress=False)
        raced = [one for one in found.settings["tried"] if len(one["sets"]) > 1]
        assert raced
        assert all(one["rounds"] <= 60 for one in raced)
        assert len(found.settings["sets"]) == 1

    def test_an_average_is_learned_again_from_all_rows(self, monkeypatch):
        """Without rows to judge by a tenth is held out; then every mixture sees all rows."""
        monkeypatch.setattr(average, "_WORTH", -np.inf)  # few rows decide
        rows = many_kinds(200, 0)
        found = learn_density(rows, max_rounds=1, progress=False)
        assert found.settings["averaged"] > 1
        own = nor.inference.log_probability(found.network, rows).mean
        learned, judges = hold_out(rows, None, 0)
        part = learn_density(learned, held_out=judges, max_rounds=1, progress=False)
        assert part.settings["sets"] == found.settings["sets"]
        assert own > nor.inference.log_probability(part.network, rows).mean

    def test_large_tables_are_sampled_by_their_ones(self, monkeypatch):
        monkeypatch.setattr(density_race, "_MAX_ONES", 30)
        rows = Observations.of(np.eye(100))
        assert density_race.not_too_many(rows, 0).n_rows == 30
        monkeypatch.setattr(density_race, "_MAX_ROWS", 7)
        assert density_race.not_too_many(rows, 0).n_rows == 7


class TestRecord:
    def test_settings_and_evaluations(self, fitted):
        assert fitted.settings["objective"] == "probability"
        assert fitted.settings["seed"] == 3
        steps = [one.step for one in fitted.history.evaluations]
        assert steps == sorted(set(steps))
        assert steps == [20, 60]
        values = [one.elbo for one in fitted.history.evaluations]
        assert fitted.settings["rounds"] == 60
        held_out = [one["held_out"] for one in fitted.settings["tried"]]
        assert max(held_out) == values[-1]

    def test_the_values_are_held_out_log_p(self, fitted):
        exact = enumerate_posterior(fitted.network, two_respects(400, 1)).log_likelihood
        value = fitted.history.evaluations[-1].elbo
        assert value == pytest.approx(exact.mean(), abs=0.02)


class TestIndependence:
    @staticmethod
    def theta(rows, n_threads=1, **options):
        options = {"sets": [[2, 2]], "max_rounds": 10, **options}
        engine = NumbaEngine(n_threads=n_threads)
        return learn_density(rows, engine=engine, progress=False, **options).network.theta

    def test_of_threads(self):
        rows = two_respects(300, 3)
        np.testing.assert_array_equal(self.theta(rows), self.theta(rows, 2))

    def test_but_the_seed_counts(self):
        rows = two_respects(100, 4)
        assert not np.array_equal(self.theta(rows), self.theta(rows, seed=1))


class TestWrongInput:
    @pytest.mark.parametrize(
        "wrong", [{"n_components": 0}, {"n_components": "many"}, {"max_rounds": 0}, {"seed": -1}]
    )
    def test_settings(self, wrong):
        (name,) = wrong
        with pytest.raises(InvalidSettingError, match=name):
            learn_density(np.eye(2), progress=False, **wrong)

    def test_columns_of_held_out_rows(self):
        with pytest.raises(InvalidDataError, match="columns"):
            learn_density(np.eye(2), held_out=np.eye(3), progress=False)
