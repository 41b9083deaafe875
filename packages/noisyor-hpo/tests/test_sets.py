from __future__ import annotations

import itertools

import numpy as np
import pytest

from noisyor.errors import InvalidSettingError
from noisyor_hpo.sets import Readings, posterior, readings


def random_readings(seed: int, n_diseases: int = 6, n_present: int = 4) -> Readings:
    random = np.random.default_rng(seed)
    shown = random.uniform(0, 0.9, (n_present, n_diseases)) * (
        random.random((n_present, n_diseases)) < 0.5
    )
    return Readings(
        shown,
        random.uniform(0.01, 0.1, n_present),
        np.zeros((0, n_diseases)),
        float(random.uniform(0.4, 1.2)),
        random.uniform(-1, 0, n_diseases),
    )


def enumerated(read: Readings, odds: float, sizes: range):
    """Probabilities by summing over all sets of diseases."""
    n_diseases = read.shown.shape[1]
    total, member = 0.0, np.zeros(n_diseases)
    for size in sizes:
        for chosen in itertools.combinations(range(n_diseases), size):
            inside = list(chosen)
            on = 1 - (1 - read.noise) * np.prod(1 - read.shown[:, inside], axis=1)
            log_weight = read.weight * np.log(on / read.noise).sum() + read.constant[inside].sum()
            weight = odds**size * np.exp(log_weight)
            total += weight
            member[inside] += weight
    return member / total


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("prior", "sizes"),
    [("one", range(1, 2)), ("at_least_one", range(1, 4)), ("independent", range(4))],
)
def test_against_all_sets(seed, prior, sizes):
    read = random_readings(seed)
    found = posterior(read, prior, 0.05)
    np.testing.assert_allclose(found.probability, enumerated(read, 0.05, sizes), rtol=1e-10)


def test_what_is_left_out_is_told():
    read = random_readings(0, n_diseases=80)
    found = posterior(read, "at_least_one", 0.01)
    exact = enumerated(read, 0.01, range(1, 4))
    # The error is an indication: even where no disease stands out it has the right size.
    assert 0 < np.abs(found.probability - exact).max() < 5 * found.error.max() < 0.1
    assert posterior(read, "one", 0.01).error.max() == 0


def test_two_diseases_explain_what_one_cannot():
    shown = np.array([[0.9, 0, 0.1], [0.9, 0, 0.1], [0, 0.9, 0.1], [0, 0.9, 0.1]])
    read = Readings(shown, np.full(4, 0.001), np.zeros((0, 3)), 1.0, np.zeros(3))
    one = posterior(read, "one", 0.01).probability
    several = posterior(read, "at_least_one", 0.01).probability
    assert one.argmax() == 2
    assert several[:2].min() > 0.9 > several[2]


def test_an_absent_finding_speaks_against_what_shows_it(model, ontology):
    finger, arm = ontology.number["HP:7"], ontology.number["HP:5"]
    plain = readings(model, [arm], [])
    denied = readings(model, [arm], [finger])
    change = denied.constant - plain.constant
    assert change[3] < change[0] < change[2] == 0
    # an absent hand is an absent finger too
    hand = readings(model, [arm], [ontology.number["HP:4"]])
    assert hand.denied[0, 3] == pytest.approx(0.8)


def test_an_unknown_prior(model):
    with pytest.raises(InvalidSettingError, match="prior must be 'one', 'at_least_one' or"):
        posterior(random_readings(0), "two", 0.1)
