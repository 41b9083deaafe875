"""Networks with sets of alternatives, and what they mean by brute force."""

from dataclasses import replace

import numpy as np

from noisyor.inference.exact import augmented_table, hidden_configurations, log_joint_table


def with_sets(network, seed, share=0.8):
    """The network with some of its nodes without parents in sets, of one node and more."""
    generator = np.random.default_rng([seed, 1])
    roots = np.flatnonzero(np.diff(network.child_ptr)[network.n_visible :] == 0)
    inside = roots[generator.random(len(roots)) < share]
    return replace(network, alternatives=numbered(network.n_hidden, inside, generator))


def tree_with_sets(network, seed):
    """A network without cycles with sets whose nodes no path joins, so that it stays a tree."""
    generator = np.random.default_rng([seed, 2])
    component = list(range(network.n_nodes))
    for parent, child in zip(network.parent, network.edge_child, strict=True):
        one, other = component[network.n_visible + parent], component[child]
        component = [one if c == other else c for c in component]
    number = np.full(network.n_hidden, -1)
    n_sets = 0
    roots = np.flatnonzero(np.diff(network.child_ptr)[network.n_visible :] == 0)
    for k in generator.permutation(roots):
        mine = component[network.n_visible + k]
        for s in generator.permutation(n_sets):
            members = np.flatnonzero(number == s)
            theirs = {component[network.n_visible + j] for j in members}
            if mine not in theirs:
                number[k] = s
                component = [mine if c in theirs else c for c in component]
                break
        else:
            if generator.random() < 0.8:
                number[k], n_sets = n_sets, n_sets + 1
    return replace(network, alternatives=number)


def numbered(n_hidden, inside, generator):
    """Sets of some nodes at random, numbered from 0 without gaps."""
    number = np.full(n_hidden, -1)
    if len(inside):
        labels = generator.integers(0, max(1, len(inside) // 2) + 1, len(inside))
        number[inside] = np.unique(labels, return_inverse=True)[1]
    return number


def allowed(network, states):
    """Whether at most one node of every set is on, of each configuration."""
    return np.array(
        [
            all(state[network.alternatives == s].sum() <= 1 for s in range(network.sets.n_sets))
            for state in states
        ]
    )


def independent(network):
    """The network without its sets."""
    return replace(network, alternatives=None)


def _log_allowed(network):
    """Log-probability that independent causes leave at most one of every set on."""
    states = hidden_configurations(network.n_hidden)
    nothing_seen = np.full((1, network.n_visible), np.nan)
    prior = log_joint_table(independent(network), states, nothing_seen)[0]
    return np.logaddexp.reduce(prior[allowed(network, states)])


def conditioned_table(network, states, rows):
    """``log p(h, x)`` (n_rows, n_states): independent causes, given that no two of a set are on."""
    table = log_joint_table(independent(network), states, rows) - _log_allowed(network)
    return np.where(allowed(network, states), table, -np.inf)


def conditioned_augmented_table(network, states, rows, maximize_missing=False):
    """The same of the objective that max-product maximises."""
    table = augmented_table(independent(network), states, rows, maximize_missing)
    return np.where(allowed(network, states), table - _log_allowed(network), -np.inf)
