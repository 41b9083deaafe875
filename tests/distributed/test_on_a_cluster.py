"""Real workers over TCP: the bits of one machine, resumed runs, and faults.

Dask gives a task up after one death of its worker here, so that few workers have to be started.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import dask
import dask.array
import numpy as np
import pytest
from broken_rows import Broken

import noisyor as nor
from distributed import Client, LocalCluster, Nanny
from noisyor import distributed as nd
from noisyor.cli.main import main
from noisyor.distributed import chains
from noisyor.errors import ClusterError, InvalidDataError, InvalidSettingError
from noisyor.search import search_factors

N_ROWS, N_VISIBLE, N_HIDDEN, CHUNK = 9_000, 12, 3, 700
ENGINE = nor.engines.NumbaEngine(n_threads=1)


@pytest.fixture(scope="module")
def cluster():
    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.memory.terminate": False,
        "distributed.comm.timeouts.connect": "10s",
        # A machine that is busy takes longer than the usual 15 s to start a worker again.
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


@pytest.fixture(scope="module")
def data():
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


@pytest.fixture(scope="module")
def source(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "rows"
    nor.data.write_rows(folder, [data])
    return nor.data.open_rows(folder, chunk_rows=CHUNK)


@pytest.fixture(scope="module")
def network():
    return nor.initialize(nor.bipartite(N_VISIBLE, N_HIDDEN), noise="uniform", seed=2)


def same(one, other):
    return one.theta.tobytes() == other.theta.tobytes()


def workers(client):
    """Process id of every worker by its address."""
    return client.run(os.getpid)


def settle(client):
    """Wait for two workers: Dask does not start one again that dies while it starts."""
    client.wait_for_workers(2, timeout=60)
    time.sleep(1.0)


# ---- the bits of one machine


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (None, {"batch_size": None, "block_rows": 8192, "smoothing": 1.0}),
        (None, {"batch_size": 8500, "block_rows": 1000, "seed": 5}),
        (nor.MeanField(outer=1, inner=2), {"batch_size": None, "block_rows": 512}),
    ],
    ids=["all rows", "blocks shuffled", "mean-field"],
)
def test_training_has_the_bits_of_one_machine(client, network, data, source, method, options):
    options |= {"steps": 3, "learning_rate": 0.05, "held_out": data.take(slice(0, 100))}
    here = nor.train(network, data, method, **options)
    there = nd.train(client, network, source, method, **options)
    assert same(here.network, there.network)
    assert here.history.elbo.tobytes() == there.history.elbo.tobytes()
    assert here.history.evaluations == there.history.evaluations


@pytest.mark.parametrize("form", ["array", "frame", "held out"])
def test_other_forms_of_rows(client, network, data, source, form):
    expected = nor.train(network, data, steps=1, batch_size=None, block_rows=1, held_out=data)
    rows, held_out = source, None
    if form == "array":
        rows = dask.array.from_array(data.to_dense(), chunks=(1300, 5))
    elif form == "frame":
        frame = pytest.importorskip("pandas").DataFrame(data.to_dense())
        rows = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=4)
    else:
        held_out = source
    found = nd.train(client, network, rows, steps=1, held_out=held_out)
    assert same(found.network, expected.network)
    if held_out is not None:
        assert found.history.evaluations == expected.history.evaluations


def test_rows_have_the_causes_probabilities_and_bounds_of_one_machine(
    client, network, data, source
):
    method = nor.MaxProduct(temperature=1.0, n_samples=2)
    here = nor.explain(network, data, method, hidden={0: 1}, seed=4)
    there = nd.explain(client, network, source, method, hidden={0: 1}, seed=4)
    assert (here.states != there.states).nnz == 0
    assert here.log_joint.tobytes() == there.log_joint.tobytes()

    methods = (nor.MaxProduct(), nor.MeanField(outer=1, inner=2))
    scores = [nor.evaluate(network, data, methods), nd.evaluate(client, network, source, methods)]
    assert scores[0].elbo_vi.per_row.tobytes() == scores[1].elbo_vi.per_row.tobytes()
    assert repr(scores[0]) == repr(scores[1])

    here = nor.marginals(network, data, "samples", n_samples=2)
    there = nd.marginals(client, network, source, "samples", n_samples=2)
    assert here.probability.tobytes() == there.probability.tobytes()
    with pytest.raises(InvalidSettingError, match="hidden is a mapping"):
        nd.explain(client, network, source, hidden=np.zeros((N_ROWS, N_HIDDEN)))


def test_parts_are_written_once_and_belong_to_one_run(client, network, data, source, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    expected = nor.explain(network, data)
    parts = nd.explain(client, network, source, out=tmp_path / "causes")
    tables = [parquet.read_table(file) for file in parts.files]
    assert sum(table.num_rows for table in tables) == parts.n_rows == N_ROWS
    assert len(tables) == -(-N_ROWS // CHUNK)
    log_joint = np.concatenate([table["log_joint"].to_numpy() for table in tables])
    assert log_joint.tobytes() == expected.log_joint.tobytes()
    causes = [active for table in tables for active in table["causes"].to_pylist()]
    assert all(causes[row] == expected.active(row).tolist() for row in range(0, N_ROWS, 90))
    assert tables[1]["row"][0].as_py() == CHUNK

    before = [file.stat().st_mtime_ns for file in parts.files]
    content = parts.files[2].read_bytes()
    parts.files[2].unlink()
    again = nd.explain(client, network, source, out=tmp_path / "causes")
    after = [file.stat().st_mtime_ns for file in again.files]
    assert again.n_resumed == parts.n_parts - 1
    assert [one == other for one, other in zip(before, after, strict=True)].count(False) == 1
    assert parts.files[2].read_bytes() == content
    parts.files[3].unlink()
    parts.files[3].mkdir()
    with pytest.raises(ClusterError, match=r"cannot write .*part-00000003.parquet: Is a directory"):
        nd.explain(client, network, source, out=tmp_path / "causes")
    with pytest.raises(InvalidSettingError, match="another run"):
        nd.explain(client, network, source, out=tmp_path / "causes", seed=1)
    with pytest.raises(InvalidSettingError, match="another run"):
        nd.marginals(client, network, source, "samples", out=tmp_path / "causes")


def test_gibbs_rounds_go_on_where_they_were_stopped(
    client, network, data, source, tmp_path, monkeypatch
):
    settings = {"sweeps": 4, "smooth_to": "frequency", "seed": 3}
    expected = nor.learning.learn_by_gibbs(network, data, share_draws=False, **settings)
    keep, kept = chains._keep, []

    def interrupted(*arguments):
        keep(*arguments)
        kept.append(arguments)
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(chains, "_keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nd.learn_by_gibbs(client, network, source, folder=tmp_path / "chains", **settings)
    found = nd.learn_by_gibbs(client, network, source, folder=tmp_path / "chains", **settings)
    assert len(kept) == 4
    assert same(found, expected)
    assert [file.name for file in (tmp_path / "chains").iterdir()] == ["rounds.npz"]


def test_starts_of_a_search_run_at_once_and_change_nothing(client, data):
    rows = data.take(slice(0, 300))
    here = search_factors(rows, 3, n_restarts=4, patience=4)
    there = nd.search_factors(client, rows, 3, n_restarts=4, patience=4)
    assert here.scores == there.scores
    assert (here.factors == there.factors).all()


@pytest.mark.long
def test_an_estimator_takes_a_client(client, data, source):
    settings = {"n_components": 3, "objective": "mdl", "steps": 2}
    model = nd.fit(client, nor.BooleanMatrixFactorization(**settings), source)
    assert model.provenance_["data"]["rows"] == N_ROWS
    assert model.history_.n_steps == 2
    assert model.settings_["batch_size"] == 65_536
    assert model.transform(data.take(slice(0, 5))).shape == (5, model.network_.n_hidden)


def test_the_command_line_learns_on_a_cluster(cluster, client, data, tmp_path, capsys):
    table, model = tmp_path / "rows.csv", tmp_path / "model.safetensors"
    np.savetxt(table, data.take(slice(1, 50)).to_dense(), fmt="%d", delimiter=",")
    command = ["fit", str(table), "--out", str(model), "--components", "2", "--steps", "2"]
    command += ["--objective", "mdl", "--cluster"]
    assert main([*command, cluster.scheduler_address]) == 0
    assert "49 rows, 12 columns" in capsys.readouterr().out
    assert sorted(file.name for file in tmp_path.iterdir()) == [model.name, table.name]
    assert nor.load_network(model).n_visible == N_VISIBLE
    for wrong, reason in (
        (["nowhere", "--force"], "local:N or the address of a scheduler"),
        (["local:1", "--threads", "1"], "do not go together with --cluster"),
        (["local:1"], "--force replaces it"),
    ):
        assert main([*command, *wrong]) == 2
        assert reason in capsys.readouterr().err


# ---- faults


def test_small_minibatches_are_refused_with_advice(client, network, source):
    with pytest.raises(InvalidSettingError, match=r"batch_size=100 .* 8,192 rows.*learn_by_gibbs"):
        nd.train(client, network, source, batch_size=100)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("disk", r"cannot read chunk 1 \(rows 3,000 to 6,000\): .*Input/output error"),
        ("memory", r"chunk 1 \(rows 3,000 to 6,000\) does not fit into the memory"),
    ],
)
def test_a_chunk_that_cannot_be_read_is_named(client, network, what, message):
    with pytest.raises(InvalidDataError, match=message):
        nd.train(client, network, Broken(what), steps=1)


@pytest.mark.long
def test_a_chunk_that_kills_its_workers_is_named(client, network):
    rows = Broken("kill", 2, n_rows=30)
    with pytest.raises(ClusterError, match=r"chunk 2 \(rows 60 to 90\): every worker"):
        nd.explain(client, network, rows, engine="numpy", timeout=15.0)
    settle(client)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_that_is_lost_changes_nothing(client, network, how):
    rows = Broken("slow", number=-1)
    expected = nor.train(
        network, np.concatenate(list(rows)), steps=3, batch_size=None, block_rows=1
    )
    victim = next(iter(workers(client).values()))
    timer = threading.Timer(1.0, os.kill, (victim, how))
    try:
        found = nd.train(
            client,
            network,
            rows,
            steps=3,
            timeout=3.0,
            callbacks=[lambda info: timer.start() if info.state.step == 1 else None],
        )
        assert timer.finished.is_set()
    finally:
        timer.cancel()
        if how == signal.SIGSTOP:
            os.kill(victim, signal.SIGCONT)
    assert same(found.network, expected.network)
    settle(client)


def test_a_lost_connection_ends_in_an_error_and_the_run_goes_on_later(
    cluster, client, network, source, tmp_path
):
    options = {"steps": 4, "checkpoint": tmp_path / "run", "resume": True}
    expected = nd.train(client, network, source, steps=4)
    other = Client(cluster, set_as_default=False)

    def leave(info):
        if info.state.step == 2:
            other.close()

    with pytest.raises(ClusterError, match="connection"):
        nd.train(other, network, source, callbacks=[leave], **options)
    found = nd.train(client, network, source, **options)
    assert found.resumed_at == 2
    assert same(found.network, expected.network)


@pytest.mark.long
def test_a_worker_with_other_bits_is_refused(cluster, client, network):
    asked = (network, Broken("fine", n_rows=30), nor.MaxProduct())

    async def start():
        return await Nanny(cluster.scheduler_address, nthreads=1)

    other = {"distributed.nanny.pre-spawn-environ.OPENBLAS_CORETYPE": "Prescott"}
    with dask.config.set(other):
        nanny = cluster.sync(start)
    try:
        client.wait_for_workers(3, timeout=60)
        with pytest.raises(ClusterError, match=f"worker {nanny.worker_address} .*other bits"):
            nd.evaluate(client, *asked, engine="numpy")
        with pytest.warns(RuntimeWarning, match="other bits"):
            found = nd.evaluate(client, *asked, engine="numpy", exact=False)
        assert len(found.elbo_mp.per_row) == 90
    finally:
        cluster.sync(nanny.close)
