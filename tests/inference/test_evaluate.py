"""Both bounds of test rows, their means and the paper's maximum."""

import numpy as np
import pytest
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import EvaluationResult, Score
from noisyor.inference.max_product import method_for


@pytest.fixture
def problem():
    network = random_network(7, max_hidden=7, max_visible=8)
    return network, random_rows(network, 1, 40, missing=0.1)


def test_both_bounds_by_default(problem):
    network, x = problem
    result = nor.evaluate(network, x)
    assert (result.elbo_mp.per_row == nor.explain(network, x, nor.MaxProduct()).log_joint).all()
    by_vi = nor.explain(network, x, nor.MeanField())
    assert (result.elbo_vi.per_row == by_vi.elbo_vi).all()
    exact = nor.inference.enumerate_posterior(network, x).log_likelihood
    for score in (result.elbo_mp, result.elbo_vi):
        assert (score.per_row <= exact + 1e-9).all()


def test_mean_and_standard_error(problem):
    network, x = problem
    score = nor.evaluate(network, x).elbo_vi
    assert score.mean == pytest.approx(score.per_row.mean())
    assert score.standard_error == pytest.approx(score.per_row.std(ddof=1) / np.sqrt(40))
    assert str(score) == f"{score.mean:.4f} ± {score.standard_error:.4f}"
    assert np.isnan(nor.evaluate(network, x[:1]).elbo_vi.standard_error)


def test_the_elbo_is_the_larger_mean_not_the_mean_of_the_larger():
    mp, vi = Score(np.array([-1.0, -9.0])), Score(np.array([-3.0, -5.0]))
    assert EvaluationResult(mp, vi).elbo is vi
    assert EvaluationResult(vi, mp).elbo is vi
    assert EvaluationResult(mp).elbo is mp
    shown = repr(EvaluationResult(mp, vi))
    assert shown == "EvaluationResult(rows=2, elbo_mp=-5.0000 ± 4.0000, elbo_vi=-4.0000 ± 1.0000)"


def test_one_method_alone(problem):
    network, x = problem
    mp = nor.evaluate(network, x, nor.MaxProduct(temperature=1.0))  # at temperature zero
    assert (mp.elbo_mp.per_row == nor.evaluate(network, x).elbo_mp.per_row).all()
    assert mp.elbo_vi is None
    assert mp.elbo is mp.elbo_mp
    vi = nor.evaluate(network, x, [nor.MeanField()])
    assert (vi.elbo_mp.per_row == nor.explain(network, x, nor.MeanField()).log_joint).all()


def test_local_bounds_are_below_full_ones_and_settings_are_used(problem):
    network, x = problem
    sparse = np.where(np.nan_to_num(x) * (np.arange(network.n_visible) < 2) > 0, 1, 0)
    full, local = (
        nor.evaluate(
            network, sparse, (nor.MaxProduct(ancestors_only=flag), nor.MeanField(local=flag))
        )
        for flag in (False, True)
    )
    assert local.elbo_vi.mean <= full.elbo_vi.mean + 1e-6
    coarse = nor.evaluate(network, x, nor.MeanField(outer=1, r_iterations=0))
    assert coarse.elbo_vi.mean < nor.evaluate(network, x, nor.MeanField()).elbo_vi.mean


def test_threads_do_not_matter(problem):
    network, x = problem
    one, several = (nor.evaluate(network, x, engine=get_engine(n_threads=n)) for n in (1, 3))
    assert (one.elbo_mp.per_row == several.elbo_mp.per_row).all()
    assert (one.elbo_vi.per_row == several.elbo_vi.per_row).all()


@pytest.mark.parametrize(
    "methods", [[], ["max-product"], [nor.MeanField(), nor.MeanField(local=True)]]
)
def test_methods_that_make_no_sense_are_refused(problem, methods):
    with pytest.raises(InvalidSettingError, match="method"):
        nor.evaluate(*problem, methods)


def test_the_default_of_explain_is_the_default_method_of_the_network():
    """In several layers a likely cause that explains nothing is off; in one layer it is on."""
    deep = nor.from_edges(
        2, 3, [(0, 0), (1, 1)], [(2, 0)], failure_probability=0.5, prior_probability=0.9
    )
    assert method_for(deep).ancestors_only
    assert nor.explain(deep, np.array([[1, 0]])).states.toarray().tolist() == [[1, 0, 1]]
    flat = nor.from_edges(2, 2, [(0, 0), (1, 1)], failure_probability=0.5, prior_probability=0.9)
    assert not method_for(flat).ancestors_only
    assert nor.explain(flat, np.array([[1, 0]])).states.toarray().tolist() == [[1, 1]]
