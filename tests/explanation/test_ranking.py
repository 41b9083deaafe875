from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.explanation.ranking import (
    cause_posterior,
    find_visible,
    named_evidence,
    rank_causes,
    state_of_finding,
    with_finding,
)
from noisyor.inference.exact import enumerate_posterior
from noisyor.model.names import visible_label
from noisyor.model.network import relevant_subnetwork


def row(present=(), absent=(), n_visible=6) -> Observations:
    return Observations.from_evidence(n_visible, present, absent)


class TestProbabilities:
    @pytest.mark.parametrize(
        ("present", "absent"), [([0, 1], []), ([0], [3]), ([3, 5], [1, 2]), ([4], []), ([], [0])]
    )
    def test_exact_as_by_enumerating_the_whole_network(self, clinic, deep, present, absent):
        for network in (clinic, deep):
            evidence = row(present, absent)
            found = rank_causes(network, evidence)
            expected = enumerate_posterior(network, evidence).marginals[0]
            assert found.exact
            listed = [cause.index for cause in found.causes]
            np.testing.assert_allclose(found.probability[listed], expected[listed], atol=1e-12)
            assert sorted(listed, key=lambda k: -expected[k]) == listed
        # Without causes of their own, even those that nothing bears on are exact.
        found = rank_causes(clinic, row(present, absent))
        expected = enumerate_posterior(clinic, row(present, absent)).marginals[0]
        np.testing.assert_allclose(found.probability, expected, atol=1e-12)

    def test_the_best_explanation(self, clinic):
        found = rank_causes(clinic, row([0, 1], [4]))
        best = enumerate_posterior(clinic, row([0, 1], [4]))
        assert found.best == tuple(np.flatnonzero(best.map_states[0]))
        assert found.log_joint == pytest.approx(best.map_log_joint[0])
        assert [cause.name for cause in found.causes if cause.in_best] == ["flu"]

    def test_sampling_comes_close_and_says_so(self, clinic):
        exact = rank_causes(clinic, row([0, 1], [4]))
        found = rank_causes(clinic, row([0, 1], [4]), method="chains", n_samples=400)
        assert not found.exact
        assert found.method.startswith("estimated: 400")
        np.testing.assert_allclose(found.probability, exact.probability, atol=0.02)

    def test_too_many_causes_to_enumerate(self):
        wide = nor.bipartite(3, 30, failure_probability=0.5)
        evidence = row([0], n_visible=3)
        assert not rank_causes(wide, evidence).exact
        with pytest.raises(InvalidSettingError, match="30 causes"):
            rank_causes(wide, evidence, method="exact")

    def test_one_row_only(self, clinic):
        with pytest.raises(InvalidDataError, match="one row"):
            rank_causes(clinic, Observations.of(np.zeros((2, 6))))


class TestWhatIsExplained:
    def test_shares_by_hand(self):
        """One cause is certain to be on; what is due to it follows theta."""
        network = nor.bipartite(
            2,
            1,
            failure_probability=[[0.1, 0.9]],
            prior_probability=1 - 1e-12,
            noise_probability=0.5,
        )
        (cause,) = rank_causes(network, row([0, 1], n_visible=2)).causes
        noise = -np.log(0.5)
        for explained, failure in zip(cause.explains, (0.1, 0.9), strict=True):
            theta = -np.log(failure)
            assert explained.share == pytest.approx(theta / (theta + noise), abs=1e-6)
        assert rank_causes(network, row([0, 1], n_visible=2)).unexplained == ("column 1",)

    def test_through_the_layers(self, deep):
        found = rank_causes(deep, row([0, 1, 2, 3]))
        above = next(cause for cause in found.causes if cause.index == 3)
        assert {item.index for item in above.explains} <= {0, 1, 2, 3}
        assert above.explains
        assert all(0 < item.share <= 1 for cause in found.causes for item in cause.explains)

    def test_noise(self, clinic):
        found = rank_causes(clinic, row([4], [0, 1, 2, 3, 5]))
        assert found.causes[0].name == "asthma"
        quiet = clinic.with_theta(np.where(clinic.roles == "prior", 1e-5, clinic.theta))
        found = rank_causes(quiet, row([4]))
        assert found.unexplained == ("wheezing",)
        assert found.best == ()


class TestWork:
    """Max-product runs twice for a sampled row, and not at all for an enumerated one."""

    @staticmethod
    def counted(network, **options) -> int:
        calls = []

        class Counting(type(get_engine("numba"))):
            def max_product(self, *arguments, **settings):
                calls.append(arguments)
                return super().max_product(*arguments, **settings)

        rank_causes(network, row([0, 1], [4]), engine=Counting(), **options)
        return len(calls)

    @pytest.mark.parametrize(("method", "expected"), [("auto", 0), ("exact", 0), ("chains", 2)])
    def test_max_product_runs(self, clinic, method, expected):
        assert self.counted(clinic, method=method) == expected

    def test_an_unknown_method(self, clinic):
        with pytest.raises(InvalidSettingError, match="method must be"):
            rank_causes(clinic, row([0]), method="guess")


def test_evidence_by_name(clinic):
    found = rank_causes(clinic, named_evidence(clinic, ["Fever", 3], ["cough"]))
    expected = enumerate_posterior(clinic, row([0, 3], [1])).marginals[0]
    np.testing.assert_allclose(found.probability, expected, atol=1e-9)
    with pytest.raises(InvalidDataError, match=r"'Feaver'.*'fever'"):
        named_evidence(clinic, ["Feaver"])
    with pytest.raises(InvalidDataError, match="both present and absent"):
        named_evidence(clinic, ["Fever"], ["fever"])
    with pytest.raises(InvalidDataError, match="list of names"):
        named_evidence(clinic, "Fever")


def test_found_in_any_case_or_by_number(clinic, deep):
    assert find_visible(clinic, "Red Eyes") == 5
    assert find_visible(clinic, "2") == 2
    assert find_visible(deep, "column 3") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fevr", "'fevr'.*did you mean 'fever'"),
        ("eyes", "did you mean 'red eyes'"),
        ("xyz", "'xyz'"),
    ],
)
def test_near_matches(clinic, text, message):
    with pytest.raises(InvalidDataError, match=message):
        find_visible(clinic, text)


def test_numbers_where_there_are_no_names(deep):
    with pytest.raises(InvalidDataError, match=r"have no names.*0 to 5"):
        find_visible(deep, "6")


def test_every_finding_can_be_known_otherwise():
    row = Observations.from_evidence(6, [2], [4])
    assert [state_of_finding(row, k) for k in (2, 4, 0)] == ["present", "absent", "unknown"]
    for finding in (2, 4, 0):
        for state in ("present", "absent", "unknown"):
            other = with_finding(row, finding, state)
            assert state_of_finding(other, finding) == state
            rest = [k for k in range(6) if k != finding]
            assert [state_of_finding(other, k) for k in rest] == [
                state_of_finding(row, k) for k in rest
            ]


def test_pixels_go_by_their_place():
    image = nor.convolutional((4, 5), 1, (2, 2))
    assert find_visible(image, visible_label(image, 7)) == 7
    for outside in ("pixel 4,0", "pixel 0,5", "pixel 1"):
        with pytest.raises(InvalidDataError):
            find_visible(image, outside)


def test_sweeps_agree_with_enumeration_within_their_errors(clinic, deep):
    for network in (clinic, deep):
        part = relevant_subnetwork(network, nor.Observations.from_evidence(6, [0, 1], [3]))
        found = cause_posterior(part, "sweeps", 256, seed=1, engine="auto")
        expected = enumerate_posterior(part.network, part.row).marginals[0]
        assert (np.abs(found.probability - expected) <= 4 * found.error + 0.005).all()
        assert found.weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(found.weights @ found.states, found.probability)
        assert not found.exact


def test_sweeps_are_a_function_of_the_seed(clinic):
    part = relevant_subnetwork(clinic, nor.Observations.from_evidence(6, [0]))
    first, same, other = (
        cause_posterior(part, "sweeps", 8, seed=seed, engine="auto").probability
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


def test_one_chain_has_no_error(clinic):
    part = relevant_subnetwork(clinic, nor.Observations.from_evidence(6, [0]))
    with pytest.raises(InvalidSettingError, match="n_samples"):
        cause_posterior(part, "sweeps", 1, seed=0, engine="auto")


def test_an_empty_row_is_ranked_by_the_prior(clinic):
    found = rank_causes(clinic, Observations.from_evidence(clinic.n_visible))
    np.testing.assert_allclose(found.probability, clinic.prior_probability)
    assert found.causes[0].index == int(np.argmax(clinic.prior_probability))
    assert found.best == ()
