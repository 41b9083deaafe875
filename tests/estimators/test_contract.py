"""What every estimator promises."""

from __future__ import annotations

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import noisyor as nor
from noisyor.data import chunks
from noisyor.errors import InvalidDataError, InvalidSettingError, ModelFileError
from noisyor.io.model_file import load_model

NAMES = [f"word {i}" for i in range(12)]


def theta(estimator):
    return estimator.network_.theta


def test_the_same_seed_gives_the_same_bits(estimator, X):
    first, second = clone(estimator).fit(X), clone(estimator).set_params(n_jobs=2).fit(X)
    np.testing.assert_array_equal(theta(first), theta(second))
    other = clone(estimator).set_params(random_state=1).fit(X)
    assert not np.array_equal(theta(first), theta(other))
    drawn = clone(estimator).set_params(random_state=np.random.RandomState(3)).fit(X)
    assert not np.array_equal(theta(first), theta(drawn))


def test_clones_are_equal_and_not_fitted(estimator, X):
    copy = clone(estimator.fit(X))
    assert repr(copy) == repr(estimator)
    assert not hasattr(copy, "network_")


def test_fitting_again_forgets(estimator, X):
    fresh = clone(estimator).fit(X)
    again = estimator.fit(1 - X).partial_fit(X).fit(X)
    np.testing.assert_array_equal(theta(again), theta(fresh))
    assert len(again.history_.elbo) == 30


def score_of_columns(X):
    return nor.baselines.independent_columns(X).log_probability(X).mean()


def test_models_score_better_than_independent_columns(estimator, X):
    fitted = estimator.fit(X)
    assert fitted.score(X) > score_of_columns(X) + 0.1
    assert fitted.score(X) == pytest.approx(fitted.score_samples(X).mean())
    assert fitted.score_samples(X).shape == (80,)


def test_attributes(estimator, X):
    fitted = estimator.fit(X)
    n_hidden = fitted.network_.n_hidden
    assert fitted.n_features_in_ == 12
    assert fitted.noise_.shape == (12,)
    assert fitted.settings_["steps"] == 30
    assert len(fitted.history_.elbo) == 30
    components = fitted.components_
    if isinstance(fitted, nor.BlindDeconvolution):
        assert components.shape == (1, 1, 4)
        assert fitted.prior_.shape == (1,)
        assert np.prod(fitted.state_shape_) == n_hidden
    else:
        assert components.shape == (n_hidden, 12)
        assert fitted.prior_.shape == (n_hidden,)
        components = components.toarray() if sp.issparse(components) else components
        edges = np.zeros_like(components)
        network = fitted.network_
        into_visible = network.edge_child < 12
        edges[network.parent[into_visible], network.edge_child[into_visible]] = 1 - np.exp(
            -network.theta[network.param[into_visible]]
        )
        np.testing.assert_allclose(components, edges)


def test_transform_gives_the_most_likely_causes(estimator, X):
    fitted = estimator.fit(X)
    causes = fitted.transform(X)
    assert causes.dtype == np.int8
    expected = nor.explain(fitted.network_, X, fitted._mode())
    np.testing.assert_array_equal(causes, expected.states.toarray())
    np.testing.assert_array_equal(fitted.fit_transform(X), causes)


def test_probabilities(estimator, X):
    fitted = estimator.fit(X)
    states = fitted.transform(X)
    probability = fitted.set_params(output="probability").transform(X)
    assert probability.dtype == np.float64
    assert ((probability >= 0) & (probability <= 1)).all()
    assert ((probability > 0.5) == states).mean() > 0.7
    rows = fitted.inverse_transform(probability)
    assert ((rows > 0) & (rows < 1)).all()


def test_partial_fit_is_reproducible_and_goes_on(estimator, X, tmp_path):
    first, second = clone(estimator), clone(estimator)
    for chunk in 8 * [X[:40], X[40:]]:
        first.partial_fit(chunk)
        second.partial_fit(sp.csr_array(chunk))
    np.testing.assert_array_equal(theta(first), theta(second))
    assert len(first.history_.elbo) == 32
    assert first.provenance_["data"]["rows"] == 8 * 80
    assert first.score(X) > score_of_columns(X) + 0.1

    whole = estimator.fit(X)
    before = theta(whole)
    assert not np.array_equal(theta(whole.partial_fit(X)), before)
    assert len(whole.history_.elbo) == 34 == whole.settings_["steps"]
    assert whole.provenance_["data"]["rows"] == 160


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", float("nan")), ("steps", 1.5), ("n_jobs", 0), ("n_jobs", 1.5), ("binarize", "x")],
)
def test_settings_that_make_no_sense_are_refused_everywhere(X, tmp_path, name, value):
    estimator = nor.BooleanMatrixFactorization(2).set_params(**{name: value})
    chunks.write_rows(tmp_path / "rows", [X])
    for call in (
        lambda: estimator.fit(X),
        lambda: estimator.partial_fit(X),
        lambda: estimator.fit(chunks.open_rows(tmp_path / "rows")),
    ):
        with pytest.raises(InvalidSettingError, match=f"{name} must be .* got"):
            call()


def test_partial_fit_for_ever_takes_no_more_memory(X, monkeypatch):
    monkeypatch.setattr("noisyor.estimators.base._KEPT_UPDATES", 5)
    estimator = nor.BooleanMatrixFactorization(2, batch_size="all", n_jobs=1)
    sizes = []
    for _ in range(24):
        estimator.partial_fit(X)
        sizes.append(len(pickle.dumps(estimator)))
    assert max(sizes[12:]) <= max(sizes[6:12]) + 8  # numbers get longer, lists do not
    assert estimator.settings_["steps"] == 24
    assert estimator.provenance_["curve"]["step"] == [20, 21, 22, 23, 24]
    assert estimator.provenance_["data"]["chunks"] == 24
    assert estimator.provenance_["data"]["rows"] == 24 * len(X)


@pytest.mark.parametrize("layout", ["csc", "bsr", "coo"])
def test_malformed_matrices_are_refused(layout, X):
    fitted = nor.BooleanMatrixFactorization(2, steps=1, n_jobs=1).fit(X)
    matrix = sp.csr_array(X).asformat(layout)
    name = "row" if layout == "coo" else "indices"
    getattr(matrix, name)[0] = 10**9
    with pytest.raises(InvalidDataError, match="the sparse matrix"):
        fitted.fit(matrix)
    with pytest.raises(InvalidDataError, match="the sparse matrix"):
        fitted.inverse_transform(matrix)


def test_fit_on_rows_in_files(estimator, X, tmp_path):
    chunks.write_rows(tmp_path / "rows", [X])
    source = chunks.open_rows(tmp_path / "rows", chunk_rows=30)
    fitted = clone(estimator).fit(source)
    assert len(fitted.history_.elbo) == 30
    assert fitted.provenance_["data"]["rows"] == 80
    assert fitted.score(X) > score_of_columns(X) + 0.1
    with pytest.raises(InvalidDataError, match="iterate over them"):
        fitted.transform(source)
    assert sum(fitted.transform(chunk).shape[0] for chunk in source) == 80
    seen = []
    options = {"callbacks": [lambda info: seen.append(info.elbo)]}
    one_pass = estimator.set_params(steps=None, options=options).fit(source)
    assert len(one_pass.history_.elbo) == 5 == len(seen)  # 2 + 2 + 1 batches of 20


def test_sparse_in_sparse_out(estimator, X):
    dense = clone(estimator).fit(X)
    sparse = estimator.fit(sp.csc_matrix(X))
    np.testing.assert_array_equal(theta(dense), theta(sparse))
    causes = sparse.transform(sp.csr_matrix(X))
    assert sp.issparse(causes)
    np.testing.assert_array_equal(causes.toarray(), dense.transform(X))
    np.testing.assert_array_equal(dense.score_samples(X), sparse.score_samples(sp.coo_array(X)))
    rows = sparse.inverse_transform(causes)
    assert sp.issparse(rows)
    np.testing.assert_array_equal(rows.toarray(), dense.inverse_transform(dense.transform(X)))


def test_names_of_columns(estimator, X):
    frame = pd.DataFrame(X, columns=NAMES)
    fitted = estimator.fit(frame)
    assert list(fitted.feature_names_in_) == NAMES == list(fitted.network_.visible_names)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(frame[NAMES[::-1]])
    rows = nor.Observations.of(frame)
    np.testing.assert_array_equal(fitted.transform(rows).toarray(), fitted.transform(frame))
    with pytest.raises(InvalidDataError, match="other names"):
        fitted.transform(nor.Observations.of(X, column_names=NAMES[::-1]))


def test_columns_with_the_same_name(estimator, X):
    frame = pd.DataFrame(X, columns=[NAMES[0], *NAMES[:-1]])
    with pytest.raises(nor.NoisyOrError, match=NAMES[0]):
        estimator.fit(frame)


def test_pandas_out(estimator, X):
    frame = estimator.set_output(transform="pandas").fit_transform(pd.DataFrame(X, columns=NAMES))
    assert list(frame.columns) == list(estimator.get_feature_names_out())
    named_after = "feature 0 at " if "image_shape" in estimator.get_params() else "word "
    assert named_after in frame.columns[0]
    assert frame.shape == (80, estimator.network_.n_hidden)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_booleans_with_gaps_of_other_frames(estimator, X, make):
    gaps = {name: [bool(v) for v in X[:, i]] for i, name in enumerate(NAMES)}
    gaps[NAMES[0]][3] = None
    partly = X.astype(float)
    partly[3, 0] = np.nan
    fitted = estimator.fit(make(gaps))
    assert list(fitted.feature_names_in_) == NAMES
    frame = pd.DataFrame(partly, columns=NAMES)
    plain = clone(estimator).fit(frame)
    np.testing.assert_array_equal(theta(fitted), theta(plain))
    np.testing.assert_array_equal(fitted.transform(make(gaps)), plain.transform(frame))


def test_pipeline(estimator, X):
    labels = X[:, :4].sum(axis=1) > 2
    pipeline = make_pipeline(estimator, LogisticRegression()).fit(X, labels)
    assert pipeline[-1].n_features_in_ == pipeline[0].network_.n_hidden
    assert pipeline.score(X, labels) >= max(labels.mean(), 1 - labels.mean())


def test_unobserved_is_not_zero(estimator, X):
    fitted = estimator.fit(X)
    partly = X[:6].astype(float)
    partly[:, 6:] = np.nan
    known = fitted.score_samples(partly)
    np.testing.assert_allclose(
        known, nor.inference.log_probability(fitted.network_, partly).per_row, rtol=1e-12
    )
    assert (known >= nor.explain(fitted.network_, partly, fitted._mode()).log_joint).all()
    assert (known > fitted.score_samples(np.nan_to_num(partly)) + 1e-6).any()
    missing = pd.DataFrame(partly).astype("Int64")
    np.testing.assert_array_equal(fitted.transform(missing), fitted.transform(partly))
    clone(estimator).fit(partly)


def test_probability_of_every_entry_given_the_others(estimator, X):
    fitted = estimator.fit(X)
    found = fitted.predict_proba(X[:6])
    assert found.shape == (6, 12)
    assert ((found > 0) & (found < 1)).all()
    hidden = X[:6].astype(float)
    hidden[:, 2] = np.nan  # what is left out may as well be missing
    np.testing.assert_allclose(fitted.predict_proba(hidden)[:, 2], found[:, 2], atol=0.05)
    with pytest.raises(InvalidDataError, match="dense array and takes no sparse X"):
        fitted.predict_proba(sp.csr_array(X))


def test_pickles_by_joblib(estimator, X):
    stream = io.BytesIO()
    joblib.dump(estimator.fit(X), stream)
    stream.seek(0)
    again = joblib.load(stream)
    np.testing.assert_array_equal(again.transform(X), estimator.transform(X))
    chunk = X[:20]
    np.testing.assert_array_equal(
        theta(again.partial_fit(chunk)), theta(estimator.partial_fit(chunk))
    )


def test_files(estimator, X, tmp_path):
    path = tmp_path / "model.safetensors"
    frame = pd.DataFrame(X, columns=NAMES)
    estimator.set_params(method=nor.MaxProduct(temperature=1.0, damping=0.4)).fit(frame).save(path)
    again = type(estimator).load(path)
    np.testing.assert_array_equal(again.transform(frame), estimator.transform(frame))
    assert again.score(frame) == estimator.score(frame)
    assert again.components_.shape == estimator.components_.shape
    np.testing.assert_array_equal(again.prior_, estimator.prior_)
    assert {**again.provenance_, "estimator": load_model(path).metadata["estimator"]} == load_model(
        path
    ).metadata
    same = {"steps", "batch_size", "learning_rate", "method", "output"}
    ours, theirs = estimator.get_params(), again.get_params()
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    before = theta(again)
    assert not np.array_equal(theta(again.partial_fit(frame)), before)


def test_the_file_says_where_the_model_came_from(estimator, X, tmp_path):
    path = tmp_path / "model.safetensors"
    estimator.fit(X).save(path)
    metadata = load_model(path).metadata
    assert metadata["kind"] in ("factors", "topics", "features", "network")
    assert metadata["data"]["sha256"] == nor.Observations.of(X).fingerprint()
    assert metadata["settings"]["steps"] == 30
    assert metadata["metrics"]["training_elbo"] < 0


@pytest.mark.parametrize(
    ("change", "message"),
    [({"output": "words"}, "output"), ({"batch_size": "some"}, "batch_size")],
)
def test_wrong_settings(estimator, X, change, message):
    with pytest.raises(InvalidSettingError, match=message):
        estimator.set_params(**change).fit(X)


def test_wrong_data(estimator, X):
    with pytest.raises(InvalidDataError, match="expected 0, 1"):
        estimator.fit(X + 1)
    with pytest.raises(ValueError, match="expecting 12 features"):
        estimator.fit(X).transform(X[:, :5])
    with pytest.raises(ValueError, match="expecting 12 features"):
        estimator.transform(nor.Observations.of(X[:, :5]))
    with pytest.raises(InvalidDataError, match="causes"):
        estimator.inverse_transform(X[:, :1])


def test_a_threshold_makes_counts_binary(estimator, X):
    counts = X * 3
    fitted = estimator.set_params(binarize=1).fit(counts)
    sparse = fitted.transform(sp.csr_array(counts))
    np.testing.assert_array_equal(fitted.transform(counts), sparse.toarray())
    np.testing.assert_array_equal(theta(fitted), theta(clone(fitted).fit(X * 2)))
    with pytest.raises(InvalidSettingError, match="negative for sparse"):
        fitted.set_params(binarize=-1).transform(sp.csr_array(counts))


def test_options_reach_the_training(estimator, X, tmp_path):
    path = tmp_path / "run.safetensors"
    seen = []
    settings = {"checkpoint": path, "options": {"callbacks": [lambda info: seen.append(info.elbo)]}}
    estimator.set_params(**settings, steps=7).fit(X)
    assert path.exists()
    assert len(seen) >= 7
    resumed = estimator.set_params(steps=9, resume=True).fit(X)
    assert len(resumed.history_.elbo) == 9


def test_a_file_without_parameters_shows_them(estimator, X, tmp_path):
    # The command line writes such files.
    path = tmp_path / "model.safetensors"
    fitted = estimator.fit(X)
    nor.save_network(path, fitted.network_, metadata=fitted.provenance_)
    again = type(estimator).load(path)
    for name in ("n_components", "n_layers", "feature_shape"):
        assert getattr(again, name, None) == getattr(estimator, name, None)
    np.testing.assert_array_equal(
        again.score_samples(X), fitted.set_params(method=None).score_samples(X)
    )


def test_a_file_of_another_kind_is_refused(X, tmp_path):
    path = tmp_path / "model.safetensors"
    nor.BooleanMatrixFactorization(2, steps=3).fit(X).save(path)
    with pytest.raises(ModelFileError, match="'factors', expected 'topics'"):
        nor.TopicModel.load(path)
    assert nor.NoisyOrNetwork.load(path).transform(X).shape == (80, 2)
    nor.save_network(path, nor.bipartite(12, 2))  # no metadata at all
    assert nor.NoisyOrNetwork.load(path).transform(X).shape == (80, 2)


@pytest.mark.parametrize("time_limit", [1e-4, 0.05])
def test_a_limit_of_time_still_gives_a_model(estimator, X, time_limit):
    model = estimator.set_params(time_limit=time_limit).fit(X)
    assert np.isfinite(model.network_.theta).all()
    assert len(model.transform(X)) == len(X)
