from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.diagnosis.ranking import differential
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import enumerate_posterior


def row(present=(), absent=(), n_visible=6) -> Observations:
    return Observations.from_evidence(n_visible, present, absent)


class TestProbabilities:
    @pytest.mark.parametrize(
        ("present", "absent"), [([0, 1], []), ([0], [3]), ([3, 5], [1, 2]), ([4], []), ([], [0])]
    )
    def test_exact_as_by_enumerating_the_whole_network(self, clinic, deep, present, absent):
        for network in (clinic, deep):
            evidence = row(present, absent)
            found = differential(network, evidence)
            expected = enumerate_posterior(network, evidence).marginals[0]
            assert found.exact
            listed = [cause.index for cause in found.causes]
            np.testing.assert_allclose(found.probability[listed], expected[listed], atol=1e-12)
            assert sorted(listed, key=lambda k: -expected[k]) == listed
        # Without causes of their own, even those that nothing bears on are exact.
        found = differential(clinic, row(present, absent))
        expected = enumerate_posterior(clinic, row(present, absent)).marginals[0]
        np.testing.assert_allclose(found.probability, expected, atol=1e-12)

    def test_the_best_explanation(self, clinic):
        found = differential(clinic, row([0, 1], [4]))
        best = enumerate_posterior(clinic, row([0, 1], [4]))
        assert found.best == tuple(np.flatnonzero(best.map_states[0]))
        assert found.log_joint == pytest.approx(best.map_log_joint[0])
        assert [cause.name for cause in found.causes if cause.in_best] == ["flu"]

    @pytest.mark.parametrize("method", ["chains", "samples"])
    def test_sampling_comes_close_and_says_so(self, clinic, method):
        exact = differential(clinic, row([0, 1], [4]))
        found = differential(clinic, row([0, 1], [4]), method=method, n_samples=400)
        assert not found.exact
        assert found.method.startswith("estimated: 400")
        tolerance = 0.02 if method == "chains" else 0.15
        np.testing.assert_allclose(found.probability, exact.probability, atol=tolerance)

    def test_too_many_causes_to_enumerate(self):
        wide = nor.bipartite(3, 30, failure_probability=0.5)
        evidence = row([0], n_visible=3)
        assert not differential(wide, evidence).exact
        with pytest.raises(InvalidSettingError, match="30 causes"):
            differential(wide, evidence, method="exact")

    def test_one_row_only(self, clinic):
        with pytest.raises(InvalidDataError, match="one row"):
            differential(clinic, Observations.of(np.zeros((2, 6))))


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
        (cause,) = differential(network, row([0, 1], n_visible=2)).causes
        noise = -np.log(0.5)
        for explained, failure in zip(cause.explains, (0.1, 0.9), strict=True):
            theta = -np.log(failure)
            assert explained.share == pytest.approx(theta / (theta + noise), abs=1e-6)
        assert differential(network, row([0, 1], n_visible=2)).unexplained == ("column 1",)

    def test_through_the_layers(self, deep):
        found = differential(deep, row([0, 1, 2, 3]))
        above = next(cause for cause in found.causes if cause.index == 3)
        assert {item.index for item in above.explains} <= {0, 1, 2, 3}
        assert above.explains
        assert all(0 < item.share <= 1 for cause in found.causes for item in cause.explains)

    def test_noise(self, clinic):
        found = differential(clinic, row([4], [0, 1, 2, 3, 5]))
        assert found.causes[0].name == "asthma"
        quiet = clinic.with_theta(np.where(clinic.roles == "prior", 1e-5, clinic.theta))
        found = differential(quiet, row([4]))
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

        differential(network, row([0, 1], [4]), engine=Counting(), **options)
        return len(calls)

    @pytest.mark.parametrize(
        ("method", "expected"), [("auto", 0), ("exact", 0), ("chains", 2), ("samples", 2)]
    )
    def test_max_product_runs(self, clinic, method, expected):
        assert self.counted(clinic, method=method) == expected

    def test_an_unknown_method(self, clinic):
        with pytest.raises(InvalidSettingError, match="method must be"):
            differential(clinic, row([0]), method="guess")


def test_findings_by_name(clinic):
    result = nor.diagnosis.diagnose(clinic, ["Fever"], ["cough"])
    expected = enumerate_posterior(clinic, row([0], [1])).marginals[0]
    np.testing.assert_allclose(result.probability, expected, atol=1e-9)
    with pytest.raises(InvalidDataError, match=r"'Feaver'.*did you mean 'fever'"):
        nor.diagnosis.diagnose(clinic, ["Feaver"])
    with pytest.raises(InvalidDataError, match="both present and absent"):
        nor.diagnosis.diagnose(clinic, ["Fever"], ["fever"])
    with pytest.raises(InvalidDataError, match="list of names"):
        nor.diagnosis.diagnose(clinic, "Fever")
