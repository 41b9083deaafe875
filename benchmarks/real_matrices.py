"""Compare the errors of Boolean factorizations of real matrices with four other methods.

    python benchmarks/real_matrices.py [--data DIR] [--pybmf PYTHON] [--only NAME ...] [--json FILE]

Two thirds of the rows are for training, the others are unseen; each part has at most 4,000 rows.
Every method returns K binary factors, and `cover_rows` chooses the memberships of training and
unseen rows for all methods. ``elbo_counts`` is the bound of the unseen rows by a network whose
probabilities are counted from factors and memberships; ``elbo_trained`` is the bound after 200
small training steps from there; ``elbo_own`` is the bound of the network that `learn_factors`
returns. GreConD and MEBF are those of PyBMF, run by another interpreter. PyBMF's GreConD does not
choose the best factor, so GreConD is also run as its paper describes it. Each result is written to
the JSON file as soon as it is finished, and finished cases are skipped.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, significant, write
from _problems import data_directory
from _simple_baselines import alternating_greedy, grecond, thresholded_nmf
from noisyor.baselines import independent_columns
from noisyor.metrics import factorization_error
from noisyor.search.cover import Cover, Matrix
from noisyor.search.factors import FoundFactors
from noisyor.search.starts import start_from_factors
from reproduction.datasets import load_tiny20

CASES = [
    *(("zoo", causes, seed) for causes in (4, 8) for seed in range(10)),
    ("plants", 10, 0),
    ("plants", 20, 0),
    ("plants", 40, 0),
    ("tiny20", 20, 0),
]
MOST_ROWS = 4000
ROUNDS = 60
OURS = "ours, errors"
LEARNED = "ours, `learn_factors`"
METHODS = (
    "ten lines",
    "thirty lines",
    "GreConD (PyBMF)",
    "GreConD (paper)",
    "MEBF (PyBMF)",
    OURS,
    LEARNED,
)

Bits = npt.NDArray[np.uint8]


class Parts(NamedTuple):
    """Training rows and unseen rows, both uint8 (rows, columns)."""

    train: Bits
    test: Bits


def load(data: Path, name: str, seed: int) -> Parts | None:
    """Load the rows of a data set in two parts, or None if there is no file."""
    path = data / ("20news_w100.mat" if name == "tiny20" else f"bmf_{name}.npz")
    if not path.exists():
        return None
    if name == "tiny20":
        rows = load_tiny20(path).observations.to_dense()
    else:
        with np.load(path) as archive:
            rows = archive["X"]
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = 2 * len(rows) // 3
    parts = (rows[part[:MOST_ROWS]].astype(np.uint8) for part in (order[:cut], order[cut:]))
    return Parts(*parts)


def pybmf(python: str, method: str, train: Bits, causes: int) -> dict[str, Any]:
    """Return the factors of PyBMF in another environment, its CPU seconds and version."""
    worker = Path(__file__).with_name("_pybmf_worker.py")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, X=train)
        command = [python, "-W", "ignore", str(worker), method, str(causes)]
        command += [str(source), str(target)]
        subprocess.run(command, check=True)
        with np.load(target) as archive:
            return {
                "factors": archive["factors"],
                "cpu_s": float(archive["cpu_s"]),
                "pybmf": str(archive["version"]),
            }


def drawing_error(rows: Bits, factors: Bits) -> float:
    """Return the percentage of wrong entries, with the memberships that have fewest errors."""
    states = nor.search.cover_rows(rows, factors)
    return 100.0 * float(np.mean((states.astype(int) @ factors > 0) != (rows > 0)))


def counted(parts: Parts, factors: Bits) -> nor.Network:
    """Return a network of these factors with probabilities counted from the training rows."""
    states = nor.search.cover_rows(parts.train, factors)
    matrix = Matrix(parts.train > 0, np.ones(parts.train.shape, dtype=bool))
    cover = Cover.of(matrix, states, factors)
    found = FoundFactors(
        states, factors, cover.rates, (), cover.errors(matrix), np.arange(len(states)), matrix
    )
    start = start_from_factors(found)
    return nor.bipartite(
        start.n_visible,
        start.n_hidden,
        failure_probability=start.failure_probability,
        prior_probability=start.prior_probability,
        noise_probability=-np.expm1(-start.theta_of("noise").mean()),  # one for all columns
    )


def trained(network: nor.Network, train: Bits) -> nor.Network:
    """Return the network after 200 small training steps."""
    return nor.learn_network(
        network,
        train,
        method=nor.MaxProduct(icm=5),
        steps=200,
        learning_rate=2e-3,
        final_learning_rate=1e-4,
        smoothing=0.5,
        progress=False,
    ).network


def bound(network: nor.Network, rows: Bits) -> float:
    """Return the mean bound of rows at their most likely causes."""
    return float(nor.explain(network, rows).log_joint.mean())


def run(method: str, parts: Parts, causes: int, seed: int, python: str | None) -> dict[str, Any]:
    """Return all numbers of one method on one case."""
    train, test = parts
    network, result = None, {}
    began = time.process_time()
    if method == LEARNED:
        network = nor.learn_factors(train, causes, seed=seed, progress=False).network
        factors = (network.theta_of("failure") >= np.log(2.0)).astype(np.uint8)
    elif method == OURS:
        factors = nor.search.search_factors(train, causes, objective="hamming", seed=seed).factors
    elif method.endswith("(PyBMF)"):
        result = pybmf(str(python), method.split()[0], train, causes)
        factors = result.pop("factors")
    else:
        functions: dict[str, Callable[[], Any]] = {
            "ten lines": lambda: thresholded_nmf(train, causes, seed),
            "thirty lines": lambda: alternating_greedy(train, causes, seed, ROUNDS),
            "GreConD (paper)": lambda: grecond(train, causes),
        }
        factors = functions[method]().astype(np.uint8)
    result = {"cpu_s": time.process_time() - began} | result
    by_counts = counted(parts, factors)
    if network is not None:
        states = nor.explain(network, test).states.toarray()
        result["test_error_mode_pct"] = factorization_error(network, states, test)
        result["elbo_own"] = bound(network, test)
    return {
        "factors": len(factors),
        "train_error_pct": drawing_error(train, factors),
        "test_error_pct": drawing_error(test, factors),
        "elbo_counts": bound(by_counts, test),
        "elbo_trained": bound(trained(by_counts, train), test),
        "elbo_independent": float(independent_columns(parts[0]).log_probability(parts[1]).mean()),
        **result,
    }


def pending(data: Path, python: str | None) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Return every method of every case by name, if its data and interpreter are present."""
    for name, causes, seed in CASES:
        parts = load(data, name, seed)
        for method in METHODS:
            if parts is None or (python is None and "PyBMF" in method):
                continue
            yield (
                f"{name} K={causes} seed={seed}: {method}",
                partial(run, method, parts, causes, seed, python),
            )


COLUMNS = (
    ("factors", ".1f"),
    ("train_error_pct", ".2f"),
    ("test_error_pct", ".2f"),
    ("test_error_mode_pct", ".2f"),
    ("elbo_counts", ".2f"),
    ("elbo_trained", ".2f"),
    ("elbo_own", ".2f"),
    ("cpu_s", ".2f"),
)


def table(found: dict[str, Any]) -> str:
    """Return means over splits as a Markdown table."""
    lines = [
        "| data | splits | method | factors | error, training % | unseen % | unseen, mode % "
        "| bound, counts | trained | own | CPU s |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, causes in dict.fromkeys(case[:2] for case in CASES):
        start = f"{name} K={causes} seed="
        for method in METHODS:
            runs = [
                v for k, v in found.items() if k.startswith(start) and k.endswith(f": {method}")
            ]
            cells = [
                f"{np.mean([run[key] for run in runs]):{form}}" if runs and key in runs[0] else "–"
                for key, form in COLUMNS
            ]
            lines.append(
                f"| {name} K={causes} | {len(runs)} | {method} | " + " | ".join(cells) + " |"
            )
        independent = [v["elbo_independent"] for k, v in found.items() if k.startswith(start)]
        if independent:
            cells = ["–"] * 4 + [f"{np.mean(independent):.2f}"] + ["–"] * 3
            lines.append(
                f"| {name} K={causes} | | independent columns | " + " | ".join(cells) + " |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="directory of the data files")
    parser.add_argument("--pybmf", metavar="PYTHON", help="Python interpreter with PyBMF")
    parser.add_argument("--only", nargs="*", help="run the cases whose names start so")
    parser.add_argument("--table", action="store_true", help="print --json as a table and stop")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.json.read_text())["cases"]))
        return
    data = data_directory(given.data)
    if data is None:
        parser.error("where are the data? give --data DIR or set NOISYOR_DATA")
    found: dict[str, Any] = {}
    if given.json is not None and Path(given.json).exists():
        found = json.loads(Path(given.json).read_text())["cases"]
    machine = Machine()
    for name, case in pending(data, given.pybmf):
        if given.only and not any(name.startswith(start) for start in given.only):
            continue
        if name not in found:
            found[name] = {
                key: value if isinstance(value, (int, str)) else significant(value)
                for key, value in case().items()
            }
            write(given.json, {"machine": machine.describe("scikit-learn"), "cases": found})
        print(f"{name}: {json.dumps(found[name])}", flush=True)


if __name__ == "__main__":
    main()
