"""What is particular to each estimator."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_structures import one_layer
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import noisyor as nor
from noisyor.errors import InvalidDataError, InvalidSettingError


def test_rows_are_reconstructed_from_their_causes(X):
    model = nor.NoisyOrNetwork(
        one_layer, steps=60, batch_size=20, learning_rate=0.2, method=nor.MaxProduct(temperature=1)
    )
    causes = model.fit_transform(X)
    rows = model.inverse_transform(causes)
    assert set(np.unique(rows)) == {0, 1}
    assert (rows != X).mean() < 0.06  # 3 % of the entries are flipped
    probability = model.set_params(output="probability").inverse_transform(causes)
    np.testing.assert_allclose(probability, nor.model.visible_probability(model.network_, causes))


def test_the_number_of_factors_is_checked(X):
    for wrong in (0, -1, 2.5, True, "many"):
        with pytest.raises(InvalidSettingError, match="n_components"):
            nor.BooleanMatrixFactorization(wrong).fit(X)


def test_the_number_of_factors_may_be_left_open(X):
    model = nor.BooleanMatrixFactorization("auto", steps=20)
    try:
        model.fit(X)
    except InvalidSettingError as error:
        if "n_components='auto'" not in str(error):
            raise
    else:
        assert model.components_.shape[1] == 12


def test_images_and_flattened_images_are_the_same(X):
    common = {"steps": 20, "n_jobs": 1}
    flat = nor.BlindDeconvolution(2, (2, 2), image_shape=(3, -1), **common).fit(X)
    images = X.reshape(-1, 3, 4)
    model = nor.BlindDeconvolution(2, (2, 2), **common).fit(images)
    np.testing.assert_array_equal(model.network_.theta, flat.network_.theta)
    causes = model.transform(images)
    np.testing.assert_array_equal(causes, flat.transform(X))
    assert model.inverse_transform(causes).shape == (80, 3, 4)
    assert flat.inverse_transform(causes).shape == (80, 12)
    rows = nor.Observations.of(images)
    np.testing.assert_array_equal(model.transform(rows).toarray(), causes)
    with pytest.raises(InvalidDataError, match=r"\(4, 3\), expected \(3, 4\)"):
        model.transform(X.reshape(-1, 4, 3))


@pytest.mark.parametrize("border", [True, False])
def test_places_of_features(X, border):
    images = X.reshape(-1, 3, 4)
    model = nor.BlindDeconvolution(2, (2, 3), border=border, steps=3).fit(images)
    assert model.state_shape_[1:] == ((4, 6) if border else (2, 2))
    assert model.transform(images).reshape(-1, *model.state_shape_).shape[0] == 80


def test_rows_that_are_no_images_are_named(X):
    with pytest.raises(InvalidSettingError, match="rows of 12 columns are no images"):
        nor.BlindDeconvolution().fit(X)
    with pytest.raises(InvalidSettingError, match=r"cannot be images of shape \(5, 5\)"):
        nor.BlindDeconvolution(image_shape=(5, 5)).fit(X)


def test_a_loaded_deconvolution_takes_images(X, tmp_path):
    images = X.reshape(-1, 3, 4)
    model = nor.BlindDeconvolution(2, (2, 2), steps=5).fit(images)
    model.save(tmp_path / "model.safetensors")
    again = nor.BlindDeconvolution.load(tmp_path / "model.safetensors")
    causes = again.transform(images)
    np.testing.assert_array_equal(again.inverse_transform(causes), model.inverse_transform(causes))
    assert again.feature_shape == (2, 2)


def test_layers_of_topics(X):
    model = nor.TopicModel(3, n_parents=1, steps=3).fit(X)
    assert model.network_.n_hidden == 4 + 1
    assert model.network_.n_layers == 2
    assert model.components_[[4]].nnz == 0  # the topic on top acts through others


def test_further_updates_of_topics_move_logarithms_too(X, tmp_path):
    model = nor.TopicModel(2, n_parents=1, steps=0).fit(X)
    before, free = model.network_.theta, model.network_.free
    model.save(tmp_path / "model.safetensors")
    loaded = nor.TopicModel.load(tmp_path / "model.safetensors")
    for each in (model, loaded):
        ratio = each.partial_fit(X).network_.theta / before
        # Adam's first step: the same share of every parameter that has a gradient.
        moved = free & (ratio != 1.0)
        assert moved.sum() > 10
        assert np.abs(np.log(ratio[moved])).max() == pytest.approx(0.05, rel=1e-4)


def test_a_network_brings_its_names_and_parameters(X):
    network = nor.bipartite(12, 2, hidden_names=["flu", "cold"], visible_names=list("abcdefghijkl"))
    model = nor.NoisyOrNetwork(network, steps=0).fit(X)
    np.testing.assert_array_equal(model.network_.theta, network.theta)
    assert list(model.get_feature_names_out()) == ["flu", "cold"]
    named = nor.Observations.of(X, column_names=list("lkjihgfedcba"))
    with pytest.raises(InvalidDataError, match="different names"):
        nor.NoisyOrNetwork(network).fit(named)


def test_a_structure_must_be_a_network(X):
    with pytest.raises(InvalidSettingError, match="structure is a Network or a function"):
        nor.NoisyOrNetwork().fit(X)
    with pytest.raises(InvalidSettingError, match="structure returned str"):
        nor.NoisyOrNetwork(lambda rows: "graph").fit(X)
    with pytest.raises(InvalidDataError, match="expected 7"):
        nor.NoisyOrNetwork(nor.bipartite(7, 2)).fit(X)


def test_scores_are_log_p_whatever_trained(X):
    model = nor.BooleanMatrixFactorization(2, steps=5, method=nor.MeanField()).fit(X)
    bound = nor.evaluate(model.network_, X, nor.MeanField()).elbo_vi
    exact = nor.inference.enumerate_posterior(model.network_, X).log_likelihood
    np.testing.assert_allclose(model.score_samples(X), exact)
    assert (exact > bound.per_row - 1e-9).all()


def test_the_other_columns_of_a_block_tell_the_missing_one(X):
    model = nor.BooleanMatrixFactorization(3).fit(X)
    hidden = X.astype(float)
    hidden[:, 2] = np.nan
    found = model.predict_proba(hidden)[:, 2]
    assert ((found > 0.5) == X[:, 2]).mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(X)[:, 2], found, atol=1e-6)


def test_grid_search_on_the_zoo_follows_log_p_not_one_explanation(data_dir):
    zoo = np.load(data_dir / "bmf_zoo.npz")["X"]
    model = nor.BooleanMatrixFactorization(
        steps=30, objective="mdl", options={"n_restarts": 1}, n_jobs=1
    )
    pipeline = make_pipeline(FunctionTransformer(), model)
    grid = {"booleanmatrixfactorization__n_components": [3, 4]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(zoo)
    assert search.best_estimator_.transform(zoo).shape == (101, 4)

    def elbo(fitted, X, y=None):
        return nor.evaluate(fitted[-1].network_, X, nor.MaxProduct(icm=20)).elbo_mp.mean

    by_bound = GridSearchCV(pipeline, grid, cv=3, scoring=elbo, refit=False).fit(zoo)
    assert by_bound.cv_results_["mean_test_score"].argmax() == 0
    assert search.cv_results_["mean_test_score"].argmax() == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_words_are_refused_with_a_remedy(library):
    frame = pytest.importorskip(library).DataFrame({"a": ["n", "y"] * 5, "b": [0, 1] * 5})
    with pytest.raises(InvalidDataError, match=r"texts.*\['a'\].*X\['a'\] == 'y'"):
        nor.BooleanMatrixFactorization(1).fit(frame)


def test_grid_search_picks_the_number_that_log_p_by_enumeration_picks():
    """The scores are exact log p of the rows left out, gaps and all, and so is the choice."""
    random = np.random.default_rng(3)
    party = random.random((90, 1)) < 0.5
    X = random.random((90, 6)) < np.where(party, [0.9] * 3 + [0.2] * 3, [0.1] * 3 + [0.8] * 3)
    X = np.where(random.random(X.shape) < 0.05, np.nan, X)
    model = nor.BooleanMatrixFactorization(options={"n_restarts": 1}, n_jobs=1)
    cv, numbers = KFold(3), [1, 2, 3]
    search = GridSearchCV(model, {"n_components": numbers}, cv=cv, refit=False).fit(X)
    expected = [
        np.mean(
            [
                nor.inference.enumerate_posterior(
                    clone(model).set_params(n_components=k).fit(X[learn]).network_, X[test]
                ).log_likelihood.mean()
                for learn, test in cv.split(X)
            ]
        )
        for k in numbers
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
    assert search.best_params_["n_components"] == numbers[int(np.argmax(expected))] > 1
