"""Faults of clusters: lost workers and schedulers, full disks, too little memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import broken_rows
import dask
import numpy as np
import pytest
from broken_rows import Broken, limit_files

import noisyor as nor
from distributed import Client, LocalCluster
from noisyor import distributed as nd
from noisyor.errors import ClusterError

pytestmark = pytest.mark.long


def wait_for_restart(client):
    """Wait for two workers: Dask does not restart one that dies while it starts."""
    client.wait_for_workers(2, timeout=60)
    time.sleep(1.0)


def test_a_chunk_that_kills_its_workers_is_named(client, network):
    rows = Broken("kill", 2, n_rows=30)
    with pytest.raises(ClusterError, match=r"chunk 2 \(rows 60 to 90\).*: every worker"):
        nd.explain(client, network, rows, engine="numpy")
    wait_for_restart(client)


def test_a_worker_that_is_killed_changes_nothing(client, network):
    rows = Broken("slow", number=-1)
    expected = nor.train(
        network, np.concatenate(list(rows)), steps=3, batch_size=None, block_rows=1
    )
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
    try:
        found = nd.train(
            client,
            network,
            rows,
            steps=3,
            callbacks=[lambda info: timer.start() if info.state.step == 1 else None],
        )
        assert timer.finished.is_set()
    finally:
        timer.cancel()
    assert found.network.theta.tobytes() == expected.network.theta.tobytes()
    wait_for_restart(client)


@contextmanager
def processes(folder, modules=Path(broken_rows.__file__).parent):
    """A scheduler and a worker of their own: the scheduler's process, and a client."""
    paths = [str(modules), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    with ExitStack() as stack:
        started = []
        for what, *more in (
            ("scheduler", "--host", "127.0.0.1", "--port", "0"),
            ("worker", "--nthreads", "1", "--local-directory", str(folder)),
        ):
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
            command += ["--scheduler-file", str(file), *more]
            process = stack.enter_context(
                subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
            )
            stack.callback(process.kill)
            started.append(process)
        with dask.config.set({"distributed.comm.timeouts.connect": "5s"}):
            client = stack.enter_context(Client(scheduler_file=str(file), timeout=60))
            client.wait_for_workers(1, timeout=60)
            yield started[0], client


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_is_lost_ends_in_an_error_and_the_run_continues_with_another(
    network, tmp_path
):
    rows = Broken("fine", n_rows=500)
    options = {"steps": 4, "checkpoint": tmp_path / "run", "resume": True}
    expected = nor.train(
        network, np.concatenate(list(rows)), steps=4, batch_size=None, block_rows=1
    )
    with processes(tmp_path) as (scheduler, client):

        def lose(info):
            if info.state.step == 2:
                scheduler.kill()

        with pytest.raises(ClusterError, match="scheduler is lost"):
            nd.train(client, network, rows, callbacks=[lose], **options)
    with processes(tmp_path) as (_, client):
        found = nd.train(client, network, rows, **options)
    assert found.resumed_at == 2
    assert found.network.theta.tobytes() == expected.network.theta.tobytes()


def test_rows_of_a_class_that_workers_cannot_import_are_refused(network, tmp_path):
    with (
        processes(tmp_path, modules=tmp_path) as (_, client),
        pytest.raises(ClusterError, match=r"cannot load .*No module.*broken_rows"),
    ):
        nd.train(client, network, Broken("fine", n_rows=30), steps=1)


def test_a_full_disk_is_named_and_written_parts_stay(network, tmp_path):
    pytest.importorskip("pyarrow")
    rows = Broken("fine", n_rows=30)
    rows.sizes = (30, 20_000, 30)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(limit_files, 20_000)
        with pytest.raises(ClusterError, match=r"part-00000001.parquet: File too"):
            nd.explain(client, network, rows, out=tmp_path / "causes")
        there = {file.name for file in (tmp_path / "causes").glob("*")}
        assert "part-00000001.parquet" not in there
        assert not [name for name in there if not name.startswith(("part-", "run."))]
        client.run(limit_files, None)
        parts = nd.explain(client, network, rows, out=tmp_path / "causes")
    assert parts.n_resumed == len(there) - 1
    assert len(parts.files) == 3


def test_rows_that_need_more_memory_than_a_worker_has_are_named(network):
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.worker.memory.terminate": 0.95,
        "distributed.deploy.lost-worker-timeout": "300s",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="600MB", dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
        pytest.raises(ClusterError, match=r"chunk 1 \(rows 30 to 60\).*: every worker .*memory"),
    ):
        nd.explain(client, network, Broken("hungry", n_rows=30), engine="numpy")
