"""Measure noisyor on Dask workers of this machine: same bits, overhead, speedup, killed workers.

The scheduler, the workers and the client are separate processes that communicate over TCP. Parts:

* ``bits`` compares training on 1, 2 and 3 workers with training in this process;
* ``overhead`` compares the CPU time of all processes with that of the tasks, and counts bytes;
* ``throughput`` compares two one-core workers with one;
* ``kills`` trains and explains while random workers are killed;
* ``explain`` explains millions of rows, kills everything on the way and a worker later, continues,
  and records the memory of all processes.

The results of a part are written to the JSON file when the part ends.

    python benchmarks/many_machines.py overhead kills --json results/distributed.json

(The script is not called distributed.py because it would hide the package of that name.)
"""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import cloudpickle
import numpy as np
import psutil
import scipy.sparse as sp

import _measure
import noisyor as nor
from _machines import Machines, Watch, between, by_role
from distributed import Client
from noisyor import distributed as nd
from noisyor.distributed import session
from noisyor.distributed.chunks import Ranges, Reader
from noisyor.distributed.inference import Parts
from noisyor.distributed.session import sum_over_batches
from noisyor.distributed.training import gradient_of_rows

N_VISIBLE, N_HIDDEN, DRAWS = 1000, 100, 30


def block(number: int, size: int) -> Any:
    """Generate rows of thirty draws, most of them from one cause; seeded by the block's number."""
    generator = np.random.default_rng((17, number))
    cause = generator.integers(0, N_HIDDEN, (size, 1))
    columns = (cause * 10 + generator.integers(0, 20, (size, DRAWS))) % N_VISIBLE
    columns[:, ::4] = generator.integers(0, N_VISIBLE, columns[:, ::4].shape)
    entries = np.ones(columns.size, dtype=np.int8)
    rows = np.repeat(np.arange(size), DRAWS)
    matrix = sp.csr_array((entries, (rows, columns.ravel())), shape=(size, N_VISIBLE))
    matrix.data[:] = 1
    return matrix


@contextmanager
def stored(n_rows: int, chunk: int) -> Iterator[nor.data.RowSource]:
    """Write rows to files that workers read, and remove them afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rows-"))
    try:
        yield store(folder / "rows", n_rows, chunk)
    finally:
        shutil.rmtree(folder)


def store(folder: Path, n_rows: int, chunk: int) -> nor.data.RowSource:
    if not (folder / "shape.npy").exists():
        sizes = [min(50_000, n_rows - first) for first in range(0, n_rows, 50_000)]
        nor.data.write_rows(folder, (block(n, size) for n, size in enumerate(sizes)))
    return nor.data.open_rows(folder, chunk_rows=chunk)


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


def timed(task: Ranges, job: session.Job, **arguments: Any) -> Any:
    """Run a task of training, and count its CPU time in the worker."""
    import noisyor.distributed.session as module

    began = time.thread_time()
    found = module.sum_over_batches(task, job, **arguments)  # not replaced in the worker
    module.SPENT = getattr(module, "SPENT", 0.0) + time.thread_time() - began  # type: ignore[attr-defined]
    return found


def spent() -> float:
    """Return the CPU seconds of the tasks of a worker so far."""
    import noisyor.distributed.session as module

    return getattr(module, "SPENT", 0.0)


# ---- parts


def bits(options: Any) -> dict[str, Any]:
    model, found = network(), {}
    settings: dict[str, Any] = {"steps": 3, "batch_size": 16_384, "block_rows": 2048}
    with stored(40_000, 7_000) as rows:
        whole = nor.Observations.concatenate(list(rows))
        whole = nor.Observations.of(whole, row_ids=np.arange(rows.n_rows))  # they key the noise
        expected = nor.train(model, whole, **settings).network.theta.tobytes()
        for n_workers in (1, 2, 3):
            with Machines(n_workers) as machines:
                learned = nd.train(machines.client, model, rows, **settings).network
            found[f"{n_workers} workers"] = learned.theta.tobytes() == expected
    return {"rows": rows.n_rows, "settings": settings, "same_bits_as_this_process": found}


def overhead(options: Any) -> dict[str, Any]:
    setattr(session, "sum_over_batches", timed)  # noqa: B010
    results: dict[str, Any] = {"columns": N_VISIBLE, "hidden": N_HIDDEN}
    with stored(100_000, 10_000) as many, stored(8192, 8192) as few:
        results["ones_a_row"] = round(sum(rows.n_active for rows in many) / many.n_rows, 1)
        job = session.Job(network(), Reader(many), "numba")
        task = [(0, 2048)]
        results["bytes_sent"] = {
            "task": len(cloudpickle.dumps((sum_over_batches, task, gradient_of_rows))),
            "parameters_once_a_step": len(pickle.dumps(network().theta)),
            "job_once_a_run": len(cloudpickle.dumps(job)),
        }
        with Machines(2) as machines:
            results["settings_of_local_clusters"] = {
                "idle_cpu_ms_per_s": _idle(machines),
                "8192 rows": _overhead(machines, few, options.rounds),
                "100000 rows": _overhead(machines, many, options.rounds),
            }
        with Machines(2, {}) as machines:
            results["settings_of_dask"] = {
                "idle_cpu_ms_per_s": _idle(machines),
                "100000 rows": _overhead(machines, many, options.rounds),
            }
    return results


def _idle(machines: Machines, seconds: float = 10.0) -> dict[str, float]:
    """Measure the CPU milliseconds per second of an idle cluster, by role."""
    time.sleep(3.0)
    before = machines.cpu()
    time.sleep(seconds)
    used = between(before, machines.cpu())
    roles = {name: round(1e3 * each / used["wall"], 1) for name, each in by_role(used).items()}
    return {**roles, "all": round(sum(roles.values()), 1)}


def _overhead(machines: Machines, rows: nor.data.RowSource, rounds: int) -> dict[str, Any]:
    """Measure the CPU time of all processes beyond that of the tasks, as a share of the latter."""
    client, steps = machines.client, 3
    idle = _idle(machines)["all"] / 1e3
    turns = []
    for _ in range(rounds):
        stamps: dict[int, Any] = {}

        def look(info: Any) -> None:
            if info.state.step in (1, 1 + steps):  # the first step also sends the job
                stamps[info.state.step] = machines.cpu(), sum(client.run(spent).values())  # noqa: B023

        nd.train(client, network(), rows, steps=1 + steps, callbacks=[look])
        (before, work_before), (after, work_after) = stamps[1], stamps[1 + steps]
        used, work = between(before, after), work_after - work_before
        roles = by_role(used)
        roles["worker"] -= work
        turns.append((sum(roles.values()), work, used["wall"], roles))
    shares = [extra / work for extra, work, _, _ in turns]
    return {
        "overhead_share_of_task_cpu": round(median(shares), 4),
        "less_what_an_idle_cluster_uses": round(
            median((extra - idle * wall) / work for extra, work, wall, _ in turns), 4
        ),
        "all_rounds": [round(share, 4) for share in shares],
        "task_cpu_s_per_step": round(median(work for _, work, _, _ in turns) / steps, 3),
        "task_cpu_us_per_row": round(
            1e6 * median(work for _, work, _, _ in turns) / steps / rows.n_rows, 2
        ),
        "overhead_cpu_ms_per_step": round(
            1e3 * median(extra for extra, _, _, _ in turns) / steps, 1
        ),
        "of_which": {
            role: round(1e3 * median(roles[role] for _, _, _, roles in turns) / steps, 1)
            for role in turns[0][3]
        },
        "wall_s_per_step": round(median(wall for _, _, wall, _ in turns) / steps, 3),
    }


def throughput(options: Any) -> dict[str, Any]:
    """Measure wall and CPU seconds of a step on one pinned worker and on two, alternating.

    With ``--quiet``, rounds are left out in which other programs used more than that share of the
    cores while two workers ran.
    """
    model, turns = network(), []
    with (
        stored(100_000, 10_000) as rows,
        Machines(1, pin=True) as one,
        Machines(2, pin=True) as two,
    ):
        for machines in (one, two):
            nd.train(machines.client, model, rows, steps=1)
        for _ in range(options.rounds):
            turns.append([_step_time(machines, model, rows) for machines in (one, two)])
            print("turn", turns[-1], flush=True)
    most = 1.0 if options.quiet is None else options.quiet
    counted = [turn for turn in turns if turn[1][2] <= most] or turns
    ratios = [first[0] / second[0] for first, second in turns]
    names = ("1 worker", "2 workers")
    return {
        "rows_a_step": rows.n_rows,
        "wall_s_per_step": {
            name: round(median(turn[n][0] for turn in counted), 3) for n, name in enumerate(names)
        },
        "cpu_s_per_step": {
            name: round(median(turn[n][1] for turn in counted), 3) for n, name in enumerate(names)
        },
        "two_against_one": round(median(first[0] / second[0] for first, second in counted), 3),
        "rounds_counted": len(counted),
        "all_rounds": [round(ratio, 3) for ratio in ratios],
        "share_of_cores_used_by_others_meanwhile": [round(turn[1][2], 3) for turn in turns],
    }


def _step_time(machines: Machines, model: nor.Network, rows: Any) -> tuple[float, float, float]:
    """Measure wall and CPU seconds of a step, and the share of the cores other programs used."""
    stamps, busy, steps = {}, {}, 3

    def look(info: Any) -> None:
        stamps[info.state.step] = machines.cpu()
        busy[info.state.step] = _measure.busy_seconds()

    nd.train(machines.client, model, rows, steps=1 + steps, callbacks=[look])
    used = between(stamps[1], stamps[1 + steps])
    ours = sum(by_role(used).values())
    others = busy[1 + steps] - busy[1] - ours
    cores = len(os.sched_getaffinity(0))
    return used["wall"] / steps, ours / steps, max(0.0, others) / used["wall"] / cores


def kills(options: Any) -> dict[str, Any]:
    model, folder = network(), Path(tempfile.mkdtemp())
    generator, log, steps = random.Random(5), list[str](), 6
    with stored(12_000, 1000) as rows, Machines(2) as machines:
        client = machines.client
        expected = nd.train(client, model, rows, steps=steps).network.theta.tobytes()
        causes = nd.explain(client, model, rows)
        assert isinstance(causes, nor.inference.Posterior)
        stop = threading.Event()

        def killer() -> None:
            # Dask does not restart a worker that dies while it starts, so only older ones are
            # killed.
            pause = time.time() + 5.0
            while not stop.wait(0.2) and len(log) < options.kills:
                now = time.time()
                old = [p for p in machines.workers() if now - p.create_time() > 8.0]
                if now > pause and old:
                    generator.choice(old).kill()
                    log.append(time.strftime("%H:%M:%S"))
                    pause = now + generator.uniform(0.5, 8.0)

        thread = threading.Thread(target=killer, daemon=True)
        thread.start()
        same_training, same_explaining = [], []
        while len(log) < options.kills:
            learned = nd.train(client, model, rows, steps=steps).network
            same_training.append(learned.theta.tobytes() == expected)
            parts = nd.explain(client, model, rows, out=folder / str(len(same_training)))
            assert isinstance(parts, Parts)
            same_explaining.append(_same_causes(parts, causes))
            print(len(log), "killed", flush=True)
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


def _same_causes(parts: Parts, expected: nor.inference.Posterior) -> bool:
    import pyarrow.parquet

    tables = [pyarrow.parquet.read_table(file) for file in parts.files]
    found = np.concatenate([table["log_joint"].to_numpy() for table in tables])
    return found.tobytes() == expected.log_joint.tobytes()


def explain(options: Any) -> dict[str, Any]:
    """Kill everything after a third of the rows, and one worker after two thirds."""
    folder = Path(options.folder or tempfile.mkdtemp())
    out, n_parts = folder / "causes", -(-options.rows // options.chunk)
    store(folder / "rows", options.rows, options.chunk)
    with Machines(2) as machines:
        child = _explaining(machines, folder, options)
        with Watch(lambda: _memory(machines, child), 2.0) as first:
            _wait_for(out, n_parts // 3, child)
        child.kill()
        machines.kill()
        child.wait()
    there = len(list(out.glob("part-*.parquet")))
    with Machines(2) as machines:
        before, child = machines.cpu(), _explaining(machines, folder, options)
        with Watch(lambda: _memory(machines, child), 2.0) as second:
            _wait_for(out, 2 * n_parts // 3, child)
            machines.workers()[0].kill()
            printed, _ = child.communicate()
        used = between(before, machines.cpu())
    size = sum(file.stat().st_size for file in out.glob("part-*.parquet"))
    differing = _differing(out, folder, options)
    if not options.folder:
        shutil.rmtree(folder)
    return {
        "rows": options.rows,
        "columns": N_VISIBLE,
        "bytes_of_rows": sum(f.stat().st_size for f in (folder / "rows").iterdir())
        if options.folder
        else None,
        "parts": n_parts,
        "parts_when_everything_was_killed": there,
        **json.loads(printed.strip().splitlines()[-1]),
        "wall_s_of_the_second_call": round(used["wall"], 1),
        "cpu_s_of_the_second_call_without_the_killed_worker": {
            role: round(seconds, 1) for role, seconds in by_role(used).items() if role != "client"
        },
        "bytes_written": size,
        "rows_checked_that_differ_from_one_process": differing,
        "memory_mb_of_the_first_call": _series(first.seen),
        "memory_mb_of_the_second_call": _series(second.seen),
    }


def _explaining(machines: Machines, folder: Path, options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", str(machines.file), str(folder)]
    command += ["--chunk", str(options.chunk)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def explain_child(scheduler: str, folder: Path, chunk: int) -> None:
    rows = nor.data.open_rows(folder / "rows", chunk_rows=chunk)
    with Client(scheduler_file=scheduler) as client:
        parts = nd.explain(client, network(), rows, nor.MaxProduct(), out=folder / "causes")
    assert isinstance(parts, Parts)
    print(json.dumps({"parts_that_were_there": parts.n_resumed}))


def _wait_for(out: Path, n_parts: int, child: subprocess.Popen[str]) -> None:
    while len(list(out.glob("part-*.parquet"))) < n_parts:
        if child.poll() is not None:
            raise SystemExit("the client ended too early")
        time.sleep(0.5)


def _memory(machines: Machines, child: subprocess.Popen[str]) -> dict[str, int]:
    found = machines.memory()
    try:
        found["client"] = psutil.Process(child.pid).memory_info().rss
    except psutil.Error:
        del found["client"]
    return found


def _series(seen: list[tuple[float, dict[str, int]]]) -> dict[str, Any]:
    """Return about thirty samples, and the maxima of the second and of the last quarter."""
    found: dict[str, Any] = {"seconds": [round(at) for at, _ in seen[:: max(1, len(seen) // 30)]]}
    for name in sorted({name for _, each in seen for name in each}):
        values = [round(each[name] / 1e6) if name in each else None for _, each in seen]
        quarter = max(1, len(values) // 4)
        found[name] = {
            "largest of the second quarter": max(
                (v for v in values[quarter : 2 * quarter] if v is not None), default=None
            ),
            "largest of the last quarter": max(
                (v for v in values[-quarter:] if v is not None), default=None
            ),
            "looks": values[:: max(1, len(values) // 30)],
        }
    return found


def _differing(out: Path, folder: Path, options: Any) -> dict[str, int]:
    """Explain every fortieth part again in this process, and count the rows that differ."""
    import pyarrow.parquet as pq

    rows, model = nor.data.open_rows(folder / "rows", chunk_rows=options.chunk), network()
    checked = differ = 0
    for number in range(0, len(rows.sizes), 40):
        first = number * options.chunk
        some = nor.Observations.of(
            rows.read(number), row_ids=np.arange(first, first + rows.sizes[number])
        )
        here = nor.explain(model, some, nor.MaxProduct())
        there = pq.read_table(out / f"part-{number:08d}.parquet")
        differ += int((there["log_joint"].to_numpy() != here.log_joint).sum())
        checked += some.n_rows
    return {"checked": checked, "differ": differ}


PARTS = {"bits": bits, "overhead": overhead, "throughput": throughput, "kills": kills}
PARTS["explain"] = explain


def main() -> None:
    parser = _measure.arguments(__doc__ or "")
    parser.add_argument("parts", nargs="*", help="bits, overhead, throughput, kills, explain")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows to explain")
    parser.add_argument("--chunk", type=int, default=50_000, help="rows of a chunk")
    parser.add_argument(
        "--folder", help="folder for rows and explanations (default: a temporary one)"
    )
    parser.add_argument("--child", nargs=2, help="used by the script itself")
    options = parser.parse_args()
    if options.child:
        explain_child(options.child[0], Path(options.child[1]), options.chunk)
        return
    for name in options.parts or PARTS:
        machine = _measure.Machine()
        found = PARTS[name](options)
        found["machine"] = machine.describe("distributed", "pyarrow")
        print(name, json.dumps(found), flush=True)
        results = _measure.earlier(options.json, {})
        _measure.write(options.json, {**results, name: found})


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
