"""Measure time and memory of building layered graphs, and compare their edges with the paper's.

    python benchmarks/graph_generation.py --data DIR [--json results/graph_generation.json]

The script builds the graphs of the 100-word newsgroup data and of the IMDB training reviews with
10,000 words on one thread. Each graph is built in a separate process, so that the peak memory
belongs to one graph. The paper counts a leak edge for every node.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp

import _root  # noqa: F401
from noisyor.model.layered import layered
from reproduction import datasets

PAPER_EDGES = {"tiny20": None, "imdb": 91_234}
LAYERS = {"tiny20": 3, "imdb": 5}


def prepare(name: str, matrix: Path, data: Path) -> None:
    os.environ["NOISYOR_DATA"] = str(data)
    rows = datasets.load_imdb().train if name == "imdb" else datasets.load_tiny20().observations
    sp.save_npz(matrix, rows.to_csr())


def measure(name: str, matrix: Path, data: Path) -> dict[str, object]:
    X = sp.csr_array(sp.load_npz(matrix))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, start_cpu = time.perf_counter(), time.process_time()
    network = layered(X, n_layers=LAYERS[name])
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    levels = network.hidden_levels.max() - network.hidden_levels
    with_leaks, of_paper = network.n_edges + network.n_nodes, PAPER_EDGES[name]
    per_child = np.diff(network.child_ptr)
    return {
        "rows": X.shape[0],
        "ones": int(X.nnz),
        "layers": [network.n_visible, *np.bincount(levels).tolist()],
        "edges": network.n_edges,
        "edges_with_leaks": with_leaks,
        "nodes_with_own_cluster_appended": int((per_child == 6).sum()),
        "paper_edges_with_leaks": of_paper,
        "ratio_to_paper": of_paper and with_leaks / of_paper,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "peak_memory_mb_before": round(before / 1024),
        "peak_memory_mb": round(peak / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("NOISYOR_DATA"))
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("give --data DIR or set NOISYOR_DATA")
    results: dict[str, object] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
    }
    # Preprocessing needs memory of its own: do it in another process than the measurement.
    spawn = multiprocessing.get_context("spawn")
    for name in LAYERS:
        with tempfile.TemporaryDirectory() as directory:
            matrix = Path(directory) / "X.npz"
            for step in (prepare, measure):
                with ProcessPoolExecutor(1, mp_context=spawn) as process:
                    numbers = process.submit(step, name, matrix, arguments.data).result()
        results[name] = numbers
        print(f"{name}: {json.dumps(numbers)}", flush=True)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
