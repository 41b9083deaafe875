"""Random small networks for tests: loopy, tree-shaped, layered, tied."""

import numpy as np

from noisyor.model.network import Network


def build(n_visible, n_hidden, edges, generator, *, scale=1.0, tied=False):
    """A network from (parent, child node) pairs with random parameters."""
    edges = sorted(set(edges), key=lambda edge: (edge[1], edge[0]))
    n_nodes = n_visible + n_hidden
    child_ptr = np.zeros(n_nodes + 1, dtype=np.int64)
    for _, child in edges:
        child_ptr[child + 1] += 1
    child_ptr = np.cumsum(child_ptr)
    n_uses = len(edges) + n_nodes
    n_params = max(2, n_uses // 3) if tied else n_uses
    uses = np.concatenate([np.arange(n_params), generator.integers(0, n_params, n_uses - n_params)])
    if tied:
        generator.shuffle(uses)
    theta = generator.exponential(scale, n_params) + 0.01
    return Network(
        n_visible,
        n_hidden,
        child_ptr,
        [parent for parent, _ in edges],
        uses[: len(edges)],
        uses[len(edges) :],
        theta,
        generator.random(n_params) < 0.8 if tied else np.ones(n_params, dtype=bool),
    )


def random_network(seed, *, max_hidden=7, max_visible=8, density=0.5, scale=1.0, tied=False):
    """A loopy network; hidden nodes may be parents of hidden nodes with a smaller number."""
    generator = np.random.default_rng(seed)
    n_hidden = int(generator.integers(1, max_hidden + 1))
    n_visible = int(generator.integers(1, max_visible + 1))
    edges = [
        (k, i) for k in range(n_hidden) for i in range(n_visible) if generator.random() < density
    ]
    edges += [
        (k, n_visible + j)
        for k in range(n_hidden)
        for j in range(k)
        if generator.random() < density / 2
    ]
    edges += _edges_for_lonely(n_visible, n_hidden, edges, generator)
    return build(n_visible, n_hidden, edges, generator, scale=scale, tied=tied)


def random_tree(seed, *, max_hidden=6, max_visible=6, join=0.8):
    """A network whose factor graph has no cycle, so that max-product is exact."""
    generator = np.random.default_rng(seed)
    n_hidden = int(generator.integers(1, max_hidden + 1))
    n_visible = int(generator.integers(1, max_visible + 1))
    candidates = [(k, i) for k in range(n_hidden) for i in range(n_visible)]
    candidates += [(k, n_visible + j) for k in range(n_hidden) for j in range(k)]
    generator.shuffle(candidates)
    component = list(range(n_visible + n_hidden))
    edges = []
    for parent, child in candidates:
        one, other = component[n_visible + parent], component[child]
        if one != other and generator.random() < join:
            component = [one if c == other else c for c in component]
            edges.append((int(parent), int(child)))
    # A hidden node that reaches no visible gets one of its own: still no cycle.
    reaching = _reaching(n_visible, n_hidden, edges)
    extra = n_visible
    shifted = [(p, c if c < n_visible else c + n_hidden - len(reaching)) for p, c in edges]
    for k in sorted(set(range(n_hidden)) - reaching):
        shifted.append((k, extra))
        extra += 1
    return build(extra, n_hidden, shifted, generator)


def loopy_problem(seed):
    """A network of some size, and two rows, some with gaps."""
    network = random_network(seed, max_hidden=20, max_visible=25, density=0.4)
    rows = random_rows(network, seed, n_rows=2, missing=0.2 if seed % 2 else 0.0)
    return network, rows


def random_rows(network, seed, n_rows=4, missing=0.0):
    """Rows of 0/1, with NaN for a share of the entries."""
    generator = np.random.default_rng(seed)
    rows = (generator.random((n_rows, network.n_visible)) < 0.5).astype(float)
    rows[generator.random(rows.shape) < missing] = np.nan
    return rows


def _reaching(n_visible, n_hidden, edges):
    found = {parent for parent, child in edges if child < n_visible}
    while True:
        more = {p for p, c in edges if c >= n_visible and c - n_visible in found}
        if more <= found:
            return found
        found |= more


def _edges_for_lonely(n_visible, n_hidden, edges, generator):
    lonely = set(range(n_hidden)) - _reaching(n_visible, n_hidden, edges)
    return [(k, int(generator.integers(n_visible))) for k in sorted(lonely)]
