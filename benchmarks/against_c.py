"""Compare the speed of the compiled engine with a C kernel of the same arithmetic.

    python benchmarks/against_c.py [--json results/against_c.json]

Both run 100 iterations of max-product on a batch of 20 rows of the paper's Boolean matrix
factorization, on one thread each, with the true parameters and some noise on them. The script
compiles ``max_product.c`` with ``cc -O3 -march=native -ffast-math`` for 8 and for 16 lanes and
takes the faster one. All beliefs must agree. The C function writes beliefs only; the engine also
decodes, evaluates log p(h, x) and handles any graph.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from _inference import BatchInference
from _measure import Machine, arguments, interleaved, significant, write
from _problems import BMF_BATCH, BMF_SIZES, bmf_near_truth
from noisyor.data.observations import Observations
from noisyor.model.network import Network

FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
LANES, NEVER = (8, 16), -1e30
ITERATIONS = 100
TOLERANCE = 1e-3


def compile_c(directory: Path) -> tuple[dict[int, ctypes.CDLL], str]:
    """Compile a shared library for each number of lanes; return them and the compiler's name."""
    compiler = os.environ.get("CC", "cc")
    source = Path(__file__).with_name("max_product.c")
    libraries = {}
    for lanes in LANES:
        library = directory / f"max_product_{lanes}.so"
        command = [compiler, *FLAGS, f"-DLANES={lanes}", str(source), "-o", str(library), "-lm"]
        subprocess.run(command, check=True)
        libraries[lanes] = ctypes.CDLL(str(library))
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
    return libraries, version.stdout.splitlines()[0]


class CKernel:
    """The C function with its inputs for one network and one batch."""

    def __init__(
        self, library: ctypes.CDLL, lanes: int, network: Network, rows: Observations
    ) -> None:
        n_visible, n_hidden = network.n_visible, network.n_hidden
        self.function = library.infer
        self.function.restype = None
        width = -(-n_hidden // lanes) * lanes
        theta = network.theta_of("failure").T  # (n_visible, n_hidden)
        prior = network.theta[network.leak_param[n_visible:]]
        unary = np.log(np.expm1(prior)) - theta.sum(axis=0)
        self.n_hidden = n_hidden
        self.belief = np.zeros((rows.n_rows, width), dtype=np.float32)
        self.iterations = np.zeros(rows.n_rows, dtype=np.int32)
        longest = int(np.diff(rows.ptr).max())
        arrays: dict[str, npt.NDArray[Any]] = {
            "ptr": np.ascontiguousarray(rows.ptr, dtype=np.int64),
            "columns": np.ascontiguousarray(rows.columns, dtype=np.int32),
            "log_odds": _padded(np.log(np.expm1(theta)), width, NEVER),
            "weight": _padded(theta, width, 0.0),
            "leak": np.log(np.expm1(network.theta[network.leak_param[:n_visible]])).astype("f4"),
            "unary": _padded(unary[None], width, 0.0),
        }
        work = [np.zeros(size, dtype=np.float32) for size in (longest * width, width, width)]
        results = [self.belief, self.iterations, np.zeros(rows.n_rows, dtype=np.float32)]
        self.arrays = [*arrays.values(), *work, *results]  # kept alive
        before = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays.values()]
        after = [array.ctypes.data_as(ctypes.c_void_p) for array in (*work, *results)]
        self.arguments = [
            ctypes.c_size_t(rows.n_rows),
            ctypes.c_size_t(width),
            *before,
            ctypes.c_int(ITERATIONS),
            ctypes.c_float(0.5),
            ctypes.c_float(0.0),
            *after,
        ]

    def __call__(self) -> npt.NDArray[np.float32]:
        self.function(*self.arguments)
        return self.belief[:, : self.n_hidden]


def _padded(values: npt.NDArray[np.float64], width: int, fill: float) -> npt.NDArray[np.float32]:
    result = np.full((len(values), width), fill, dtype=np.float32)
    result[:, : values.shape[1]] = values
    return result


def measure(
    libraries: dict[int, ctypes.CDLL], n: int, r: int, rounds: int, quiet: float | None
) -> dict[str, Any]:
    problem = bmf_near_truth(n, r)
    batch = problem.batches()[0]
    method = replace(problem.method, temperature=0.0, tolerance=0.0, max_iterations=ITERATIONS)
    ours = BatchInference(problem.network, batch, method)
    kernels = {
        f"c {lanes} lanes": CKernel(library, lanes, problem.network, batch)
        for lanes, library in libraries.items()
    }
    beliefs = ours.max_product(with_beliefs=True).beliefs
    difference = max(float(np.abs(kernel() - beliefs).max()) for kernel in kernels.values())
    if not difference < TOLERANCE:
        raise SystemExit(f"n={n} r={r}: the beliefs differ by {difference}")

    times = interleaved({**kernels, "ours": ours}, rounds, repeat=3, quiet=quiet)
    own = times["ours"]
    c = min((times[name] for name in kernels), key=lambda entry: entry["wall_ms"])
    edge_updates = batch.n_active * r * ITERATIONS
    return {
        "ratio_ours_to_c": significant(own["wall_ms"] / c["wall_ms"], 3),
        "ratio_of_cpu_time": significant(own["cpu_ms"] / c["cpu_ms"], 3),
        "ratio_of_fastest": significant(own["fastest_wall_ms"] / c["fastest_wall_ms"], 3),
        "c": c,
        **times,
        "ns_per_edge_update": {
            name: significant(entry["cpu_ms"] * 1e6 / edge_updates, 3)
            for name, entry in {"c": c, "ours": own}.items()
        },
        "largest_difference_of_beliefs": difference,
    }


def main() -> None:
    given = arguments(__doc__).parse_args()
    machine = Machine()
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        libraries, compiler = compile_c(Path(directory))
        for n, r in BMF_SIZES:
            row = measure(libraries, n, r, given.rounds, given.quiet)
            results[f"bmf n={n} r={r}"] = row
            print(
                f"{row['ratio_ours_to_c']:5.2f} x the time of C   n={n} r={r}   "
                f"C {row['c']['wall_ms']:.2f} ms, ours {row['ours']['wall_ms']:.2f} ms wall; "
                f"{row['ns_per_edge_update']['c']:.2f} and "
                f"{row['ns_per_edge_update']['ours']:.2f} ns of CPU time an edge and iteration; "
                f"beliefs differ by {row['largest_difference_of_beliefs']:.1e}"
            )
    write(
        given.json,
        {
            "machine": {**machine.describe(), "compiler": compiler, "flags": " ".join(FLAGS)},
            "batch": BMF_BATCH,
            "iterations": ITERATIONS,
            "cases": results,
        },
    )


if __name__ == "__main__":
    main()
