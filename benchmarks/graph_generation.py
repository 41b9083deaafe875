"""How long does the layered graph take, how much memory, and has it as many edges as the paper's?

    python benchmarks/graph_generation.py --data DIR [--json results/graph_generation.json]

Builds the graph of the 100-word newsgroup data and of the IMDB training reviews at 10,000 words,
each in a process of its own so that the peak memory is that of the one graph, on one thread.
The paper counts a leak edge for every node.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import platform
import resource
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import scipy
import scipy.io
import scipy.sparse as sp

from noisyor.network.cooccurrence import layered

PAPER_EDGES = {"tiny20": None, "imdb": 91_234}
LAYERS = {"tiny20": 3, "imdb": 5}
DELETED = str.maketrans("", "", "!\"#$%&()*+,-./:;<=>?@[\\]^_{|}~'`")
ASCII_LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})
N_WORDS, N_TOKENS = 10_000, 500


def load_tiny20(data: Path) -> sp.csr_array:
    return sp.csr_array(scipy.io.loadmat(data / "20news_w100.mat")["documents"].T)


def load_imdb(data: Path) -> sp.csr_array:
    """Training reviews as binary rows; columns 0 (padding) and 1 (unknown) are always off."""
    with lzma.open(data / "imdb_reviews_train.jsonl.xz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    tokens = [text.translate(ASCII_LOWER).translate(DELETED).split() for text in texts]
    frequency = Counter(token for document in tokens for token in document)
    by_word = sorted(frequency.items(), key=lambda item: item[0].encode(), reverse=True)
    by_frequency = sorted(by_word, key=lambda item: item[1], reverse=True)  # stable
    index = {word: 2 + k for k, (word, _) in enumerate(by_frequency[: N_WORDS - 2])}
    rows = [sorted({index.get(token, 1) for token in doc[:N_TOKENS]} - {1}) for doc in tokens]
    columns = np.concatenate([np.array(row, dtype=np.int32) for row in rows])
    ptr = np.cumsum([0, *map(len, rows)])
    ones = np.ones(len(columns), dtype=np.int8)
    return sp.csr_array((ones, columns, ptr), shape=(len(rows), N_WORDS))


def prepare(name: str, matrix: Path, data: Path) -> None:
    X = {"tiny20": load_tiny20, "imdb": load_imdb}[name](data)
    sp.save_npz(matrix, sp.csr_matrix(X))


def measure(name: str, matrix: Path, data: Path) -> dict[str, object]:
    X = sp.csr_array(sp.load_npz(matrix))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, start_cpu = time.perf_counter(), time.process_time()
    network = layered(X, n_layers=LAYERS[name])
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    levels = network.hidden_levels.max() - network.hidden_levels
    with_leaks = network.n_edges + network.n_nodes
    per_child = np.diff(network.child_ptr)
    return {
        "rows": X.shape[0],
        "ones": int(X.nnz),
        "layers": [network.n_visible, *np.bincount(levels).tolist()],
        "edges": network.n_edges,
        "edges_with_leaks": with_leaks,
        "nodes_with_own_cluster_appended": int((per_child == 6).sum()),
        "paper_edges_with_leaks": PAPER_EDGES[name],
        "ratio_to_paper": PAPER_EDGES[name] and with_leaks / PAPER_EDGES[name],
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
