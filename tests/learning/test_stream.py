"""Training on chunks: the same bits however the chunks come, at constant memory."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import noisyor as nor
from noisyor.data import chunks as files
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError, InvalidDataError, InvalidSettingError
from noisyor.learning import stream as streaming

SETTINGS = {"batch_size": 20, "learning_rate": 0.02, "seed": 3, "engine": get_engine(n_threads=1)}


@pytest.fixture(scope="module")
def network():
    return nor.initialize(nor.bipartite(12, 3), noise="uniform", seed=1)


@pytest.fixture(scope="module")
def X():  # noqa: N802
    rng = np.random.default_rng(0)
    patterns = np.repeat(np.eye(3), 4, axis=1)
    on = (rng.random((130, 3)) < 0.4).astype(float)
    data = np.minimum(on @ patterns, 1.0)
    data[rng.random(data.shape) < 0.05] = np.nan
    return data


@pytest.fixture(scope="module")
def chunks(X):
    return [X[:50], X[50:100], X[100:]]


def train(network, chunks, **options):
    return nor.train_stream(network, chunks, **({"progress": False} | SETTINGS | options))


def test_training_raises_the_bound(network, X, chunks):
    result = train(network, chunks, passes=20)
    before = nor.evaluate(network, X, nor.MaxProduct()).elbo_mp.mean
    after = nor.evaluate(result.network, X, nor.MaxProduct()).elbo_mp.mean
    assert after > before + 1
    assert result.state.step == 20 * 8 == len(result.history.elbo)


def test_every_row_is_used_once_in_a_pass_under_its_own_number(network, chunks):
    class Recording(nor.MaxProduct):
        seen = []  # noqa: RUF012

        def gradient(self, network, observations, **options):
            self.seen.append(observations)
            return super().gradient(network, observations, **options)

    train(network, chunks, method=Recording(), passes=2)
    ids = [batch.row_ids for batch in Recording.seen]
    assert [len(part) for part in ids] == 2 * [20, 20, 10, 20, 20, 10, 20, 10]
    first, second = np.concatenate(ids[:8]), np.concatenate(ids[8:])
    assert sorted(first) == sorted(second) == list(range(130))
    assert not np.array_equal(first, second)  # another order in every pass


@pytest.mark.parametrize("parameterization", ["theta", "log"])
def test_a_stream_of_one_batch_is_the_step_of_train(network, X, parameterization):
    # One chunk, one batch: only the order of the rows differs, of which a batch knows nothing.
    streamed = train(network, [X], batch_size=130, steps=3, parameterization=parameterization)
    options = {**SETTINGS, "batch_size": None, "parameterization": parameterization}
    whole = nor.train(network, X, steps=3, progress=False, **options)
    np.testing.assert_allclose(streamed.network.theta, whole.network.theta, rtol=1e-12)


def test_chunks_fed_by_hand_give_the_same_bits(network, chunks):
    state = streaming.StreamState(nor.learning.init(network))
    settings = {name: value for name, value in SETTINGS.items() if name != "engine"}
    options, elbo = nor.learning.TrainOptions(**settings), []
    for chunk in chunks:
        rows = nor.Observations.of(chunk)
        state, history = streaming.learn_chunk(state, network, rows, None, options)
        elbo.extend(history.elbo)
    result = train(network, chunks)
    np.testing.assert_array_equal(state.training.theta, result.network.theta)
    np.testing.assert_array_equal(elbo, result.history.elbo)
    assert (state.n_rows, state.n_chunks) == (130, 3)


@pytest.mark.parametrize(
    "form",
    [
        lambda chunks: chunks,
        lambda chunks: lambda: iter(chunks),
        lambda chunks: (nor.Observations.of(chunk) for chunk in chunks),
    ],
    ids=["list", "function", "iterator"],
)
def test_any_form_of_chunks_gives_the_same_bits(network, chunks, form):
    expected = train(network, chunks).network.theta
    np.testing.assert_array_equal(train(network, form(chunks)).network.theta, expected)


def test_the_number_of_threads_changes_nothing(network, chunks):
    one, two = (
        train(network, chunks, engine=get_engine(n_threads=n)).network.theta for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_steps_go_round_the_chunks(network, chunks):
    by_steps = train(network, chunks, steps=16)
    np.testing.assert_array_equal(
        by_steps.state.theta, train(network, chunks, passes=2).state.theta
    )
    assert train(network, chunks, steps=11).state.step == 11


@pytest.mark.parametrize("stop_at", [1, 3, 8, 11])
def test_resume_is_bit_identical(network, chunks, tmp_path, stop_at):
    path = tmp_path / "run.safetensors"
    whole = train(network, chunks, passes=2)
    train(network, chunks, steps=stop_at, checkpoint=path)
    read = []

    def counted():
        for chunk in chunks:
            read.append(len(chunk))
            yield chunk

    resumed = train(network, counted, passes=2, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.state.theta, whole.state.theta)
    np.testing.assert_array_equal(resumed.history.elbo, whole.history.elbo)
    again = train(network, counted, passes=2, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.state.theta, whole.state.theta)


def test_an_interrupt_leaves_a_checkpoint(network, chunks, tmp_path):
    path = tmp_path / "run.safetensors"

    def interrupt(info):
        if info.state.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(network, chunks, checkpoint=path, callbacks=[interrupt])
    resumed = train(network, chunks, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.state.theta, train(network, chunks).state.theta)


def test_a_checkpoint_of_other_chunks_is_refused(network, chunks, tmp_path):
    path = tmp_path / "run.safetensors"
    train(network, chunks, checkpoint=path)
    with pytest.raises(CheckpointError, match="another run"):
        train(network, chunks[::-1], checkpoint=path, resume=True)


def test_finished_chunks_of_files_are_not_read_again(network, X, tmp_path):
    files.write_rows(tmp_path / "rows", [X])
    source = files.open_rows(tmp_path / "rows", chunk_rows=40)
    path = tmp_path / "run.safetensors"
    train(network, source, steps=4, checkpoint=path)
    read, original = [], source.read
    source.read = lambda number: read.append(number) or original(number)
    resumed = train(network, source, checkpoint=path, resume=True)
    assert len(read) == 3  # the first for the checkpoint's identity, two that were not finished
    del source.read
    np.testing.assert_array_equal(resumed.state.theta, train(network, source).state.theta)


def test_chunks_are_not_kept(network, X):
    made: list[weakref.ref] = []

    def chunks():
        for number in range(6):
            assert all(reference() is None for reference in made[: max(0, number - 1)])
            chunk = nor.Observations.of(X[: 20 + number])
            made.append(weakref.ref(chunk))
            yield chunk
            del chunk

    train(network, chunks)
    assert len(made) == 6


def test_a_callback_stops(network, chunks):
    result = train(network, chunks, callbacks=[lambda info: info.state.step == 2])
    assert result.state.step == 2


def test_progress_counts_rows(network, chunks, capsys, monkeypatch):
    monkeypatch.setattr("noisyor._util.progress.SECONDS_BETWEEN_LINES", 0.0)
    train(network, chunks, n_rows=130, progress=True)
    assert "130 of 130 rows" in capsys.readouterr().err


def test_a_batch_size_of_none_takes_whole_chunks(network, chunks):
    result = train(network, chunks, batch_size=None)
    assert result.state.step == 3
    expected = train(network, chunks, batch_size=50)
    np.testing.assert_array_equal(result.network.theta, expected.network.theta)


def test_held_out_rows_are_evaluated_on_the_way_and_at_the_end(network, X, chunks):
    result = train(network, chunks, held_out=X, evaluate_every=3)
    assert [point.step for point in result.history.evaluations] == [3, 6, 8]
    bound = nor.evaluate(result.network, X, nor.MaxProduct()).elbo_mp.mean
    assert result.history.evaluations[-1].elbo == pytest.approx(bound)
    by_steps = train(network, chunks, held_out=X, steps=5)
    assert [point.step for point in by_steps.history.evaluations] == [5]


def test_smoothing_needs_the_number_of_rows(network, X, chunks, tmp_path):
    with pytest.raises(InvalidSettingError, match="smoothing needs the number of rows"):
        train(network, chunks, smoothing=1.0)
    streamed = train(network, [X], batch_size=None, steps=3, smoothing=5.0, n_rows=130)
    options = {**SETTINGS, "batch_size": None, "smoothing": 5.0}
    whole = nor.train(network, X, steps=3, progress=False, **options)
    np.testing.assert_allclose(streamed.network.theta, whole.network.theta, rtol=1e-12)


def test_a_falling_rate_needs_the_number_of_steps(network, X, chunks, tmp_path):
    with pytest.raises(InvalidSettingError, match="final_learning_rate needs the number of steps"):
        train(network, chunks, final_learning_rate=1e-3)
    files.write_rows(tmp_path / "rows", [X])
    source = files.open_rows(tmp_path / "rows", chunk_rows=50)  # knows it: 3 + 3 + 2
    by_passes = train(network, source, final_learning_rate=1e-3)
    by_steps = train(network, source, final_learning_rate=1e-3, steps=8)
    np.testing.assert_array_equal(by_passes.network.theta, by_steps.network.theta)


# ---- rows in files


def same(left, right):
    left, right = nor.Observations.of(left), nor.Observations.of(right)
    return left.fingerprint() == right.fingerprint()


def test_written_rows_come_back(X, chunks, tmp_path):
    assert files.write_rows(tmp_path / "rows", chunks) == 130
    source = files.open_rows(tmp_path / "rows", chunk_rows=60)
    assert source.sizes == (60, 60, 10)
    assert (source.n_rows, source.n_visible) == (130, 12)
    assert same(source.read(1), X[60:120])


def test_the_arrays_of_a_scipy_matrix_are_opened(X, tmp_path):
    csr = sp.csr_matrix(np.nan_to_num(X))
    for name in ("indptr", "indices", "shape"):
        np.save(tmp_path / f"{name}.npy", np.asarray(getattr(csr, name)))
    source = files.open_rows(tmp_path, chunk_rows=100)
    assert same(nor.Observations.concatenate(list(source)), csr)
    np.save(tmp_path / "data.npy", csr.data)
    with pytest.raises(InvalidDataError, match=r"data\.npy"):
        files.open_rows(tmp_path)


def test_row_groups_of_parquet_are_chunks(X, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    cells = [arrow.array(column, mask=np.isnan(column)) for column in X.T]
    kinds = [arrow.bool_(), arrow.int8(), arrow.float64()]
    columns = {f"c{i}": cell.cast(arrow.int8()).cast(kinds[i % 3]) for i, cell in enumerate(cells)}
    path = tmp_path / "rows.parquet"
    parquet.write_table(arrow.table(columns), path, row_group_size=50)
    source = files.open_rows(path)
    assert source.sizes == (50, 50, 30)
    assert source.column_names == tuple(columns)
    assert same(source.read(2), X[100:])
    parquet.write_table(arrow.table({"name": ["a"]}), path)
    with pytest.raises(InvalidDataError, match="column 'name' has type string"):
        files.open_rows(path).read(0)


def test_column_names_are_kept(X, tmp_path):
    names = [f"word {i}" for i in range(12)]
    files.write_rows(tmp_path / "rows", [nor.Observations.of(X, column_names=names)])
    assert files.open_rows(tmp_path / "rows").read(0).column_names == tuple(names)


# ---- wrong input


def test_wrong_input_is_named(network, X, chunks, tmp_path):
    with pytest.raises(InvalidDataError, match="train takes data in memory"):
        train(network, X)
    with pytest.raises(InvalidDataError, match="have no chunk"):
        train(network, [])
    with pytest.raises(InvalidSettingError, match="only once"):
        train(network, iter(chunks), passes=2)
    with pytest.raises(InvalidDataError, match="expected 12"):
        train(network, [X[:, :5]])
    with pytest.raises(InvalidSettingError, match="passes"):
        train(network, chunks, passes=-1)
    with pytest.raises(InvalidDataError, match="no file or folder"):
        files.open_rows(tmp_path / "nowhere")
    with pytest.raises(InvalidDataError, match="write_rows makes a folder"):
        files.open_rows(tmp_path)
    with pytest.raises(InvalidSettingError, match="chunk_rows"):
        files.open_rows(tmp_path, chunk_rows=0)
    files.write_rows(tmp_path / "rows", chunks)
    with pytest.raises(InvalidSettingError, match="not empty"):
        files.write_rows(tmp_path / "rows", chunks)
    (tmp_path / "rows" / "shape.npy").unlink()
    with pytest.raises(InvalidDataError, match="not written completely"):
        files.open_rows(tmp_path / "rows")
