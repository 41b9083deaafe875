"""Dask workers on this machine, over TCP: same bits, overhead, two workers against one, kills.

Parts: ``bits`` trains on 1, 2 and 3 workers and in this process. ``overhead`` compares the CPU time
of all processes with that of the tasks themselves, and the sizes of what is sent. ``throughput``
sets two one-core workers beside one. ``kills`` trains and explains while random workers are killed.
``explain`` writes the causes of millions of rows, is stopped on the way, goes on, and watches the
memory of client and workers. Parts of a run are written to the JSON file as they come.

    python benchmarks/many_machines.py overhead kills --json results/distributed.json

(The script is not called distributed.py because it would hide the package of that name.)
"""

from __future__ import annotations

import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import cloudpickle
import dask
import numpy as np
import psutil
import scipy.sparse as sp

import _measure
import noisyor as nor
from distributed import Client, LocalCluster
from noisyor import distributed as nd
from noisyor.distributed import tasks, training
from noisyor.distributed.chunks import ClusterRows, Item

N_VISIBLE, N_HIDDEN, ONES = 1000, 100, 30


class Generated(nor.data.RowSource):
    """Rows that are drawn when they are read, the same each time; half of them by causes."""

    n_visible = N_VISIBLE

    def __init__(self, n_rows: int, chunk: int) -> None:
        sizes = [chunk] * (n_rows // chunk) + ([n_rows % chunk] if n_rows % chunk else [])
        self.sizes = tuple(sizes)

    def read(self, number: int) -> Any:
        generator = np.random.default_rng((17, number))
        size = self.sizes[number]
        cause = generator.integers(0, N_HIDDEN, (size, 1))
        columns = (cause * 10 + generator.integers(0, 20, (size, ONES))) % N_VISIBLE
        columns[:, ::4] = generator.integers(0, N_VISIBLE, columns[:, ::4].shape)
        entries = np.ones(columns.size, dtype=np.int8)
        rows = np.repeat(np.arange(size), ONES)
        matrix = sp.csr_array((entries, (rows, columns.ravel())), shape=(size, N_VISIBLE))
        matrix.data[:] = 1
        return matrix


def network() -> nor.Network:
    failure = np.full((N_HIDDEN, N_VISIBLE), 0.999)
    for cause in range(N_HIDDEN):
        failure[cause, cause * 10 : cause * 10 + 20] = 0.5
    return nor.bipartite(
        N_VISIBLE,
        N_HIDDEN,
        failure_probability=failure,
        prior_probability=0.02,
        noise_probability=0.003,
    )


def start(n_workers: int) -> tuple[LocalCluster, Client]:
    dask.config.set(
        {
            "distributed.worker.profile.enabled": False,
            # A busy machine takes longer than the usual 15 s to start a worker again.
            "distributed.deploy.lost-worker-timeout": "300s",
        }
    )
    cluster = LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    return cluster, Client(cluster)


def timed(item: Item, job: tasks.Job, theta: Any, step: int) -> Any:
    """The task of training, which counts its own CPU time in the worker."""
    import noisyor.distributed.tasks as module

    began = time.thread_time()
    found = module.add_up_gradient(item, job, theta, step)
    module.SPENT = getattr(module, "SPENT", 0.0) + time.thread_time() - began  # type: ignore[attr-defined]
    return found


def spent() -> tuple[float, float]:
    """CPU seconds of this process, and of its tasks."""
    import noisyor.distributed.tasks as module

    return time.process_time(), getattr(module, "SPENT", 0.0)


# ---- parts


def bits(options: Any) -> dict[str, Any]:
    rows, model = Generated(40_000, 7_000), network()
    whole = sp.vstack(list(rows), format="csr")
    settings: dict[str, Any] = {"steps": 3, "batch_size": 16_384, "block_rows": 2048}
    expected = nor.train(model, whole, **settings).network.theta.tobytes()
    found = {}
    for n_workers in (1, 2, 3):
        cluster, client = start(n_workers)
        with cluster, client:
            learned = nd.train(client, model, rows, **settings).network
            found[f"{n_workers} workers"] = learned.theta.tobytes() == expected
    return {"rows": rows.n_rows, "settings": settings, "same_bits_as_this_process": found}


def overhead(options: Any) -> dict[str, Any]:
    training.add_up_gradient = timed  # type: ignore[assignment]
    model, results = network(), {}
    cluster, client = start(2)
    with cluster, client:
        nd.train(client, model, Generated(8192, 8192), steps=1)
        idle = _idle_cpu(client)
        for size in (8192, 100_000):
            rows, shares, walls, cpus = Generated(size, 10_000), [], [], []
            nd.train(client, model, rows, steps=1)
            for _ in range(options.rounds):
                began = [time.process_time(), time.perf_counter()]
                before = client.run(spent)
                nd.train(client, model, rows, steps=3)
                after = client.run(spent)
                own = time.process_time() - began[0]
                walls.append((time.perf_counter() - began[1]) / 3)
                workers = sum(after[name][0] - before[name][0] for name in after)
                work = sum(after[name][1] - before[name][1] for name in after)
                shares.append((own + workers - work) / work)
                cpus.append(work / 3)
            results[f"{size} rows"] = {
                "overhead_share_of_task_cpu": round(median(shares), 4),
                "of_which_an_idle_cluster_uses": round(
                    median(idle * w / c for w, c in zip(walls, cpus, strict=True)), 4
                ),
                "all_rounds": [round(share, 4) for share in shares],
                "task_cpu_s_per_step": round(median(cpus), 3),
                "task_cpu_us_per_row": round(1e6 * median(cpus) / size, 2),
                "overhead_cpu_ms_per_step": round(
                    1e3 * median(s * c for s, c in zip(shares, cpus, strict=True)), 1
                ),
                "wall_s_per_step": round(median(walls), 3),
            }
        item = ClusterRows(client, Generated(100_000, 10_000)).item([(0, 2048)])
        job = tasks.Job(model, ClusterRows(client, Generated(100_000, 10_000)).reader, "numba")
        sizes = {
            "task": len(cloudpickle.dumps((tasks.add_up_gradient, item))),
            "parameters_once_a_step": len(pickle.dumps(model.theta)),
            "job_once_a_run": len(cloudpickle.dumps(job)),
        }
    return {
        "columns": N_VISIBLE,
        "hidden": N_HIDDEN,
        "ones_a_row": ONES,
        "idle_cpu_s_per_s": round(idle, 4),
        "batches": results,
        "bytes_sent": sizes,
    }


def _idle_cpu(client: Client, seconds: float = 6.0) -> float:
    """CPU seconds a second of all processes of a cluster that has nothing to do."""
    own, before = time.process_time(), client.run(spent)
    time.sleep(seconds)
    after = client.run(spent)
    workers = sum(after[name][0] - before[name][0] for name in after)
    return (time.process_time() - own + workers) / seconds


def throughput(options: Any) -> dict[str, Any]:
    rows, model, walls = Generated(100_000, 10_000), network(), {1: [], 2: []}
    started = {n: start(n) for n in (1, 2)}
    for _, client in started.values():
        nd.train(client, model, rows, steps=1)
    for _ in range(options.rounds):
        for n, (_, client) in started.items():
            began = time.perf_counter()
            nd.train(client, model, rows, steps=3)
            walls[n].append((time.perf_counter() - began) / 3)
    for cluster, client in started.values():
        client.close()
        cluster.close()
    ratios = [one / two for one, two in zip(walls[1], walls[2], strict=True)]
    return {
        "rows_a_step": rows.n_rows,
        "wall_s_per_step": {f"{n} workers": round(median(w), 3) for n, w in walls.items()},
        "two_against_one": round(median(ratios), 3),
        "all_rounds": [round(ratio, 3) for ratio in ratios],
    }


def kills(options: Any) -> dict[str, Any]:
    rows, model = Generated(12_000, 1000), network()
    generator, log = random.Random(5), []
    folder = Path(tempfile.mkdtemp())
    cluster, client = start(2)
    with cluster, client:
        steps = 6
        expected = nd.train(client, model, rows, steps=steps).network.theta.tobytes()
        causes = nd.explain(client, model, rows)
        stop = threading.Event()

        def killer() -> None:
            # Dask does not start a worker again that dies while it starts: only those die here
            # that have been at work for three seconds.
            since: dict[str, float] = {}
            pause = time.time() + 5.0
            while not stop.wait(0.2) and len(log) < options.kills:
                now, there = time.time(), set(cluster.scheduler.workers)
                since = {name: since.get(name, now) for name in there}
                nannies = [n for n in cluster.workers.values() if n.worker_address in there]
                alive = [n.pid for n in nannies if now - since[n.worker_address] > 3.0]
                if alive and now > pause:
                    os.kill(generator.choice(alive), signal.SIGKILL)
                    log.append(time.strftime("%H:%M:%S"))
                    pause = now + generator.uniform(0.5, 8.0)

        thread = threading.Thread(target=killer, daemon=True)
        thread.start()
        same_training, same_explaining = [], []
        while len(log) < options.kills:
            learned = nd.train(client, model, rows, steps=steps).network
            same_training.append(learned.theta.tobytes() == expected)
            out = folder / str(len(same_training))
            parts = nd.explain(client, model, rows, out=out)
            same_explaining.append(_same_causes(parts, causes))
        stop.set()
        thread.join()
    shutil.rmtree(folder)
    return {
        "killed": len(log),
        "trainings": len(same_training),
        "trainings_with_the_same_bits": sum(same_training),
        "explained": len(same_explaining),
        "explained_with_the_same_bits": sum(same_explaining),
    }


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline()) and process.status() != "zombie"
    except psutil.Error:
        return False


def _same_causes(parts: nd.Parts, expected: nor.inference.Posterior) -> bool:
    import pyarrow.parquet

    tables = [pyarrow.parquet.read_table(file) for file in parts.files]
    found = np.concatenate([table["log_joint"].to_numpy() for table in tables])
    return found.tobytes() == expected.log_joint.tobytes()


def explain(options: Any) -> dict[str, Any]:
    """Stopped by SIGKILL of the client on the way, then done; memory is watched throughout."""
    folder = Path(options.folder or tempfile.mkdtemp())
    out = folder / "causes"
    command = [sys.executable, __file__, "--child", str(options.rows), str(out)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while len(list(out.glob("part-*"))) < options.rows // options.chunk // 10:
        time.sleep(1)
    for process in [*psutil.Process(first.pid).children(recursive=True), psutil.Process(first.pid)]:
        process.kill()
    first.wait()
    there = len(list(out.glob("part-*.parquet")))
    second = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = eval(second.stdout.strip().splitlines()[-1])
    size = sum(file.stat().st_size for file in out.glob("part-*.parquet"))
    if not options.folder:
        shutil.rmtree(folder)
    return {"parts_when_killed": there, **found, "bytes_written": size}


def explain_child(n_rows: int, out: str, chunk: int) -> None:
    rows, model, peaks = Generated(n_rows, chunk), network(), []
    cluster, client = start(2)
    with cluster, client:
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(2.0):
                own = psutil.Process()
                sizes = [p.memory_info().rss for p in own.children(recursive=True) if _is_worker(p)]
                peaks.append((own.memory_info().rss, max(sizes, default=0)))

        thread = threading.Thread(target=watch)
        thread.start()
        began, cpu = time.perf_counter(), client.run(time.process_time)
        parts = nd.explain(client, model, rows, nor.MaxProduct(), out=out)
        after = client.run(time.process_time)
        seconds = time.perf_counter() - began
        stop.set()
        thread.join()
    third = max(1, len(peaks) // 3)
    print(
        {
            "rows": n_rows,
            "columns": N_VISIBLE,
            "parts": parts.n_parts,
            "parts_that_were_there": parts.n_resumed,
            "seconds": round(seconds, 1),
            "worker_cpu_s": round(sum(after.values()) - sum(cpu.values()), 1),
            "client_mb": {
                "first third": round(max(p[0] for p in peaks[:third]) / 1e6),
                "last third": round(max(p[0] for p in peaks[-third:]) / 1e6),
            },
            "largest_worker_mb": {
                "first third": round(max(p[1] for p in peaks[:third]) / 1e6),
                "last third": round(max(p[1] for p in peaks[-third:]) / 1e6),
            },
            "client_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        }
    )


PARTS = {"bits": bits, "overhead": overhead, "throughput": throughput, "kills": kills}
PARTS["explain"] = explain


def main() -> None:
    parser = _measure.arguments(__doc__ or "")
    parser.add_argument("parts", nargs="*", help="bits, overhead, throughput, kills, explain")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows to explain")
    parser.add_argument("--chunk", type=int, default=50_000, help="rows of a chunk of these")
    parser.add_argument("--folder", help="where explanations go; removed if not given")
    parser.add_argument("--child", nargs=2, help="used by the script itself")
    options = parser.parse_args()
    if options.child:
        explain_child(int(options.child[0]), options.child[1], options.chunk)
        return
    for name in options.parts or PARTS:
        machine = _measure.Machine()
        found = PARTS[name](options)
        found["machine"] = machine.describe("distributed", "pyarrow")
        print(name, found, flush=True)
        results = _measure.earlier(options.json, {})
        _measure.write(options.json, {**results, name: found})


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
