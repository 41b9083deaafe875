"""Short seeded calls of the public interface whose outputs are frozen in the folder ``frozen``.

Each function returns its outputs by name. The name of the function is the name of the call. Data
are drawn by NumPy alone, so that a change of the package cannot change what goes in. Options that
influence the result are given, so that a new default does not count as a new result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import noisyor as nor
from noisyor.explanation.attribution import attribute_findings
from noisyor.learning.validation import leave_one_out_gain, prune_hidden

ROOT = Path(__file__).resolve().parents[2]
OPTIONS: dict[str, Any] = {"batch_size": 20, "learning_rate": 0.01, "progress": False}
CALLS: dict[str, Callable[[], dict[str, Any]]] = {}


def call(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Register a call under the name of its function."""
    CALLS[function.__name__] = function
    return function


# ---- data and networks


def table(n_rows: int = 80, n_visible: int = 14, n_causes: int = 4, seed: int = 0) -> Any:
    """Draw rows of overlapping planted causes with failures and noise, (n_rows, n_visible)."""
    rng = np.random.default_rng(seed)
    factors = rng.random((n_causes, n_visible)) < 0.35
    states = rng.random((n_rows, n_causes)) < 0.35
    sent = rng.random((n_rows, n_causes, n_visible)) < 0.9
    on = (states[:, :, None] & factors & sent).any(axis=1)
    return (on | (rng.random(on.shape) < 0.02)).astype(np.uint8)


def with_gaps(X: Any, share: float = 0.15) -> Any:
    """Replace a share of the entries by NaN, which means unobserved."""
    return np.where(np.random.default_rng(5).random(X.shape) < share, np.nan, X)


def images(n_images: int = 24, size: int = 9) -> Any:
    """Draw images of two 3 x 3 shapes at random positions, (n_images, size, size)."""
    rng = np.random.default_rng(3)
    shapes = np.array([[[1, 1, 1], [0, 1, 0], [0, 1, 0]], [[1, 0, 1], [0, 1, 0], [1, 0, 1]]])
    drawn = np.zeros((n_images, size, size), np.uint8)
    for image in drawn:
        for shape in shapes[rng.integers(0, 2, 3)]:
            row, column = rng.integers(0, size - 2, 2)
            image[row : row + 3, column : column + 3] |= shape.astype(np.uint8)
    return drawn


def flat_network(n_visible: int = 14, n_hidden: int = 5) -> nor.Network:
    """Start a bipartite network where explanations already vary from row to row."""
    network = nor.bipartite(n_visible, n_hidden, noise="per_visible", noise_probability=0.05)
    failure = np.random.default_rng(8).uniform(0.1, 0.9, (n_hidden, n_visible))
    theta = np.array(network.theta)
    theta[network.groups["failure"].ravel()] = -np.log(failure).ravel()
    theta[network.groups["prior"].ravel()] = -np.log1p(-0.3)
    return network.with_theta(theta)


def sharp_network(n_visible: int = 14, n_hidden: int = 5, seed: int = 2) -> nor.Network:
    """Build a bipartite network with clear causes, for inference."""
    rng = np.random.default_rng(seed)
    failure = np.where(rng.random((n_hidden, n_visible)) < 0.35, 0.15, 0.97)
    return nor.bipartite(
        n_visible,
        n_hidden,
        noise="per_visible",
        failure_probability=failure,
        prior_probability=rng.uniform(0.1, 0.4, n_hidden),
        noise_probability=rng.uniform(0.01, 0.05, n_visible),
    )


def deep_network(X: Any | None = None) -> nor.Network:
    """Build three layers from co-occurrences."""
    X = table(120, 18, 5) if X is None else X
    network = nor.layered(X, 3, n_parents=3, shrink=2, failure_probability=0.6)
    return nor.initialize(network, "paper-2", noise="gaussian", seed=4)


def tied_network() -> nor.Network:
    """Build a three-layer network in which several edges share one parameter."""
    visible = [(parent, child) for parent in range(3) for child in range(6)]
    hidden = [(3, 0), (3, 1), (3, 2)]
    label = [*(np.arange(18) % 3), 3, 4, 3]
    return nor.from_edges(
        6,
        4,
        visible,
        hidden,
        failure_probability=np.linspace(0.3, 0.8, 5)[label],
        prior_probability=0.2,
        noise_probability=0.03,
        param=label,
    )


def trained(result: Any) -> dict[str, Any]:
    """Take parameters and the course of the objective from a training result."""
    return {"theta": result.network.theta, "elbo": result.history.elbo}


def explained(posterior: Any) -> dict[str, Any]:
    """Take states and what belongs to them from a posterior."""
    return {
        "states": posterior.states.toarray(),
        "log_joint": posterior.log_joint,
        "iterations": posterior.iterations,
    }


# ---- training


@call
def train_mode() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=0.0)
    return trained(nor.train(flat_network(), table(), method, steps=25, seed=3, **OPTIONS))


@call
def train_samples() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=1.0)
    return trained(nor.train(flat_network(), table(), method, steps=25, seed=3, **OPTIONS))


@call
def train_two_stage_mode() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=0.0, schedule="two-stage")
    return trained(nor.train(flat_network(), table(), method, steps=15, **OPTIONS))


@call
def train_two_stage_samples() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=1.0, schedule="two-stage", n_samples=2)
    return trained(nor.train(flat_network(), table(), method, steps=15, **OPTIONS))


@call
def train_with_options() -> dict[str, Any]:
    options = nor.learning.TrainOptions(
        passes=4,
        batch_size=16,
        learning_rate=0.02,
        final_learning_rate=0.002,
        parameterization="log",
        smoothing=0.5,
        evaluate_every=6,
        progress=False,
    )
    X = table()
    method = nor.MaxProduct(temperature=0.0, icm=3, tolerance=0.0, max_iterations=20)
    result = nor.train(flat_network(), X[:64], method, options, held_out=X[64:])
    evaluations = [(one.step, one.elbo) for one in result.history.evaluations]
    return {**trained(result), "evaluations": np.array(evaluations)}


@call
def train_tied() -> dict[str, Any]:
    X = table(60, 6, 2)
    method = nor.MaxProduct(temperature=1.0)
    return trained(nor.train(tied_network(), X, method, steps=20, **OPTIONS))


@call
def train_convolutional() -> dict[str, Any]:
    network = nor.convolutional((9, 9), 3, (3, 3), border=True, fixed="noise")
    network = nor.initialize(network, "paper-3", noise="uniform", seed=2)
    method = nor.MaxProduct(temperature=1.0)
    result = nor.train(network, images(), method, steps=6, **{**OPTIONS, "batch_size": None})
    return trained(result)


@call
def train_layered() -> dict[str, Any]:
    X = table(120, 18, 5)
    method = nor.MaxProduct(temperature=0.0, ancestors_only=True)
    return trained(nor.train(deep_network(X), X, method, steps=15, **OPTIONS))


@call
def train_layered_two_stage() -> dict[str, Any]:
    X = table(120, 18, 5)
    method = nor.MaxProduct(temperature=1.0, schedule="two-stage")
    return trained(nor.train(deep_network(X), X, method, steps=10, **OPTIONS))


@call
def train_missing() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=0.0)
    result = nor.train(flat_network(), with_gaps(table()), method, steps=15, **OPTIONS)
    return {"marginalize": result.network.theta}


@call
def train_weights() -> dict[str, Any]:
    X = table()
    rows = nor.Observations.of(X).with_weights(np.linspace(0.5, 3.0, len(X)))
    method = nor.MaxProduct(temperature=1.0)
    return trained(nor.train(flat_network(), rows, method, steps=15, seed=1, **OPTIONS))


@call
def train_wide() -> dict[str, Any]:
    results = {}
    for schedule in ("collapsed", "two-stage"):
        method = nor.MaxProduct(temperature=1.0, schedule=schedule)
        X = table(60, 130, 20)
        result = nor.train(flat_network(130, 37), X, method, steps=5, **OPTIONS)
        results[schedule] = result.network.theta
    return results


@call
def train_mean_field() -> dict[str, Any]:
    return trained(nor.train(flat_network(), table(), nor.MeanField(), steps=12, **OPTIONS))


@call
def train_mean_field_local() -> dict[str, Any]:
    X = table(120, 18, 5)
    method = nor.MeanField(local=True, tolerance=1e-4)
    return trained(nor.train(deep_network(X), X, method, steps=8, **OPTIONS))


@call
def train_hybrid() -> dict[str, Any]:
    methods = {"max_product": nor.MaxProduct(temperature=1.0), "mean_field": nor.MeanField()}
    network, X = flat_network(), table()
    run = nor.learning.train_hybrid(network, X, mp_steps=8, vi_steps=5, **methods, **OPTIONS)
    return {"mp": run["mp"].network.theta, "vi": run["vi"].network.theta}


@call
def train_stream() -> dict[str, Any]:
    X = table()
    chunks = [X[:30], X[30:50], X[50:]]
    method = nor.MaxProduct(temperature=1.0)
    return trained(nor.train_stream(flat_network(), chunks, method, passes=2, seed=4, **OPTIONS))


@call
def train_resumed() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        options = {**OPTIONS, "seed": 6, "checkpoint": Path(folder) / "run.safetensors"}
        method = nor.MaxProduct(temperature=1.0)
        nor.train(flat_network(), table(), method, steps=9, **options)
        whole = nor.train(flat_network(), table(), method, steps=20, resume=True, **options)
        plain = nor.train(flat_network(), table(), method, steps=20, seed=6, **OPTIONS)
    assert np.array_equal(whole.network.theta, plain.network.theta)
    return trained(whole)


# ---- recipes and searches


@call
def learn_factors_description() -> dict[str, Any]:
    X = table(150, 16, 4)
    return trained(nor.learn_factors(X, 4, objective="mdl", n_restarts=3, steps=20, progress=False))


@call
def learn_factors_errors() -> dict[str, Any]:
    X = table(150, 16, 4)
    return trained(
        nor.learn_factors(X, 4, objective="hamming", n_restarts=3, steps=20, progress=False)
    )


@call
def learn_factors_likelihood() -> dict[str, Any]:
    X = with_gaps(table(150, 16, 4), 0.05)
    return trained(nor.learn_factors(X, 4, objective="likelihood", progress=False))


@call
def learn_network_from_paper() -> dict[str, Any]:
    X = table()
    start = nor.initialize(nor.bipartite(X.shape[1], 4), noise="uniform", seed=2)
    options: dict[str, Any] = {"batch_size": 20, "learning_rate": 3e-3, "seed": 2}
    return trained(nor.learn_network(start, X, steps=25, progress=False, **options))


@call
def search_factors() -> dict[str, Any]:
    X = with_gaps(table(100, 16, 4), 0.05)
    found = nor.search.search_factors(X, "auto", n_restarts=3, objective="mdl", seed=1)
    return {"states": found.states, "factors": found.factors, "scores": found.scores}


@call
def learn_topics_layered() -> dict[str, Any]:
    X = table(120, 18, 5)
    fit = nor.learn_topics(X, 3, n_parents=3, shrink=2, steps=8, progress=False)
    return trained(fit)


@call
def learn_topics_flat() -> dict[str, Any]:
    fit = nor.learn_topics(table(120, 18, 5), n_components=3, steps=0, progress=False)
    return {"theta": fit.network.theta}


@call
def learn_features() -> dict[str, Any]:
    return trained(
        nor.learn_features(
            images(), 2, (3, 3), border=True, n_restarts=2, steps=4, seed=1, progress=False
        )
    )


@call
def gibbs_em() -> dict[str, Any]:
    start, X = sharp_network(seed=9), with_gaps(table(), 0.05)
    flat = nor.learning.learn_by_gibbs(start, X, sweeps=12, seed=2)
    deep = nor.learning.learn_by_gibbs(deep_network(), table(120, 18, 5), sweeps=6, seed=2)
    return {"flat": flat.theta, "deep": deep.theta}


@call
def pruning() -> dict[str, Any]:
    X, network = table(), sharp_network(n_hidden=7)
    gain = leave_one_out_gain(network, X)
    return {"gain": gain, "theta": prune_hidden(network, X, 3, seed=1).theta}


@call
def mixture() -> dict[str, Any]:
    X = table(200)
    found = nor.baselines.learn_mixture(X[:150], 4, smoothing=1.0, max_rounds=40, seed=1)
    log_p = found.log_probability(X[150:])
    return {"share": found.share, "probability": found.probability, "log_p": log_p}


# ---- networks without data, or from counts alone


@call
def initialize() -> dict[str, Any]:
    network = nor.bipartite(6, 3, noise="per_visible", fixed="noise")
    return {
        noise: nor.initialize(network, "paper-4", noise=noise, seed=3).theta
        for noise in ("none", "gaussian", "wide-gaussian", "uniform")
    }


@call
def layered_graph() -> dict[str, Any]:
    network = nor.layered(table(200, 24, 6), 4, n_parents=3, shrink=2)
    return {"child_ptr": network.child_ptr, "parent": network.parent, "theta": network.theta}


@call
def start_from_counts() -> dict[str, Any]:
    X = table(120, 18, 5)
    network = nor.layered(X, 3, n_parents=3, shrink=2)
    return {"theta": nor.search.start_from_counts(network, X).theta}


@call
def sample() -> dict[str, Any]:
    drawn = nor.sample(deep_network(), 40, seed=7)
    return {"hidden": drawn.hidden.toarray(), "visible": drawn.visible.toarray()}


# ---- inference


@call
def explain_collapsed() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=0.0, icm=2, keep_beliefs=True)
    posterior = nor.explain(sharp_network(), with_gaps(table()), method)
    return {**explained(posterior), "beliefs": posterior.beliefs}


@call
def explain_two_stage() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=1.0, schedule="two-stage", n_samples=3, keep_beliefs=True)
    posterior = nor.explain(sharp_network(), with_gaps(table()), method, seed=4)
    return {**explained(posterior), "beliefs": posterior.beliefs}


@call
def explain_layered() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=0.0, ancestors_only=True, icm=2)
    return explained(nor.explain(deep_network(), table(120, 18, 5), method))


@call
def explain_given_hidden() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=0.0)
    return explained(nor.explain(sharp_network(), table(), method, hidden={0: 1, 2: 0}))


@call
def explain_mean_field() -> dict[str, Any]:
    posterior = nor.explain(sharp_network(), with_gaps(table()), nor.MeanField())
    return {"q": posterior.q, "elbo": posterior.elbo_vi, "states": posterior.states.toarray()}


@call
def explain_by_engines() -> dict[str, Any]:
    results = {}
    for engine in ("numpy", "numba"):
        for schedule in ("collapsed", "two-stage"):
            method = nor.MaxProduct(temperature=1.0, schedule=schedule, max_iterations=30)
            posterior = nor.explain(sharp_network(), table(30), method, seed=2, engine=engine)
            results[f"{engine} {schedule} states"] = posterior.states.toarray()
            results[f"{engine} {schedule} log_joint"] = posterior.log_joint
        posterior = nor.explain(sharp_network(), table(30), nor.MeanField(), engine=engine)
        results[f"{engine} q"] = posterior.q
    same = [f"{schedule} states" for schedule in ("collapsed", "two-stage")]
    assert all(np.array_equal(results[f"numpy {one}"], results[f"numba {one}"]) for one in same)
    return results


@call
def train_by_numpy() -> dict[str, Any]:
    method = nor.MaxProduct(temperature=1.0)
    network, X = flat_network(), table(40)
    return trained(nor.train(network, X, method, steps=6, engine="numpy", **OPTIONS))


@call
def evaluate() -> dict[str, Any]:
    methods = [nor.MaxProduct(temperature=0.0, icm=2), nor.MeanField()]
    score = nor.evaluate(sharp_network(), table(), methods)
    assert score.elbo_vi is not None
    return {
        "mode": score.elbo_mp.per_row,
        "mean_field": score.elbo_vi.per_row,
        "summary": [score.elbo.mean, score.elbo.standard_error],
    }


@call
def marginals() -> dict[str, Any]:
    X = table(20, 18, 5)
    chains = nor.marginals(deep_network(), X, "chains", n_samples=16, seed=3)
    exact = nor.inference.enumerate_posterior(sharp_network(), table(20))
    return {"chains": chains.probability, "error": chains.error, "exact": exact.marginals}


@call
def evidence_bound() -> dict[str, Any]:
    X = with_gaps(table(20, 18, 5))
    bound = nor.evidence_bound(deep_network(), X, n_samples=4, n_expansions=8, seed=1)
    return {"per_row": bound.per_row, "n_configurations": bound.n_configurations}


@call
def estimate_evidence() -> dict[str, Any]:
    X = table(12, 18, 5)
    found = nor.estimate_evidence(deep_network(), X, n_chains=4, n_steps=6, n_expansions=4, seed=1)
    return {"per_row": found.per_row, "error": found.error}


@call
def exact_posterior() -> dict[str, Any]:
    exact = nor.inference.enumerate_posterior(sharp_network(), with_gaps(table(20)))
    return {"log_p": exact.log_likelihood, "map": exact.map_states}


@call
def log_probability() -> dict[str, Any]:
    few = nor.inference.log_probability(sharp_network(), with_gaps(table(30)))
    many = nor.inference.log_probability(deep_network(), table(10, 18, 5), seed=1)
    return {"exact": few.per_row, "estimate": many.per_row}


@call
def predictions() -> dict[str, Any]:
    X = with_gaps(table(20))
    left_out = nor.inference.predict_visible(sharp_network(), X, observed="left-out")
    deep = nor.inference.predict_visible(
        deep_network(), with_gaps(table(6, 18, 5)), observed="kept", n_samples=16, seed=2
    )
    return {"left_out": left_out.probability, "deep": deep.probability, "hidden": deep.hidden}


@call
def imputation() -> dict[str, Any]:
    def start(rows: nor.Observations) -> nor.Network:
        network = nor.bipartite(rows.n_visible, 4, noise="per_visible")
        return nor.initialize(network, noise="uniform")

    model = nor.NoisyOrNetwork(start, steps=30, batch_size=20, learning_rate=3e-3)
    filler = nor.estimators.NoisyOrImputer(model, output="probability", n_estimators=1)
    return {"filled": filler.fit_transform(with_gaps(table()))}


@call
def factorize_jointly() -> dict[str, Any]:
    settings = nor.inference.JointMaxProduct(iterations=60, keep_beliefs=True)
    found = nor.inference.pmp_factorize(table(30, 12, 3), 3, settings, seed=2)
    return {"states": found.states, "features": found.features, "beliefs": found.state_beliefs}


@call
def deconvolve_jointly() -> dict[str, Any]:
    settings = nor.inference.JointMaxProduct(iterations=60, keep_beliefs=True)
    found = nor.inference.pmp_deconvolve(images(6), 2, (3, 3), settings, seed=2)
    return {"states": found.states, "features": found.features, "beliefs": found.feature_beliefs}


# ---- asking a network, estimators, files


@call
def ranked_causes() -> dict[str, Any]:
    network, row = sharp_network(), nor.Observations.of(with_gaps(table())[3:4])
    ranking = nor.explanation.rank_causes(network, row, method="exact")
    asked = nor.explanation.next_question(network, row, method="exact")
    return {
        "causes": [(cause.index, cause.probability, cause.base) for cause in ranking.causes],
        "questions": [(one.index, one.gain, one.probability) for one in asked.questions],
        "visible": asked.visible,
    }


@call
def attribution() -> dict[str, Any]:
    network, X = deep_network(), table(15, 18, 5)
    states = nor.explain(network, X, nor.MaxProduct(temperature=0.0)).states
    found = attribute_findings(network, X, states)
    return {"leak": found.leak, "own": found.own.toarray(), "above": found.above.toarray()}


@call
def estimator() -> dict[str, Any]:
    X = table(150, 16, 4)
    model = nor.BooleanMatrixFactorization(4, objective="mdl", steps=15).fit(X)
    return {"components": model.components_, "score": model.score_samples(X)}


@call
def read_animals() -> dict[str, Any]:
    options = nor.tables.ReadOptions(id_column="animal", drop=("class",))
    rows = nor.read_table(ROOT / "examples" / "animals.csv", options).observations
    return {"ptr": rows.ptr, "columns": rows.columns, "missing": rows.missing_columns}
