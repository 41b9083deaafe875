from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidNetworkError, MissingExtraError
from noisyor.inference import enumerate_posterior

NETWORK = nor.from_edges(
    3,
    3,
    [("flu", "fever"), ("flu", "cough"), ("cold", "cough"), ("cold", "red eyes")],
    [("winter", "flu"), ("winter", "cold")],
    failure_probability=[0.2, 0.4, 0.3, 0.6, 0.7, 0.5],
    prior_probability=[0.05, 0.1, 0.25],
    noise_probability=[0.01, 0.02, 0.03],
    visible_names=["fever", "cough", "red eyes"],
    hidden_names=["flu", "cold", "winter"],
)


class TestWithPgmpy:
    @pytest.fixture(autouse=True)
    def _pgmpy(self):
        pytest.importorskip("pgmpy", reason='pip install "noisyor[compare]" brings pgmpy')

    def test_the_joint_probability_is_the_same(self):
        model = nor.io.to_pgmpy(NETWORK)
        assert model.check_model()
        keys = [*NETWORK.visible_names, *NETWORK.hidden_names]
        for states in product([0, 1], repeat=6):
            named = {key: str(bool(state)) for key, state in zip(keys, states, strict=True)}
            theirs = model.get_state_probability({**named, "always on": "True"})
            hidden, visible = np.array([states[3:]]), np.array([states[:3]])
            ours = nor.inference.log_joint(NETWORK, hidden, visible)[0]
            assert np.log(theirs) == pytest.approx(ours, abs=1e-9)

    def test_it_infers_the_same(self):
        from pgmpy.inference import VariableElimination

        inference = VariableElimination(nor.io.to_pgmpy(NETWORK))
        evidence = nor.Observations.from_evidence(3, [0], [1])
        expected = enumerate_posterior(NETWORK, evidence).marginals[0]
        for name, probability in zip(NETWORK.hidden_names, expected, strict=True):
            found = inference.query(
                [name], {"fever": "True", "cough": "False"}, show_progress=False
            )
            assert found.get_value(**{name: "True"}) == pytest.approx(probability)

    def test_there_and_back(self):
        again = nor.io.from_pgmpy(nor.io.to_pgmpy(NETWORK))
        assert again.visible_names == NETWORK.visible_names
        assert again.hidden_names == NETWORK.hidden_names
        np.testing.assert_array_equal(again.parent, NETWORK.parent)
        np.testing.assert_allclose(again.failure_probability, NETWORK.failure_probability)
        np.testing.assert_allclose(again.prior_probability, NETWORK.prior_probability)
        np.testing.assert_allclose(again.noise_probability, NETWORK.noise_probability)

    def test_a_model_made_in_pgmpy(self):
        from pgmpy.factors.discrete import NoisyORCPD, TabularCPD
        from pgmpy.models import DiscreteBayesianNetwork

        model = DiscreteBayesianNetwork([("a", "x"), ("a", "y"), ("b", "y")])
        a = TabularCPD("a", 2, [[0.3], [0.7]], state_names={"a": ["True", "False"]})
        b = TabularCPD("b", 2, [[0.9], [0.1]], state_names={"b": ["False", "True"]})
        model.add_cpds(a, b, NoisyORCPD("x", [0.8], ["a"]), NoisyORCPD("y", [0.5, 0.6], ["a", "b"]))
        network = nor.io.from_pgmpy(model)
        assert (network.visible_names, network.hidden_names) == (("x", "y"), ("a", "b"))
        np.testing.assert_allclose(network.prior_probability, [0.3, 0.1])
        np.testing.assert_allclose(network.failure_probability, [0.2, 0.5, 0.4])
        np.testing.assert_allclose(network.noise_probability, 1e-5, rtol=1e-4)
        with pytest.raises(InvalidNetworkError, match="'a' is not a node without children"):
            nor.io.from_pgmpy(model, visible=["a"])
        table = TabularCPD("x", 2, [[0.8, 0.1], [0.2, 0.9]], ["a"], [2])
        model.remove_cpds("x")
        with pytest.raises(InvalidNetworkError, match="'x' has no CPD"):
            nor.io.from_pgmpy(model)
        model.add_cpds(table)
        with pytest.raises(InvalidNetworkError, match="'x' has parents and a TabularCPD"):
            nor.io.from_pgmpy(model)

    def test_what_pgmpy_cannot_hold(self):
        with pytest.raises(InvalidNetworkError, match=r"'v0' has 16 parents.*at most 15"):
            nor.io.to_pgmpy(nor.bipartite(1, 16))
        named = nor.from_edges(1, 1, [(0, 0)], hidden_names=["always on"], visible_names=["x"])
        with pytest.raises(InvalidNetworkError, match="always on"):
            nor.io.to_pgmpy(named)


def test_without_pgmpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    for action in (lambda: nor.io.to_pgmpy(NETWORK), lambda: nor.io.from_pgmpy(object())):
        with pytest.raises(MissingExtraError, match=r"noisyor\[compare\]"):
            action()
