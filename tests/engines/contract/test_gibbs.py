"""Gibbs sweeps of every engine: the documented draws, and counts held to enumeration."""

import numpy as np
import pytest
from engine_calls import evidence_of
from random_networks import build, random_network, random_rows
from scipy.special import logsumexp

import noisyor as nor
from noisyor.engines.contract import Evidence, NoiseKey
from noisyor.engines.noise import combine, uniform
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.model.network import probability_from_theta

NEEDS = ("gibbs_sweep",)


def exact_counts(network, rows):
    """Expected credits and chances of every parameter, by enumeration, one row at a time."""
    states = hidden_configurations(network.n_hidden)
    table = log_joint_table(network, states, rows)
    weight = np.exp(table - logsumexp(table, axis=1, keepdims=True))
    successes, trials = np.zeros(network.n_params), np.zeros(network.n_params)
    success = probability_from_theta(network.theta)
    for row, of_row in zip(rows, weight, strict=True):
        for state, w in zip(states[of_row > 0], of_row[of_row > 0], strict=True):
            nodes = np.concatenate([row, state])
            for node in range(network.n_nodes):
                if np.isnan(nodes[node]):
                    continue
                edges = np.arange(network.child_ptr[node], network.child_ptr[node + 1])
                acting = [network.leak_param[node]]
                acting += [network.param[e] for e in edges if state[network.parent[e]]]
                total = network.theta[acting].sum()
                for parameter in acting:
                    trials[parameter] += w
                    if nodes[node]:
                        successes[parameter] += w * success[parameter] / -np.expm1(-total)
    return successes, trials


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_credits_and_chances_are_those_of_the_posterior(engine, seed, missing):
    network = random_network(seed, max_hidden=5, max_visible=6, tied=seed % 2 == 1)
    rows = random_rows(network, seed, n_rows=3, missing=missing)
    # Independent chains of the same rows, and the average over sweeps of the slow engine.
    many, sweeps, first = (30, 10, 4) if engine.name == "numpy" else (1500, 20, 19)
    evidence = evidence_of(network, np.repeat(rows, many, axis=0))
    states = np.zeros((evidence.n_rows, network.n_hidden), dtype=np.uint8)
    prepared, total = engine.prepare(network), np.zeros((2, network.n_params))
    for number in range(sweeps):
        states, *found = engine.gibbs_sweep(prepared, evidence, states, NoiseKey(1, number))
        total += np.array(found) if number >= first else 0.0
    wide = 2.0 if engine.name == "numpy" else 1.0  # as there are fewer draws
    for got, want in zip(total / (sweeps - first), exact_counts(network, rows), strict=True):
        np.testing.assert_allclose(got / many, want, atol=0.1 * wide)


def test_one_cause_needs_no_samples(engine):
    """With one hidden node its probability is exact, and so are all successes but of noise."""
    network = nor.bipartite(3, 1, failure_probability=[[0.2, 0.6, 0.9]], prior_probability=0.3)
    rows = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [np.nan, 1, 0]], dtype=np.float64)
    states = np.zeros((4, 1), dtype=np.uint8)
    evidence = evidence_of(network, rows)
    _, *found = engine.gibbs_sweep(engine.prepare(network), evidence, states, NoiseKey(0))
    drawn = network.roles == "noise"
    for got, want in zip(found, exact_counts(network, rows), strict=True):
        np.testing.assert_allclose(got[~drawn], want[~drawn], rtol=1e-9)


@pytest.mark.parametrize("dense", [True, False])
def test_matrices_and_lists_of_edges_agree(dense):
    """Bipartite networks have a layout of their own in the compiled engine."""
    reference, engine = get_engine("numpy"), get_engine("numba", n_threads=2)
    for seed in range(12):
        generator = np.random.default_rng(seed)
        n_hidden, n_visible = generator.integers(1, 30), generator.integers(1, 20)
        edges = [(k, i) for k in range(n_hidden) for i in range(n_visible)]
        scale = 0.3 if seed % 2 else 8.0
        network = build(n_visible, n_hidden, edges, generator, scale=scale, tied=seed % 3 == 0)
        rows = random_rows(network, seed, 5, missing=0.2 * (seed % 2))
        hidden = np.full((5, n_hidden), np.nan)
        if seed % 4 == 0:
            hidden[:, generator.integers(n_hidden)] = 0
            hidden[:3, generator.integers(n_hidden)] = 1
        evidence = evidence_of(network, rows, hidden, weights=generator.integers(1, 4, 5))
        prepared = engine.prepare(network)
        if not dense:
            prepared.matrices = None  # the kernel for lists of edges
        states = np.zeros((5, n_hidden), dtype=np.uint8)
        for step in range(4):
            want = reference.gibbs_sweep(
                reference.prepare(network), evidence, states, NoiseKey(seed, step)
            )
            got = engine.gibbs_sweep(prepared, evidence, states, NoiseKey(seed, step))
            np.testing.assert_array_equal(got.states, want.states)
            np.testing.assert_allclose(got.successes, want.successes, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(got.trials, want.trials, rtol=1e-9, atol=1e-9)
            states = got.states


@pytest.mark.parametrize("seed", range(6))
def test_nodes_are_drawn_in_turn_with_the_documented_noise(engine, seed):
    network = random_network(seed, max_hidden=6)
    rows = random_rows(network, seed, 4, missing=0.2)
    generator, evidence = np.random.default_rng(seed), evidence_of(network, rows)
    start = generator.integers(0, 2, (4, network.n_hidden)).astype(np.uint8)
    found = engine.gibbs_sweep(engine.prepare(network), evidence, start, NoiseKey(9, 5)).states
    for row in range(4):
        draws = uniform(combine(combine(combine(9, row), 5), np.arange(network.n_hidden)))
        state = start[row].copy()
        for k in range(network.n_hidden):  # isolated nodes may as well come in their turn
            both = np.array([state, state])
            both[:, k] = 0, 1
            off, on = log_joint_table(network, both, rows[row : row + 1])[0]
            state[k] = draws[k] < 1 / (1 + np.exp(off - on))
        np.testing.assert_array_equal(found[row], state)


def test_clamped_nodes_stay(engine):
    network = nor.bipartite(4, 3, failure_probability=0.3, prior_probability=0.5)
    rows = np.tile([1.0, 0.0, 1.0, np.nan], (40, 1))
    evidence = evidence_of(network, rows, hidden=np.array([[1.0, 0.0, np.nan]]))
    states = np.zeros((40, 3), dtype=np.uint8)
    found = engine.gibbs_sweep(engine.prepare(network), evidence, states, NoiseKey(0))
    assert found.states[:, 0].all()
    assert not found.states[:, 1].any()
    assert 0 < found.states[:, 2].mean() < 1


def test_draws_depend_on_the_row_id_and_the_sweep_alone(engine):
    network = random_network(5, max_hidden=6)
    observations = nor.Observations.of(random_rows(network, 5, 10))
    states = np.zeros((10, network.n_hidden), dtype=np.uint8)
    prepared = engine.prepare(network)

    def draw(order, key):
        rows = Evidence.of(network, observations.take(order))
        return engine.gibbs_sweep(prepared, rows, states[order], key).states

    order = np.random.default_rng(0).permutation(10)
    whole = draw(np.arange(10), NoiseKey(3, 1))
    np.testing.assert_array_equal(draw(order, NoiseKey(3, 1)), whole[order])
    assert (draw(np.arange(10), NoiseKey(3, 2)) != whole).any()
    assert (draw(np.arange(10), NoiseKey(4, 1)) != whole).any()
