"""A small cluster of real workers over TCP, and rows for it.

The cluster lives as long as a module of tests, because its threads would disturb tests that fork.
"""

from __future__ import annotations

import dask
import numpy as np
import pytest

import noisyor as nor
from distributed import Client, LocalCluster

N_ROWS, N_VISIBLE, N_HIDDEN, CHUNK_ROWS = 9_000, 12, 3, 700


@pytest.fixture(scope="module")
def cluster():
    settings = {
        # Dask gives up a task after two deaths of its worker, so that few are restarted.
        "distributed.scheduler.allowed-failures": 1,
        "distributed.worker.memory.terminate": False,
        "distributed.comm.timeouts.connect": "10s",
        # A busy machine takes longer than the usual 15 s to restart a worker.
        "distributed.deploy.lost-worker-timeout": "300s",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as started,
    ):
        yield started


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as started:
        yield started


@pytest.fixture(scope="session")
def data():
    """All rows in memory; some entries of column 3 are missing."""
    truth = nor.bipartite(
        N_VISIBLE,
        N_HIDDEN,
        failure_probability=np.where(np.arange(36).reshape(3, 12) % 3 == 0, 0.2, 1.0),
        prior_probability=0.4,
        noise_probability=0.05,
    )
    rows = nor.sample(truth, N_ROWS, seed=1).visible.toarray().astype(np.float64)
    rows[::50, 3] = np.nan
    return nor.Observations.of(rows)


@pytest.fixture(scope="session")
def source(data, tmp_path_factory):
    """The same rows in files that workers read."""
    folder = tmp_path_factory.mktemp("data") / "rows"
    nor.data.write_rows(folder, [data])
    return nor.data.open_rows(folder, chunk_rows=CHUNK_ROWS)


@pytest.fixture(scope="session")
def network():
    return nor.initialize(nor.bipartite(N_VISIBLE, N_HIDDEN), noise="uniform", seed=2)
