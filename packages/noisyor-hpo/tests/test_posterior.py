"""Evidence of findings and the posterior of diseases, against enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisyor as nor
from helpers import data_of, ontology_of, statement
from noisyor.errors import InvalidSettingError
from noisyor_hpo.model import build_model
from noisyor_hpo.posterior import (
    Likelihoods,
    distances,
    explaining_edge,
    likelihoods,
    posterior,
    probability_of_record,
    probability_of_term,
)


def states_of(model, disease):
    """Every set of terms that a disease may turn on, with its probability."""
    edges = range(model.ptr[disease], model.ptr[disease + 1])
    for on in itertools.product((0, 1), repeat=len(edges)):
        chance = np.prod(
            [f if x else 1 - f for x, f in zip(on, model.frequency[edges], strict=True)]
        )
        yield {int(model.term[e]) for x, e in zip(on, edges, strict=True) if x}, chance


def enumerated(model, disease, finding):
    """Probability that a disease brings a finding on record, by summing over all states."""
    near = distances(model, finding)
    total = 0.0
    for on, chance in states_of(model, disease):
        levels = [near.level[s] for s in on if near.level[s] >= 0]
        total += chance * (near.works[min(levels)] if levels else 0.0)
    return total


def test_distances_of_a_finding(model, ontology):
    level, works = distances(model, ontology.number["HP:7"])
    order = [ontology.terms[t] for t in np.argsort(level, kind="stable") if level[t] >= 0]
    # itself, the hand, another kind of hand, limbs, other kinds of limbs
    assert order[0] == "HP:7"
    assert set(order[1:3]) == {"HP:4", "HP:6"}
    assert level[ontology.number["HP:2"]] < 0  # skin has only the root in common, of all diseases
    assert (np.diff(works) <= 0).all()


def test_a_general_finding_is_explained_by_a_specific_annotation(model, ontology):
    hand = probability_of_record(model, ontology.number["HP:4"])
    # OMIM:2 has the hand itself; OMIM:1 two kinds of it, at the same distance.
    kinds = 1 - (1 - 0.3) * (1 - 0.5)
    assert hand[0] == pytest.approx(model.settings.general * kinds, rel=1e-12)
    assert hand[1] == pytest.approx(0.7)


def test_a_specific_finding_is_partly_explained_by_a_general_annotation(model, ontology):
    finger = probability_of_record(model, ontology.number["HP:7"])
    assert finger[3] == pytest.approx(0.8)
    part = model.settings.specific * model.share[7] / model.share[4]
    assert finger[1] == pytest.approx(0.7 * part)
    assert 0 < finger[1] < finger[3]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_against_all_states_of_random_ontologies(seed):
    random = np.random.default_rng(seed)
    n_terms = int(random.integers(3, 9))
    parents = {
        f"HP:{k}": sorted(
            {f"HP:{random.integers(k)}" for _ in range(int(random.integers(1, 3)))} if k else set()
        )
        for k in range(n_terms)
    }
    names = {"D:1": "first", "D:2": "second", "D:3": "third"}
    lines = [
        statement(disease, f"HP:{t}", float(random.uniform(0.05, 0.95)))
        for disease in names
        for t in random.choice(n_terms, int(random.integers(1, min(5, n_terms))), replace=False)
    ]
    model = build_model(data_of(lines, names), ontology_of(parents))
    above = np.array(
        [np.isin(np.arange(n_terms), model.ontology.ancestors(t)) for t in range(n_terms)]
    )
    for finding in range(n_terms):
        found, exactly = probability_of_record(model, finding), probability_of_term(model, finding)
        for disease in range(3):
            assert found[disease] == pytest.approx(enumerated(model, disease, finding), abs=1e-12)
            on = sum(
                chance
                for terms, chance in states_of(model, disease)
                if any(above[term, finding] for term in terms)
            )
            assert exactly[disease] == pytest.approx(on, abs=1e-12)


def literal_network(model, disease, finding):
    """The same as nodes and edges: disease, terms, "this close or closer", the finding."""
    near = distances(model, finding)
    edges = np.arange(model.ptr[disease], model.ptr[disease + 1])
    edges = edges[near.level[model.term[edges]] >= 0]
    n_terms, n_levels = len(edges), len(near.works)
    first_level = 1 + n_terms
    hidden, fails = [], []
    for k, edge in enumerate(edges):
        hidden.append((0, 1 + k))
        fails.append(1 - model.frequency[edge])
        for level in range(near.level[model.term[edge]], n_levels):
            hidden.append((1 + k, first_level + level))
            fails.append(1e-9)  # a term that is on turns its kinds of closeness on
    works = np.minimum(near.works, 1 - 1e-9)
    steps = (1 - works) / (1 - np.append(works[1:], 0.0))
    visible = [(first_level + level, 0) for level in range(n_levels)]
    return nor.from_edges(
        1,
        first_level + n_levels,
        visible,
        hidden,
        failure_probability=np.concatenate([steps, fails]),
        prior_probability=np.r_[0.3, np.full(n_terms + n_levels, 1e-9)],
        noise_probability=model.noise[finding],
    )


@pytest.mark.parametrize(("disease", "term"), [(0, "HP:4"), (0, "HP:7"), (1, "HP:7"), (2, "HP:5")])
def test_it_is_a_noisy_or_network(model, ontology, disease, term):
    finding = ontology.number[term]
    network = literal_network(model, disease, finding)
    exact = nor.inference.enumerate_posterior(network, np.array([[1]])).marginals[0, 0]
    noise = model.noise[finding]
    on = 1 - (1 - noise) * (1 - probability_of_record(model, finding)[disease])
    assert exact == pytest.approx(0.3 * on / (0.3 * on + 0.7 * noise), abs=1e-4)


def test_the_edge_that_explains_best(model, ontology):
    near = distances(model, ontology.number["HP:4"])
    edge = explaining_edge(model, 0, near)
    assert ontology.terms[model.term[edge]] == "HP:6"  # the more frequent of two kinds of hand
    alone = replace(model, term=np.full_like(model.term, ontology.number["HP:0"]))
    assert explaining_edge(alone, 0, near) is None


def random_likelihoods(seed: int, n_diseases: int = 6, n_present: int = 4) -> Likelihoods:
    random = np.random.default_rng(seed)
    shown = random.uniform(0, 0.9, (n_present, n_diseases)) * (
        random.random((n_present, n_diseases)) < 0.5
    )
    return Likelihoods(
        shown,
        random.uniform(0.01, 0.1, n_present),
        np.zeros((0, n_diseases)),
        float(random.uniform(0.4, 1.2)),
        random.uniform(-1, 0, n_diseases),
    )


def enumerated_sets(read: Likelihoods, odds: float, sizes: range):
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
    read = random_likelihoods(seed)
    found = posterior(read, prior, 0.05)
    np.testing.assert_allclose(found.probability, enumerated_sets(read, 0.05, sizes), rtol=1e-10)


def test_what_is_left_out_is_told():
    read = random_likelihoods(0, n_diseases=80)
    found = posterior(read, "at_least_one", 0.01)
    exact = enumerated_sets(read, 0.01, range(1, 4))
    # The error is an indication: even where no disease stands out it has the right size.
    assert 0 < np.abs(found.probability - exact).max() < 5 * found.error.max() < 0.1
    assert posterior(read, "one", 0.01).error.max() == 0


def test_two_diseases_explain_what_one_cannot():
    shown = np.array([[0.9, 0, 0.1], [0.9, 0, 0.1], [0, 0.9, 0.1], [0, 0.9, 0.1]])
    read = Likelihoods(shown, np.full(4, 0.001), np.zeros((0, 3)), 1.0, np.zeros(3))
    one = posterior(read, "one", 0.01).probability
    several = posterior(read, "at_least_one", 0.01).probability
    assert one.argmax() == 2
    assert several[:2].min() > 0.9 > several[2]


def test_an_absent_finding_speaks_against_what_shows_it(model, ontology):
    finger, arm = ontology.number["HP:7"], ontology.number["HP:5"]
    plain = likelihoods(model, [arm], [])
    denied = likelihoods(model, [arm], [finger])
    change = denied.constant - plain.constant
    assert change[3] < change[0] < change[2] == 0
    # an absent hand is an absent finger too
    hand = likelihoods(model, [arm], [ontology.number["HP:4"]])
    assert hand.denied[0, 3] == pytest.approx(0.8)


def test_an_unknown_prior(model):
    with pytest.raises(InvalidSettingError, match="prior must be one of"):
        posterior(random_likelihoods(0), "two", 0.1)
