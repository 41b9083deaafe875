"""Hidden causes of a binary table, each a set of columns that it switches on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np

from noisyor._util.validation import check_choice
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.evidence import estimate_evidence
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning.checkpoint import check_place
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.recipes.density import learn_density
from noisyor.learning.recipes.fit import DEFAULTS, FitResult, learn_network
from noisyor.learning.starts import start_by_search
from noisyor.network.builders import bipartite
from noisyor.network.graph import Network
from noisyor.search.cover import ErrorRates
from noisyor.search.factor_start import start_from_factors
from noisyor.search.factors import search_factors
from noisyor.search.mixture import learn_mixture

__all__ = ["learn_factors"]

_OBJECTIVES = ("auto", "description", "probability", "errors")

_ROWS_TO_COMPARE = 500
"""Rows by which a network and a mixture are compared; with fewer, neither is known well enough."""

_NEARLY_EXACT = ErrorRates(false_positive=0.05, false_negative=0.15)
"""Error rates of a cover up to which a table is taken to be made of factors."""

_ERRORS, _FAR_ERRORS = 2.0, 4.0
"""Standard errors by which a mixture must be better than a trained network, or than one of a single
start and a few rounds."""

_QUICK_SWEEPS = 20


def learn_factors(
    X: Any,
    n_components: int | Literal["auto"],
    *,
    objective: Literal["auto", "description", "probability", "errors"] = "auto",
    init: str = "data",
    noise: Literal["shared", "per_visible"] = "per_visible",
    n_restarts: int = 12,
    n_extra: int = 16,
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
    """Boolean matrix factorisation: hidden causes, each a set of columns that it switches on.

    Parameters
    ----------
    X : binary data (n_rows, n_visible).
    n_components : number of hidden nodes; ``"auto"`` finds it.
    objective : what the factors are for. ``"description"``: a few of them, each supported by the
        data, that draw the table. ``"probability"``: a high probability of unseen rows, by sets of
        alternatives, see `learn_density`; options of the training and of the search do not apply.
        ``"errors"``: fewest wrong entries for a given number of factors, see `search_factors`.
        ``"auto"`` describes, and with five hundred rows or more asks held-out rows whether a plain
        mixture of Bernoullis gives them a clearly higher probability; if so, what
        ``"probability"`` finds is taken. Where one start of the search is far from drawing the
        table, and the mixture is far better than what it leads to, that is all of the search.
    init : ``"data"`` searches the data for factors (see `search_factors`) and fine-tunes them,
        unless counts determine the parameters; the network then has at most `n_components` hidden
        nodes, those supported by the data (MDL). Or the name of one of the paper's starts, see
        `initialize`, with `n_components` hidden nodes.
    noise : one noise probability for all columns, or one for each.
    n_restarts : of the search, at most.
    n_extra : further factors to search for, given a thousand rows or more. If they are supported by
        the data, all are trained for a while, and the `n_components` without which the bound falls
        most are kept.
    method : how hidden states are inferred; default ``MaxProduct(temperature=1.0)``.
    options, changes : how to train; the seed is also that of the start. Defaults depend on `init`.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> fitted = nor.learn_factors(X, "auto", n_restarts=2, progress=False)
    >>> fitted.network.failure_probability.round() + 0.0
    array([[1., 1., 0., 0.],
           [0., 0., 1., 1.]])
    """
    defaults = replace(DEFAULTS, steps=4000, batch_size=20, learning_rate=3e-3)
    if init == "data":
        defaults = replace(
            DEFAULTS, steps=200, learning_rate=1e-3, final_learning_rate=1e-4, smoothing=0.5
        )
    check_choice("objective", objective, _OBJECTIVES)
    if init != "data" and objective not in ("auto", "description"):
        raise InvalidSettingError(f'objective={objective!r} needs init="data", got {init!r}')
    also = (
        "objective",
        "init",
        "noise",
        "n_restarts",
        "n_extra",
        "method",
        "options",
        "held_out",
        "engine",
    )
    chosen = choose_options(options, changes, defaults, also)
    check_place(chosen.checkpoint)
    observations, settled = Observations.of(X), True
    learn = partial(
        learn_density,
        observations,
        n_components,
        seed=chosen.seed,
        engine=engine,
        progress=chosen.progress,
    )
    if objective == "probability":
        return learn(held_out=held_out)
    plain = objective == "auto" and method is None and noise == "per_visible" and init == "data"
    plain = plain and observations.total_weight >= _ROWS_TO_COMPARE
    if plain:
        judges = _judges(observations, held_out, chosen.seed)
        quick = _far_from_factors(observations, n_components, judges, chosen, engine)
        if quick is not None:
            richer = learn(held_out=held_out)
            if _gain(richer.network, quick, judges, engine) > 0:
                return richer
    if init == "data":
        network, settled = start_by_search(
            observations,
            n_components,
            objective="errors" if objective == "errors" else "description",
            noise=noise,
            n_restarts=n_restarts,
            n_extra=n_extra,
            seed=chosen.seed,
            engine=engine,
            progress=chosen.progress,
        )
        if settled and options is None and "steps" not in changes:
            chosen = replace(chosen, steps=0)
    else:
        if isinstance(n_components, str):
            raise InvalidSettingError('the number of causes is found with init="data" only')
        network = bipartite(observations.n_visible, n_components, noise=noise)
        network = initialize(network, init, noise="uniform", seed=chosen.seed)
    method = MaxProduct(temperature=1.0) if method is None else method
    fitted = learn_network(network, observations, method, chosen, held_out=held_out, engine=engine)
    settings = {"objective": objective, "init": init, "noise": noise, **fitted.settings}
    fitted = replace(fitted, settings=settings)
    if (
        plain
        and not settled
        and _mixture_is_better(fitted.network, observations, judges, _ERRORS, chosen, engine)
    ):
        richer = learn(held_out=held_out)
        if _gain(richer.network, fitted.network, judges, engine) > 0:
            return richer
    return fitted


def _judges(rows: Observations, held_out: Any, seed: int) -> Observations:
    """Some hundred rows to compare models by: of those held out, or of the training rows."""
    judges = rows if held_out is None else Observations.of(held_out, n_visible=rows.n_visible)
    if judges.n_rows > _ROWS_TO_COMPARE:
        order = np.random.default_rng([seed, 3]).permutation(judges.n_rows)
        judges = judges.take(np.sort(order[:_ROWS_TO_COMPARE]))
    return judges.merged()[0]


def _far_from_factors(
    rows: Observations,
    n_components: int | Literal["auto"],
    judges: Observations,
    options: TrainOptions,
    engine: EngineLike,
) -> Network | None:
    """The network of one start of the search if a mixture is far better, else None."""
    found = search_factors(
        rows,
        n_components,
        n_restarts=1,
        patience=1,
        seed=options.seed,
        engine=engine,
        progress=options.progress,
    )
    if all(rate <= limit for rate, limit in zip(found.rates, _NEARLY_EXACT, strict=True)):
        return None
    network = bipartite(rows.n_visible, max(1, len(found.factors)), noise="per_visible")
    network = learn_by_gibbs(
        start_from_factors(network, found),
        rows.take(found.rows),
        sweeps=_QUICK_SWEEPS,
        seed=options.seed,
        engine=engine,
    )
    better = _mixture_is_better(network, rows, judges, _FAR_ERRORS, options, engine)
    return network if better else None


def _mixture_is_better(
    network: Network,
    rows: Observations,
    judges: Observations,
    n_errors: float,
    options: TrainOptions,
    engine: EngineLike,
) -> bool:
    """Whether a mixture that has not seen the judges is better for them by some standard errors.

    If no rows are held out the network has seen them, so that it is the one at an advantage.
    """
    unseen = np.isin(rows.row_ids, judges.row_ids, invert=True)
    mixture = learn_mixture(
        rows.take(unseen) if unseen.any() else rows,
        held_out=judges,
        smoothing=1.0,
        seed=options.seed,
        progress=options.progress,
    )
    estimate = estimate_evidence(network, judges, n_chains=8, n_steps=16, engine=engine)
    difference = mixture.log_probability(judges) - estimate.per_row
    weight, mean = judges.row_weights, judges.mean(difference)
    error = np.sqrt((weight * (difference - mean) ** 2).sum()) / weight.sum()
    return bool(mean > n_errors * error)


def _gain(one: Network, other: Network, judges: Observations, engine: EngineLike) -> float:
    """By how much the first network gives the judges a higher log p."""
    score = [
        estimate_evidence(network, judges, n_chains=8, n_steps=16, engine=engine).mean
        for network in (one, other)
    ]
    return score[0] - score[1]
