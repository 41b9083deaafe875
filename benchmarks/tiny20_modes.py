"""Measure how Elbo^MP on tiny20 depends on the way in which the mode is found.

    python benchmarks/tiny20_modes.py [--data DIR] --json results/tiny20_modes.json

The networks are those of tiny20 in the record of the reproduction that were trained by the paper's
protocol, with their own test rows. The script computes log p(h, x) at ``q >= 0.5`` of full mean
field, at the modes of max-product in both orders of messages, and at the default of `explain`,
which uses ICM. Run files store parameters with two bytes each; the bound of mean field shows the
effect of this rounding. Networks that are already in the JSON file are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, earlier, write
from _problems import use_data
from reproduction import datasets, experiment
from reproduction.comparison import is_reproduction
from reproduction.layered import TINY20_PROTOCOL
from reproduction.record import FOLDER, Record

WAYS = {
    "collapsed": nor.MaxProduct(),
    "two-stage": nor.MaxProduct(schedule="two-stage"),
    "polished": nor.MaxProduct(icm=20),
}


def network_of(stored: dict[str, Any]) -> nor.Network:
    """Return the network of a run file."""
    ptr, parent, theta, leak, levels = (
        stored[name] for name in ("child_ptr", "parent", "theta", "leak", "levels")
    )
    n_edges, n_nodes = len(parent), len(leak)
    return nor.Network(
        n_nodes - len(levels),
        len(levels),
        ptr,
        parent,
        np.arange(n_edges, dtype=np.int32),
        n_edges + np.arange(n_nodes, dtype=np.int32),
        np.concatenate([theta, leak]),
        np.ones(n_edges + n_nodes, dtype=np.bool_),
    )


def bounds(run: dict[str, Any], rows: nor.Observations) -> dict[str, Any]:
    """Return mean bounds of the test rows for each way to find the mode."""
    network = network_of(run["arrays"])
    _, test = rows.split(TINY20_PROTOCOL.train_share, run["seed"])
    mean_field = nor.MeanField(keep_q=False).posterior(network, test)
    assert mean_field.elbo_vi is not None
    found = {
        "mean_field_bound": mean_field.elbo_vi.mean(),
        "q >= 0.5": mean_field.log_joint.mean(),
        **{way: nor.explain(network, test, how).log_joint.mean() for way, how in WAYS.items()},
    }
    return {
        "method": run["method"],
        "init": run["init"],
        "seed": run["seed"],
        "steps": run["steps"],
        "recorded": {name: run["metrics"][f"test_elbo_{name}"] for name in ("mp", "vi")},
        "log_joint": {name: round(float(value), 4) for name, value in found.items()},
    }


def main() -> None:
    """Measure the networks that are new, and print the means."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data files")
    options = parser.parse_args()
    use_data(options.data)
    rows = nor.Observations.of(datasets.load_tiny20().observations)
    machine, about = Machine(), experiment("tiny20")
    content = earlier(options.json, {"machine": {}, "networks": {}})
    for run in Record(FOLDER).runs("tiny20"):
        name = f"{run['method']} {run['init']} {run['steps']} seed {run['seed']}"
        kept = "theta" in run["arrays"] and is_reproduction(about, run) and run["part"] == "test"
        # Mean field without a stop is the same algorithm, longer: one of both is enough.
        stops = run["tolerance"] is not None or run["method"] == "mp-two-stage"
        if kept and stops and name not in content["networks"]:
            content["networks"][name] = bounds(run, rows)
            write(options.json, content | {"machine": machine.describe()})
    by_method: dict[str, list[dict[str, float]]] = {}
    for found in content["networks"].values():
        by_method.setdefault(f"{found['method']} {found['init']}", []).append(found["log_joint"])
    for method, some in by_method.items():
        means = {way: float(np.mean([each[way] for each in some])) for way in some[0]}
        print(f"{method:28} {len(some):3}", *(f"{way} {m:.3f}" for way, m in means.items()))


if __name__ == "__main__":
    main()
