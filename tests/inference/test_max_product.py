"""Settings of max-product, evidence on causes, and the bound Elbo^MP."""

import numpy as np
import pytest
from engine_calls import explained, mean_gradient
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table


@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_settings_reach_the_engine(name):
    network = random_network(4, max_hidden=8, max_visible=10)
    x = random_rows(network, 4, n_rows=4, missing=0.3)
    method = nor.MaxProduct(
        temperature=0.7,
        max_iterations=9,
        damping=0.2,
        tolerance=0.1,
        ancestors_only=True,
        icm=2,
        n_samples=2,
        keep_beliefs=True,
        schedule="two-stage",
    )
    posterior = nor.explain(network, x, method, seed=5, hidden={1: 1}, engine=name)
    known = np.full((1, network.n_hidden), np.nan)
    known[0, 1] = 1
    expected = explained(
        get_engine(name),
        network,
        x,
        hidden=known,
        seed=5,
        icm=2,
        temperature=0.7,
        max_iterations=9,
        step=0.8,
        tolerance=0.1,
        ancestors_only=True,
        n_samples=2,
        two_stage=True,
    )
    np.testing.assert_array_equal(posterior.states.toarray(), expected.states)
    np.testing.assert_array_equal(posterior.beliefs, expected.beliefs)
    np.testing.assert_array_equal(posterior.iterations, expected.iterations)
    np.testing.assert_array_equal(posterior.residual, expected.residual)
    np.testing.assert_array_equal(posterior.log_joint, expected.log_joint)
    assert posterior.converged.tolist() == (expected.residual < 0.1).tolist()


def test_a_clamp_by_name_holds_for_all_rows():
    network = nor.bipartite(4, 3, hidden_names=("flu", "cold", "hay fever"))
    posterior = nor.explain(network, np.eye(4), nor.MaxProduct(icm=5), hidden={"flu": 1, 2: 0})
    assert (posterior.states.toarray()[:, 0] == 1).all()
    assert (posterior.states.toarray()[:, 2] == 0).all()


def test_blocks_of_rows_do_not_change_anything(monkeypatch):
    network = random_network(8, max_hidden=10, max_visible=10)
    x = random_rows(network, 8, n_rows=50)
    method = nor.MaxProduct(temperature=1.0)
    whole = nor.explain(network, x, method, seed=4)
    monkeypatch.setattr("noisyor.inference.method.BLOCK_BYTES", 7 * network.n_hidden)
    blocks = nor.explain(network, x, method, seed=4)
    np.testing.assert_array_equal(whole.states.toarray(), blocks.states.toarray())
    np.testing.assert_array_equal(whole.log_joint, blocks.log_joint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0, got -1.0"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_iterations": 2.5}, "max_iterations"),
        ({"damping": 1.0}, r"damping must be in \[0, 1\)"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"icm": -1}, "icm"),
        ({"n_samples": 0}, "n_samples"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidSettingError, match=message):
        nor.MaxProduct(**options)


def test_evidence_on_hidden_nodes_is_checked():
    network = nor.bipartite(3, 2)
    x = np.zeros((1, 3))
    with pytest.raises(InvalidDataError, match=r"row 0, node 1.*0\.5"):
        nor.explain(network, x, hidden=[[0, 0.5]])
    with pytest.raises(InvalidDataError, match=r"shape \(1, 2\), got \(2, 2\)"):
        nor.explain(network, x, hidden=np.zeros((2, 2)))
    with pytest.raises(InvalidDataError, match="2"):
        nor.explain(network, x, hidden={0: 2})
    with pytest.raises(InvalidSettingError, match="seed"):
        nor.explain(network, x, seed=-1)
    with pytest.raises(InvalidSettingError, match="n_threads"):
        nor.explain(network, x, engine=get_engine(n_threads=0))


def test_the_data_must_fit_the_network():
    with pytest.raises(InvalidDataError, match="3"):
        nor.explain(nor.bipartite(3, 2), np.zeros((1, 4)))


def test_an_unknown_schedule_is_refused():
    with pytest.raises(InvalidSettingError, match="'collapsed' or 'two-stage', got 'three-stage'"):
        nor.MaxProduct(schedule="three-stage")


# ---- the bound and its gradient


@pytest.mark.parametrize("seed", range(20))
def test_log_joint_equals_the_enumerated_table(seed):
    network = random_network(seed, tied=seed % 2 == 0)
    x = random_rows(network, seed, n_rows=1, missing=0.3 if seed % 3 == 0 else 0.0)
    states = hidden_configurations(network.n_hidden)
    table = log_joint_table(network, states, x)
    repeated = np.repeat(x, len(states), axis=0)
    np.testing.assert_allclose(
        nor.inference.log_joint(network, states, repeated), table[0], rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_gradient_equals_finite_differences(seed, samples, tied):
    network = random_network(seed, tied=tied)
    x = random_rows(network, seed, n_rows=3, missing=0.3 if seed % 2 else 0.0)
    states = np.random.default_rng(seed).integers(0, 2, (3 * samples, network.n_hidden))

    def value(theta):
        repeated = np.repeat(x, samples, axis=0)
        return nor.inference.log_joint(network.with_theta(theta), states, repeated).mean()

    result = mean_gradient(network, x, states)
    assert result.value == pytest.approx(value(network.theta))
    for entry in range(network.n_params):
        width = 1e-6 * (1 + network.theta[entry])
        above, below = np.array(network.theta), np.array(network.theta)
        above[entry] += width
        below[entry] -= width
        slope = (value(above) - value(below)) / (2 * width)
        expected = slope if network.free[entry] else 0.0
        assert result.gradient[entry] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradient_of_many_rows_is_the_mean_of_the_rows():
    network = random_network(2, max_hidden=5, max_visible=6)
    x = random_rows(network, 2, n_rows=1500)  # several blocks of partial sums
    states = np.random.default_rng(0).integers(0, 2, (1500, network.n_hidden))
    whole = mean_gradient(network, x, states, engine=get_engine(n_threads=2))
    parts = [
        mean_gradient(network, x[part], states[part]) for part in np.array_split(np.arange(1500), 5)
    ]
    np.testing.assert_allclose(whole.gradient, np.mean([p.gradient for p in parts], axis=0))
    again = mean_gradient(network, x, states, engine=get_engine(n_threads=1))
    np.testing.assert_array_equal(whole.gradient, again.gradient)


def test_states_are_checked():
    network = nor.bipartite(3, 2)
    with pytest.raises(InvalidDataError, match=r"shape \(1, 2\), got \(1, 3\)"):
        nor.inference.log_joint(network, np.zeros((1, 3)), np.zeros((1, 3)))
    with pytest.raises(InvalidDataError, match="0 or 1"):
        nor.inference.log_joint(network, np.full((1, 2), 2), np.zeros((1, 3)))
