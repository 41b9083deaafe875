"""A million rows of 10,000 columns in constant memory: rows per second, peak memory on the way.

    python benchmarks/streaming.py --json results/streaming.json

Rows are drawn chunk by chunk from a sparse noisy-OR network (about 20 ones a row) while training
goes on; no chunk is kept. The model that learns has the graph of the network that generates, and
starts from one setting for all edges.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import noisyor as nor
from _measure import Machine, arguments, significant, write
from noisyor.engines.registry import get_engine
from noisyor.model.parameters import probability_from_theta

N_VISIBLE, N_HIDDEN = 10_000, 1_000
CHILDREN = 40
ACTIVE = 0.8  # causes that are on in a row, on average
CHUNK = 10_000
BILLION = 1_000_000_000


def network() -> nor.Network:
    """Each cause switches 40 random columns on, each with probability 0.6.

    Causes share one prior, columns one noise: with 0.8 causes a row, a prior for each would see
    less than one event in an update.
    """
    rng = np.random.default_rng(0)
    edges = [
        (cause, int(column))
        for cause in range(N_HIDDEN)
        for column in rng.choice(N_VISIBLE, CHILDREN, replace=False)
    ]
    return nor.from_edges(
        N_VISIBLE,
        N_HIDDEN,
        edges,
        failure_probability=0.4,
        prior_probability=ACTIVE / N_HIDDEN,
        noise_probability=1e-4,
        leak_param=[0] * N_VISIBLE + [1] * N_HIDDEN,
    )


def chunks(truth: nor.Network, n_rows: int) -> Iterator[sp.csr_array]:
    """Rows of the network; chunk c depends on its number alone.

    Ancestral sampling that never makes a dense row: only the children of causes that are on, and
    the columns that noise hits, are drawn.
    """
    pointer, edges = truth.outgoing
    switches = probability_from_theta(truth.theta[truth.param])
    prior, noise = truth.prior_probability, truth.noise_probability
    for number, begin in enumerate(range(0, n_rows, CHUNK)):
        rng = np.random.default_rng((1, number))
        size = min(CHUNK, n_rows - begin)
        # Causes and noise are rare and equally likely: draw how many, then where.
        on = rng.integers(size * N_HIDDEN, size=rng.binomial(size * N_HIDDEN, prior[0]))
        row, cause = np.divmod(np.unique(on), N_HIDDEN)
        counts = pointer[cause + 1] - pointer[cause]
        starts = np.repeat(pointer[cause] - np.r_[0, np.cumsum(counts)[:-1]], counts)
        edge = edges[starts + np.arange(counts.sum())]
        works = rng.random(len(edge)) < switches[edge]
        caused = np.repeat(row, counts)[works] * N_VISIBLE + truth.edge_child[edge[works]]
        hit = rng.integers(size * N_VISIBLE, size=rng.binomial(size * N_VISIBLE, noise[0]))
        keys = np.unique(np.concatenate([caused, hit]))
        rows, columns = np.divmod(keys, N_VISIBLE)
        ones = np.ones(len(keys), dtype=np.uint8)
        yield sp.csr_array((ones, (rows, columns)), shape=(size, N_VISIBLE))


def resident_mb() -> float:
    """Memory of this process now, in MB; the peak where the system does not tell."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return peak_mb()


def peak_mb() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    machine = Machine()
    truth = network()
    start = nor.initialize(truth, (0.7, 0.01))
    points: list[dict[str, Any]] = []
    n_ones = 0
    generating = 0.0
    began, began_cpu = time.perf_counter(), time.process_time()

    def measured() -> Iterator[sp.csr_array]:
        nonlocal n_ones, generating
        seen = 0
        source = chunks(truth, options.rows)
        while True:
            before = time.perf_counter()
            chunk = next(source, None)
            generating += time.perf_counter() - before
            if chunk is None:
                return
            n_ones += chunk.nnz
            yield chunk
            seen += chunk.shape[0]
            if seen in (CHUNK, 5 * CHUNK) or seen % (options.rows // 10) == 0:
                point = {
                    "rows": seen,
                    "seconds": round(time.perf_counter() - began, 1),
                    "resident_mb": round(resident_mb()),
                    "peak_mb": round(peak_mb()),
                }
                points.append(point)
                print(point, flush=True)

    result = nor.train_stream(
        start,
        measured,
        nor.MaxProduct(temperature=1.0, ancestors_only=True),
        batch_size=options.batch,
        learning_rate=0.003,
        n_rows=options.rows,
        engine=get_engine(n_threads=options.threads),
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    held_out = next(chunks(truth, 2_000))
    bounds = {
        name: significant(
            nor.evaluate(model, held_out, nor.MaxProduct(ancestors_only=True)).elbo_mp.mean
        )
        for name, model in (("start", start), ("learned", result.network), ("truth", truth))
    }
    speed = options.rows / seconds
    early = next((p for p in points if p["rows"] >= 5 * CHUNK), points[0])
    growth = points[-1]["peak_mb"] - early["peak_mb"]
    days = BILLION / speed / 86_400
    statement = (
        f"{options.rows:,} rows x {N_VISIBLE:,} columns in {seconds:.0f} s ({cpu:.0f} s of CPU "
        f"time): {speed:,.0f} rows/s; "
        f"peak memory {points[-1]['peak_mb']} MB, {growth} MB more than after {early['rows']:,} "
        f"rows. A billion rows: {days:.1f} days at this speed, {days * cpu / seconds:.1f} days of "
        f"CPU time, the same memory "
        f"(plus {64 * BILLION // options.batch // 2**20} MB for the record of the updates)."
    )
    print(statement)
    print("bound per held-out row:", bounds)
    write(
        options.json,
        {
            "machine": machine.describe(),
            "rows": options.rows,
            "columns": N_VISIBLE,
            "hidden": N_HIDDEN,
            "edges": truth.n_edges,
            "ones_per_row": significant(n_ones / options.rows),
            "batch_size": options.batch,
            "chunk_rows": CHUNK,
            "updates": result.state.step,
            "seconds": significant(seconds),
            "cpu_seconds": significant(cpu),
            "seconds_drawing_rows": significant(generating),
            "rows_per_second": significant(speed),
            "memory": points,
            "bound_per_row": bounds,
            "billion_rows_days": significant(days, 3),
            "billion_rows_cpu_days": significant(days * cpu / seconds, 3),
            "statement": statement,
        },
    )


if __name__ == "__main__":
    main()
