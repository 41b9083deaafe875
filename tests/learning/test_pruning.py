"""What causes are worth, which ones are kept, and when counts are enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisyor as nor
from noisyor.datasets.synthetic import generate_bmf
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.learning.validation import leave_one_out_gain, prune_hidden
from noisyor.search.factors import search_factors
from noisyor.search.starts import is_determined_by_counts, start_from_factors


def clear_causes(n_causes: int = 5, width: int = 4) -> nor.Network:
    """Causes with columns of their own, each rarer than the last, so decoding is clear."""
    failure = np.ones((n_causes, n_causes * width))
    for cause in range(n_causes):
        failure[cause, cause * width : (cause + 1) * width] = 0.1
    prior = 0.5 ** np.arange(1, n_causes + 1)
    return nor.bipartite(
        n_causes * width,
        n_causes,
        failure_probability=failure,
        prior_probability=prior,
        noise_probability=0.01,
    )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_gain_is_what_the_exact_modes_lose(seed: int) -> None:
    network = clear_causes()
    rows = nor.sample(network, 30, seed=seed).visible.toarray()
    states = hidden_configurations(network.n_hidden)
    table = log_joint_table(network, states, rows)
    mode = states[table.argmax(axis=1)]
    expected = np.zeros(network.n_hidden)
    for cause in range(network.n_hidden):
        without = mode.copy()
        without[:, cause] = 0
        lost = nor.inference.log_joint(network, mode, rows) - nor.inference.log_joint(
            network, without, rows
        )
        expected[cause] = lost.mean()
    np.testing.assert_allclose(leave_one_out_gain(network, rows), expected, atol=1e-6)


def with_causes(network: nor.Network, causes: list[int], noise: object = 0.01) -> nor.Network:
    return nor.bipartite(
        network.n_visible,
        len(causes),
        noise="per_visible",
        failure_probability=network.failure_probability[causes],
        prior_probability=network.prior_probability[causes],
        noise_probability=noise,
    )


def columns_of(network: nor.Network) -> list[tuple[int, ...]]:
    """Of each cause the blocks of four columns that it switches on."""
    return sorted(tuple(set(np.flatnonzero(f < 0.5) // 4)) for f in network.failure_probability)


def test_of_two_equal_causes_one_is_kept() -> None:
    """Each could go, since the other explains as well; both must not."""
    truth = clear_causes(3)
    rows = nor.sample(truth, 400, seed=0).visible
    kept = prune_hidden(with_causes(truth, [0, 1, 2, 0]), rows, 4)
    assert columns_of(kept) == [(0,), (1,), (2,)]


def test_a_cause_of_one_column_is_noise() -> None:
    """It is worth a lot beside noise of 0.01, but nothing once the noise has its share."""
    generator = np.random.default_rng(0)
    truth = with_causes(clear_causes(3), [0, 1, 2], noise=np.r_[np.full(11, 0.01), 0.3])
    rows = nor.sample(truth, 1000, seed=1).visible
    failure = np.vstack([truth.failure_probability, np.r_[np.ones(11), 0.1]])
    network = nor.bipartite(
        12,
        4,
        noise="per_visible",
        failure_probability=failure,
        prior_probability=np.append(truth.prior_probability, 0.33),
        noise_probability=0.01 + 0.001 * generator.random(12),
    )
    assert 1000 * leave_one_out_gain(network, rows)[3] > 100
    kept = prune_hidden(network, rows, 4)
    assert columns_of(kept) == [(0,), (1,), (2,)]
    assert abs(kept.noise_probability[11] - 0.3) < 0.02


def test_the_rarest_go_first_and_nothing_goes_without_need() -> None:
    network = with_causes(clear_causes(), [0, 1, 2, 3, 4])
    rows = nor.sample(network, 2000, seed=1).visible
    assert columns_of(prune_hidden(network, rows, 3)) == [(0,), (1,), (2,)]
    assert prune_hidden(network, rows, 5).n_hidden == 5
    assert prune_hidden(network, rows, 9).n_hidden == 5


def test_a_cause_that_is_never_on_is_worth_nothing_and_one_stays() -> None:
    network = clear_causes()
    nothing = np.zeros((7, network.n_visible))
    assert leave_one_out_gain(network, nothing).tolist() == [0.0] * 5
    assert prune_hidden(network, nothing, 3).n_hidden == 1


def test_a_row_of_weight_two_counts_twice() -> None:
    network = clear_causes(3)
    rows = nor.Observations.of(nor.sample(network, 40, seed=3).visible)
    weights = np.arange(40) % 2 + 1.0
    copies = rows.take(np.repeat(np.arange(40), weights.astype(int)))
    np.testing.assert_allclose(
        leave_one_out_gain(network, rows.with_weights(weights)), leave_one_out_gain(network, copies)
    )


def test_noise_that_all_share_stays_as_it_is() -> None:
    network = clear_causes()  # shared noise
    rows = nor.sample(network, 500, seed=1).visible
    kept = prune_hidden(network, rows, 2)
    assert kept.n_hidden == 2
    assert kept.theta_of("noise").shape == (1,)
    np.testing.assert_allclose(kept.noise_probability, network.noise_probability)


class TestIsDeterminedByCounts:
    @pytest.mark.parametrize("flips", [0.0, 0.05])
    def test_of_edges_that_are_all_alike(self, flips: float) -> None:
        data = generate_bmf(120, 8, 2)
        generator = np.random.default_rng(0)
        rows = data.train ^ (generator.random(data.train.shape) < flips)
        found = search_factors(rows, 8)
        assert is_determined_by_counts(found)

    def test_not_of_edges_that_differ(self) -> None:
        network = clear_causes(4, 8)
        failure = network.failure_probability.copy()
        failure[:, ::2] = np.where(failure[:, ::2] < 1, 0.5, 1.0)
        network = nor.bipartite(
            32, 4, failure_probability=failure, prior_probability=0.3, noise_probability=0.01
        )
        rows = nor.sample(network, 1000, seed=3).visible
        found = search_factors(rows, 4)
        assert not is_determined_by_counts(found)
        start = start_from_factors(found)
        learned = np.sort(start.failure_probability, axis=0)[0]  # of the cause that has the column
        assert np.abs(learned[::2] - 0.5).max() < 0.15
        assert np.abs(learned[1::2] - 0.1).max() < 0.1


def test_extra_causes_leave_as_many_as_were_asked_for() -> None:
    network = clear_causes(5)
    rows = nor.sample(network, 1500, seed=2).visible
    learned = nor.learn_factors(rows, 3, steps=5, progress=False).network
    assert columns_of(learned) == [(0,), (1,), (2,)]  # the rarer two were extra


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be 1, 2, … or 'auto', got 0"),
        ({"n_components": 2.5}, "n_components must be 1, 2, … or 'auto', got 2.5"),
    ],
)
def test_wrong_numbers_of_causes_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(nor.NoisyOrError, match=message):
        nor.learn_factors(np.zeros((4, 3)), **options)  # type: ignore[arg-type]
