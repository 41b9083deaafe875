"""Gibbs sweeps of every engine: the documented draws, and counts held to enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from engine_calls import evidence_of
from random_networks import build, random_network, random_rows
from scipy.special import logsumexp
from sets import allowed, conditioned_table, independent, with_sets

import noisyor as nor
from noisyor.engines.contract import Evidence, NoiseKey
from noisyor.engines.noise import combine, uniform
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.model.graph import probability_from_theta

NEEDS = ("gibbs_sweep",)


def exact_counts(network, rows):
    """Expected credits and chances of every parameter, by enumeration, one row at a time.

    The prior of an alternative has its chance when it or no other of its set is on.
    """
    states = hidden_configurations(network.n_hidden)
    table = conditioned_table(network, states, rows)
    weight = np.exp(table - logsumexp(table, axis=1, keepdims=True))
    credit, chance = np.zeros(network.n_params), np.zeros(network.n_params)
    n_visible = network.n_visible
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
                of_set = network.alternatives == network.alternatives[max(node - n_visible, 0)]
                is_alternative = node >= n_visible and network.alternatives[node - n_visible] >= 0
                for parameter in acting:
                    if not is_alternative or nodes[node] or not state[of_set].any():
                        chance[parameter] += w
                    if nodes[node]:
                        credit[parameter] += w * success[parameter] / -np.expm1(-total)
    return credit, chance


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_credits_and_chances_are_those_of_the_posterior(engine, seed, missing):
    network = random_network(seed, max_hidden=5, max_visible=6, tied=seed % 2 == 1)
    network = with_sets(network, seed) if seed >= 4 else network
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
    """With one hidden node its probability is exact, and so is all but the credit of the noise."""
    network = nor.bipartite(3, 1, failure_probability=[[0.2, 0.6, 0.9]], prior_probability=0.3)
    rows = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [np.nan, 1, 0]], dtype=np.float64)
    states = np.zeros((4, 1), dtype=np.uint8)
    evidence = evidence_of(network, rows)
    _, *found = engine.gibbs_sweep(engine.prepare(network), evidence, states, NoiseKey(0))
    drawn = network.roles == "noise"
    for got, want in zip(found, exact_counts(network, rows), strict=True):
        np.testing.assert_allclose(got[~drawn], want[~drawn], rtol=1e-9)


def mixture(seed, n_visible=5, n_hidden=11):
    """One set of alternatives that are parents of everything, and rows with gaps."""
    generator = np.random.default_rng(seed)
    network = nor.bipartite(
        n_visible,
        n_hidden,
        failure_probability=generator.random((n_hidden, n_visible)),
        prior_probability=0.9 * generator.random(n_hidden),
        noise_probability=0.1,
    )
    return replace(network, alternatives=np.zeros(n_hidden, dtype=int)), random_rows(
        network, seed, n_rows=6, missing=0.2
    )


def test_a_set_alone_needs_no_samples(engine):
    """A set that is alone is drawn from its posterior: only the credit of the noise is a draw."""
    network, rows = mixture(0)
    states = np.zeros((6, network.n_hidden), dtype=np.uint8)
    states[:, 3] = 1
    evidence = evidence_of(network, rows)
    _, *found = engine.gibbs_sweep(engine.prepare(network), evidence, states, NoiseKey(0))
    drawn = network.roles == "noise"
    for got, want in zip(found, exact_counts(network, rows), strict=True):
        np.testing.assert_allclose(got[~drawn], want[~drawn], rtol=1e-9, atol=1e-9)


def test_a_set_alone_is_drawn_from_its_posterior(engine):
    network, rows = mixture(1)
    many = 50 if engine.name == "numpy" else 4000
    evidence = evidence_of(network, np.repeat(rows[:2], many, axis=0))
    states = np.zeros((2 * many, network.n_hidden), dtype=np.uint8)
    found = engine.gibbs_sweep(engine.prepare(network), evidence, states, NoiseKey(0)).states
    every = np.vstack([np.zeros(network.n_hidden), np.eye(network.n_hidden)])
    table = conditioned_table(network, every, rows[:2])
    want = np.exp(table - logsumexp(table, axis=1, keepdims=True))[:, 1:]
    share = found.reshape(2, many, -1).mean(axis=1)
    np.testing.assert_allclose(share, want, atol=4 * 0.5 / many**0.5)


@pytest.mark.parametrize("seed", range(6))
def test_alternatives_are_drawn_at_once_with_the_documented_noise(engine, seed):
    """At the turn and with the noise of the first one: none first, then they in their order."""
    network = with_sets(random_network(seed, max_hidden=7), seed)
    if seed % 2:
        network, _ = mixture(seed)
        network = replace(network, alternatives=np.array([-1, 1, 0, 0, -1, 0, 0, 1, 1, -1, 1]))
    rows = random_rows(network, seed, 4, missing=0.2)
    n_hidden, number = network.n_hidden, network.alternatives
    every = hidden_configurations(n_hidden)
    start = np.random.default_rng(seed).choice(every[allowed(network, every)], 4)
    evidence = evidence_of(network, rows)
    found = engine.gibbs_sweep(engine.prepare(network), evidence, start, NoiseKey(9, 5)).states
    for row in range(4):
        draws = uniform(combine(combine(combine(9, row), 5), np.arange(n_hidden)))
        state = start[row].copy()
        for k in range(n_hidden):
            members = np.flatnonzero(number == number[k]) if number[k] >= 0 else np.array([k])
            if k > members[0]:
                continue
            options = np.repeat(state[None], len(members) + 1, axis=0)
            options[:, members] = np.vstack([np.zeros(len(members)), np.eye(len(members))])
            table = log_joint_table(independent(network), options, rows[row : row + 1])[0]
            share = np.exp(table - logsumexp(table))
            if number[k] < 0:  # the interval of an independent node begins with being on
                state[k] = draws[k] < share[1]
            else:
                state = options[np.searchsorted(np.cumsum(share), draws[k], "right")]
        np.testing.assert_array_equal(found[row], state)


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
        network = with_sets(network, seed, share=generator.choice([0.0, 0.5, 1.0]))
        rows = random_rows(network, seed, 5, missing=0.2 * (seed % 2))
        hidden = np.full((5, n_hidden), np.nan)
        if seed % 4 == 0:
            hidden[:, generator.integers(n_hidden)] = 0
            hidden[:3, generator.integers(n_hidden)] = 1
        evidence = evidence_of(network, rows, hidden, weights=generator.integers(1, 4, 5))
        prepared = engine.prepare(network)
        if not dense:
            prepared.dense = None
        states = np.zeros((5, n_hidden), dtype=np.uint8)
        for step in range(4):
            want = reference.gibbs_sweep(
                reference.prepare(network), evidence, states, NoiseKey(seed, step)
            )
            got = engine.gibbs_sweep(prepared, evidence, states, NoiseKey(seed, step))
            np.testing.assert_array_equal(got.states, want.states)
            np.testing.assert_allclose(got.credit, want.credit, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(got.chance, want.chance, rtol=1e-9, atol=1e-9)
            states = got.states


def test_an_alternative_that_is_known_excludes_the_others(engine):
    network, rows = mixture(2)
    hidden = np.full((6, network.n_hidden), np.nan)
    hidden[:3, 4], hidden[3:, 2] = 1, 0
    states = np.zeros((6, network.n_hidden), dtype=np.uint8)
    states[:, 7] = 1
    evidence = evidence_of(network, rows, hidden)
    found = engine.gibbs_sweep(engine.prepare(network), evidence, states, NoiseKey(0))
    assert (found.states[:3] == np.eye(network.n_hidden)[4]).all()
    assert not found.states[3:, 2].any()
    assert (found.states.sum(axis=1) <= 1).all()


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
