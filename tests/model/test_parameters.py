import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyor.errors import InvalidNetworkError
from noisyor.model.network import (
    THETA_MIN,
    failure_from_theta,
    probability_from_theta,
    theta_from_failure,
    theta_from_probability,
)


@given(st.floats(1e-300, 0.9999))
def test_failure_probability_survives_the_round_trip(failure):
    assert failure_from_theta(theta_from_failure(failure)) == pytest.approx(failure, rel=1e-12)


@given(st.floats(1.1e-5, 0.999999))
def test_probability_survives_the_round_trip(probability):
    theta = theta_from_probability(probability)
    assert probability_from_theta(theta) == pytest.approx(probability, rel=1e-9)


@given(st.floats(THETA_MIN, 30))
def test_theta_survives_the_round_trip(theta):
    assert theta_from_failure(failure_from_theta(theta)) == pytest.approx(theta, rel=1e-10)
    assert theta_from_probability(probability_from_theta(theta)) == pytest.approx(
        theta, rel=1e-3 if theta > 20 else 1e-6
    )


@given(st.floats(0, 1))
def test_theta_is_finite_and_at_least_the_minimum_for_every_probability(probability):
    for theta in (theta_from_failure(probability), theta_from_probability(probability)):
        assert THETA_MIN <= theta < 1000


def test_probabilities_of_the_paper():
    assert theta_from_failure(0.1) == pytest.approx(2.302585)
    assert theta_from_probability(0.01) == pytest.approx(-np.log(0.99))
    assert theta_from_failure(1.0) == theta_from_probability(0.0) == THETA_MIN


def test_shape_is_kept():
    assert theta_from_failure(np.full((2, 3), 0.5)).shape == (2, 3)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf])
def test_no_probability(value):
    with pytest.raises(InvalidNetworkError, match="failure probability lies between 0 and 1"):
        theta_from_failure([0.5, value])
    with pytest.raises(InvalidNetworkError, match=r"between 0 and 1.*\(1 such values\)"):
        theta_from_probability([0.5, value])
