"""The comparison with a mixture: which is better, and on which rows."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.baselines import learn_mixture
from noisyor.data.observations import Observations
from noisyor.inference.exact import enumerate_posterior
from noisyor.io.model_file import provenance
from noisyor.learning.validation import hold_out
from noisyor.report import baseline
from noisyor.report.baseline import Baseline, baseline_section, compare_with_mixture
from noisyor.report.inputs import WORDS, Model, kind_of
from noisyor.report.page import model_page
from noisyor.tables import Table

KINDS = np.array([[0.9, 0.8, 0.1, 0.1, 0.9, 0.1], [0.1, 0.2, 0.9, 0.9, 0.1, 0.1]])


def kinds(n_rows: int) -> Observations:
    """Rows of one of two kinds."""
    generator = np.random.default_rng(0)
    on = KINDS[generator.integers(0, 2, n_rows)]
    return Observations.of((generator.random(on.shape) < on).astype(float))


def model_of(network: nor.Network, rows: Observations | None = None, **settings: object) -> Model:
    metadata = {} if rows is None else provenance("factors", rows, settings=settings, metrics={})
    return Model(network, metadata, kind_of(network), "model.safetensors")


@pytest.fixture(scope="module")
def wrong() -> nor.Network:
    """Two causes of everything: not what the rows of two kinds are made by."""
    return nor.bipartite(6, 2, failure_probability=0.5, prior_probability=0.3)


class TestVerdict:
    def test_rows_of_two_kinds_are_a_mixture(self, wrong):
        found = compare_with_mixture(model_of(wrong), kinds(400))
        assert found.verdict == "better"
        assert found.n_classes == 2
        learned, judged = kinds(400).split(0.8, 0)
        exact = enumerate_posterior(wrong, judged).log_likelihood
        expected = learn_mixture(learned, 2).log_probability(judged) - exact
        assert found.gain == pytest.approx(expected.mean(), abs=0.02)
        assert found.error == pytest.approx(expected.std(ddof=1) / 80**0.5, rel=0.1)

    def test_rows_of_many_causes_are_not(self):
        """Six independent causes make 64 kinds of rows; six classes cannot say so."""
        failure = np.where(np.repeat(np.eye(6), 3, axis=1) == 1, 0.1, 1.0)
        truth = nor.bipartite(
            18, 6, failure_probability=failure, prior_probability=0.4, noise_probability=0.02
        )
        rows = Observations.of(nor.sample(truth, 500, seed=0).visible)
        found = compare_with_mixture(model_of(truth), rows)
        assert found.verdict == "worse"
        assert found.gain < -1.0

    def test_within_two_errors_they_are_level(self):
        assert Baseline(2, 0.05, 0.03, 80, 20, "other").verdict == "as good"
        assert Baseline(2, 0.07, 0.03, 80, 20, "other").verdict == "better"
        assert Baseline(2, -0.07, 0.03, 80, 20, "other").verdict == "worse"

    def test_too_few_rows_decide_nothing(self, wrong):
        assert compare_with_mixture(model_of(wrong), kinds(19)) is None
        assert compare_with_mixture(model_of(wrong), kinds(20)).n_classes == 1

    def test_weights_count_as_rows(self, wrong):
        rows = kinds(60)
        repeated = Observations.of(np.repeat(rows.to_dense(), 3, axis=0))
        plain = model_of(wrong, repeated, steps=1), repeated
        weighted = rows.with_weights(np.full(60, 3.0))
        found = [
            compare_with_mixture(*case)
            for case in (plain, (model_of(wrong, weighted, steps=1), weighted))
        ]
        assert found[0].gain == pytest.approx(found[1].gain, abs=0.05)
        assert found[0].error == pytest.approx(found[1].error, rel=0.2)


class TestRows:
    def test_held_out_rows_decide(self, wrong):
        """Those that learning from a file held out, by the settings that it wrote."""
        rows = kinds(100)
        model = model_of(wrong, rows, held_out=0.3, seed=7)
        found = compare_with_mixture(model, rows)
        assert (found.rows, found.n_learned, found.n_compared) == ("held-out", 70, 30)
        learned, judged = hold_out(rows, 0.3, 7)
        expected = learn_mixture(learned, 2).log_probability(judged)
        exact = enumerate_posterior(wrong, judged).log_likelihood
        assert found.gain == pytest.approx((expected - exact).mean(), abs=0.03)
        found = compare_with_mixture(model_of(wrong, rows, held_out=None, seed=0), rows)
        assert (found.rows, found.n_compared) == ("held-out", 10)

    @pytest.mark.parametrize(
        "settings",
        [
            {"steps": 3},
            {"held_out": 0.0, "seed": 0},
            {"held_out": "some", "seed": 0},
            {"held_out": 7.5, "seed": 0},
            {"held_out": 0.1, "seed": -4},
            {"held_out": None, "seed": "x"},
        ],
    )
    def test_without_held_out_rows_the_training_rows_do(self, wrong, settings):
        rows = kinds(100)
        found = compare_with_mixture(model_of(wrong, rows, **settings), rows)
        assert (found.rows, found.n_learned, found.n_compared) == ("training", 100, 100)

    def test_of_other_rows_a_part_does(self, wrong):
        other = model_of(wrong, kinds(50), held_out=0.3, seed=7)
        found = compare_with_mixture(other, kinds(100))
        assert (found.rows, found.n_learned, found.n_compared) == ("other", 80, 20)

    def test_large_data_are_sampled(self, wrong, monkeypatch):
        monkeypatch.setattr(baseline, "_MAX_LEARNED", 50)
        monkeypatch.setattr(baseline, "_MAX_COMPARED", 30)
        found = compare_with_mixture(model_of(wrong), kinds(400))
        assert (found.n_learned, found.n_compared) == (50, 30)


class TestCost:
    @pytest.mark.parametrize("shape", [(8000, 20), (8000, 2000), (100, 50_000)])
    def test_rounds_and_classes_are_bounded_by_work(self, shape):
        rows = Observations.from_indices([[i % shape[1]] for i in range(shape[0])], shape[1])
        n_classes, rounds = baseline._mixture_size(10**6, rows)
        assert 1 <= n_classes <= shape[0] / 10
        assert 20 <= rounds <= 150
        assert n_classes * rounds * sum(shape) * 10 <= baseline._MIXTURE_WORK

    def test_of_huge_networks_nothing_is_said(self, wrong, monkeypatch):
        monkeypatch.setattr(baseline, "_MAX_EDGES", 10)
        assert compare_with_mixture(model_of(wrong), kinds(100)) is None
        page = model_page(model_of(wrong), Table(kinds(100)))
        assert "too large for a" in page.html
        assert page.summary["mixture"] is None


class TestWords:
    def test_the_sentence_says_which_is_better_and_by_how_much(self):
        words = WORDS["topics"]
        better = baseline_section(Baseline(40, 0.516, 0.031, 900, 100, "held-out"), words)
        assert "mixture of 40 classes describes these documents better" in better["sentence"]
        assert "0.52 ± 0.03 nats per document" in better["sentence"]
        assert "100 documents that were held out" in better["rows"]
        worse = baseline_section(Baseline(1, -2.0, 0.1, 9, 9, "training"), words)["sentence"]
        assert "This model describes these documents better than a mixture of 1 class," in worse
        assert "2.00 ± 0.10 nats" in worse
        level = baseline_section(Baseline(2, -0.01, 0.1, 9, 9, "other"), words)["sentence"]
        assert "as well as this model" in level
        assert "worse by 0.01" in level

    def test_the_page_says_it(self, topics, factors, features):
        for example in (topics, factors, features):
            model = model_of(example.network)
            page = model_page(model, Table(example.observations))
            assert page.summary["mixture"]["verdict"] in ("better", "worse", "as good")
            assert "a mixture of" in page.html.lower()
        assert "The comparison needs data" in model_page(model).html
