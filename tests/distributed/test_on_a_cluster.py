"""Results on real workers have the bits of one machine, and stopped runs continue."""

from __future__ import annotations

import numpy as np
import pytest
from broken_rows import Broken

import noisyor as nor
from distributed import Client
from noisyor import distributed as nd
from noisyor.errors import ClusterError, InvalidDataError, InvalidSettingError


def same(one, other):
    return one.theta.tobytes() == other.theta.tobytes()


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


def test_training_a_deep_network_has_the_bits_of_one_machine(client, data, source):
    edges = [(parent, child) for parent in (0, 1) for child in range(12)]
    network = nor.from_edges(12, 3, edges, [(2, 0), (2, 1)])
    network = nor.initialize(network, noise="uniform", seed=2)
    here = nor.train(network, data, steps=2, batch_size=None, block_rows=8192)
    assert same(nd.train(client, network, source, steps=2).network, here.network)


def test_explanations_and_bounds_have_the_bits_of_one_machine(client, network, data, source):
    method = nor.MaxProduct(temperature=1.0, n_samples=2)
    here = nor.explain(network, data, method, seed=4)
    there = nd.explain(client, network, source, method, seed=4)
    assert (here.states != there.states).nnz == 0
    assert here.log_joint.tobytes() == there.log_joint.tobytes()

    methods = (nor.MaxProduct(), nor.MeanField(outer=1, inner=2))
    scores = [nor.evaluate(network, data, methods), nd.evaluate(client, network, source, methods)]
    assert scores[0].elbo_vi.per_row.tobytes() == scores[1].elbo_vi.per_row.tobytes()
    assert repr(scores[0]) == repr(scores[1])


def test_parts_are_written_once_and_belong_to_one_run(client, network, data, source, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    expected = nor.explain(network, data)
    parts = nd.explain(client, network, source, out=tmp_path / "causes")
    tables = [parquet.read_table(file) for file in parts.files]
    assert sum(table.num_rows for table in tables) == parts.n_rows == 9_000
    assert len(tables) == 13
    log_joint = np.concatenate([table["log_joint"].to_numpy() for table in tables])
    assert log_joint.tobytes() == expected.log_joint.tobytes()
    causes = [active for table in tables for active in table["causes"].to_pylist()]
    assert all(causes[row] == expected.active(row).tolist() for row in range(0, 9_000, 90))
    assert tables[1]["row"][0].as_py() == 700

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
    with pytest.raises(ClusterError, match=r"part-00000003.parquet: Is a directory"):
        nd.explain(client, network, source, out=tmp_path / "causes")
    with pytest.raises(InvalidSettingError, match="another run"):
        nd.explain(client, network, source, out=tmp_path / "causes", seed=1)


def test_chunks_without_rows_have_no_part(client, network, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = Broken("fine", n_rows=30)
    rows.sizes = (0, 30, 0, 20)
    parts = nd.explain(client, network, rows, out=tmp_path / "causes")
    numbers = [parquet.read_table(file)["row"].to_pylist() for file in parts.files]
    assert numbers == [list(range(30)), list(range(30, 50))]


@pytest.mark.long
def test_an_estimator_takes_a_client(client, data, source):
    settings = {"n_components": 3, "objective": "mdl", "steps": 2}
    model = nor.BooleanMatrixFactorization(**settings).fit(source, client=client)
    assert model.provenance_["data"]["rows"] == 9_000
    assert model.history_.n_steps == 2
    assert model.settings_["batch_size"] == 65_536
    assert model.transform(data.take(slice(0, 5))).shape == (5, model.network_.n_hidden)


def test_small_minibatches_are_refused_with_advice(client, network, source):
    with pytest.raises(InvalidSettingError, match=r"batch_size=100 .*8,192"):
        nd.train(client, network, source, batch_size=100)


@pytest.mark.parametrize(
    ("what", "reason"), [("disk", "Input/output error"), ("memory", "memory of a worker")]
)
def test_a_chunk_that_cannot_be_read_is_named(client, network, what, reason):
    with pytest.raises(InvalidDataError, match=rf"chunk 1 \(rows 3,000 to 6,000\).*{reason}"):
        nd.train(client, network, Broken(what), steps=1)


def test_a_lost_connection_ends_in_an_error_and_the_run_continues_later(
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
