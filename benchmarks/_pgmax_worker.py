"""Max-product with PGMax, for `against_pgmax.py`; runs in an environment that has PGMax.

The script reads JSON lines from standard input and answers each with one line. The first line
describes the problem; the answer follows when everything has been compiled. After that, every
``{"command": "run"}`` is one timed inference of the whole batch.
"""

import json
import sys
import time
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
from pgmax import fgraph, fgroup, infer, vgroup

CERTAIN = 1e6


def pairwise(theta):
    """Return log-potentials (n, 2, 2) of a cause and the auxiliary variable of its edge."""
    result = np.zeros((*theta.shape, 2, 2))
    result[..., 0, 1] = -CERTAIN
    result[..., 1, 0] = -theta
    result[..., 1, 1] = np.log(-np.expm1(-theta))
    return result.reshape(-1, 2, 2)


def build(theta, noise, prior_log_odds, iterations, damping):
    """Return a function from a batch X (rows, n_visible) to beliefs (rows, n_hidden)."""
    n_visible, n_hidden = theta.shape
    hidden = vgroup.NDVarArray(num_states=2, shape=(n_hidden,))
    visible = vgroup.NDVarArray(num_states=2, shape=(n_visible,))
    leak = vgroup.NDVarArray(num_states=2, shape=(1,))
    sent = vgroup.NDVarArray(num_states=2, shape=(n_visible, n_hidden))
    leaked = vgroup.NDVarArray(num_states=2, shape=(n_visible,))

    graph = fgraph.FactorGraph(variable_groups=[hidden, visible, leak, sent, leaked])
    edges = [[hidden[k], sent[i, k]] for i in range(n_visible) for k in range(n_hidden)]
    leak_edges = [[leak[0], leaked[i]] for i in range(n_visible)]
    ors = [
        [*(sent[i, k] for k in range(n_hidden)), leaked[i], visible[i]] for i in range(n_visible)
    ]
    graph.add_factors(
        [
            fgroup.PairwiseFactorGroup(
                variables_for_factors=edges, log_potential_matrix=pairwise(theta)
            ),
            fgroup.PairwiseFactorGroup(
                variables_for_factors=leak_edges,
                log_potential_matrix=pairwise(np.full(n_visible, noise)),
            ),
            fgroup.ORFactorGroup(variables_for_factors=ors),
        ]
    )
    inferer = infer.build_inferer(graph.bp_state, backend="bp")
    prior = jnp.stack([jnp.zeros(n_hidden), jnp.full(n_hidden, prior_log_odds)], axis=-1)

    def one_row(x):
        clamped = jnp.stack([jnp.where(x > 0, -CERTAIN, CERTAIN), jnp.zeros(n_visible)], axis=-1)
        arrays = inferer.init(
            evidence_updates={
                hidden: prior,
                visible: clamped,
                leak: jnp.array([[-CERTAIN, 0.0]]),
            }
        )
        arrays = inferer.run(arrays, num_iters=iterations, damping=damping, temperature=0.0)
        beliefs = inferer.get_beliefs(arrays)[hidden]
        return beliefs[:, 1] - beliefs[:, 0]

    return jax.jit(jax.vmap(one_row))


def main():
    problem = json.loads(sys.stdin.readline())
    began = time.perf_counter()
    function = build(
        np.array(problem["theta"]),
        problem["noise"],
        problem["prior_log_odds"],
        problem["iterations"],
        problem["damping"],
    )
    X = jnp.array(problem["X"])
    built = time.perf_counter()
    beliefs = np.asarray(function(X).block_until_ready())
    answer = {
        "states": (beliefs > 0).astype(int).tolist(),
        "build_seconds": built - began,
        "first_run_seconds": time.perf_counter() - built,
        "versions": {name: version(name) for name in ("pgmax", "jax", "jaxlib")},
        "device": jax.devices()[0].platform,
    }
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        if json.loads(line).get("command") != "run":
            break
        began, began_cpu = time.perf_counter(), time.process_time()
        function(X).block_until_ready()
        wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        print(json.dumps({"wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3}), flush=True)


if __name__ == "__main__":
    main()
