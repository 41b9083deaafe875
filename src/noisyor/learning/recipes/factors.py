"""Hidden causes of a binary table, each a set of columns that it switches on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np

from noisyor._util.progress import TimeUpError
from noisyor._util.validation import COUNT_OR_AUTO, check_choice
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning.checkpoint import check_place
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.recipes.comparison import ROWS_TO_COMPARE, Comparison
from noisyor.learning.recipes.density import learn_density
from noisyor.learning.recipes.fit import DEFAULTS, FitResult, learn_network
from noisyor.learning.recipes.job import Work, working
from noisyor.learning.recipes.number import Choice, choose_classes, choose_number, shrink
from noisyor.learning.starts import start_by_search
from noisyor.network.builders import bipartite
from noisyor.network.graph import Network

__all__ = ["learn_factors"]

_OBJECTIVES = ("auto", "description", "probability", "errors")

_PHASES = {
    "auto": ("search", "gibbs", "gibbs", "train", "mixture"),
    "description": ("search", "gibbs", "gibbs", "train"),
    "errors": ("search", "train"),
    "probability": ("mixture",),
}
"""Bars that are expected, by objective."""

_SHARE_OF_DESCRIPTION = 0.8
"""Of the time, if it is limited and something else is compared with what describes the rows."""


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
    n_components : number of hidden nodes; ``"auto"`` finds it. Where the factors found draw the
        table up to errors that are all alike, it is theirs. Elsewhere a quarter of the rows is set
        aside, and the fewest are taken that do not give these a clearly lower log p: all that were
        tried are in ``settings["number"]``.
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
    observations = Observations.of(X)
    if init == "data":
        _check_number(n_components, observations, objective)
    elif isinstance(n_components, str):
        raise InvalidSettingError('the number of causes is found with init="data" only')
    course: dict[str, object] = {
        "recipe": "factors",
        "n_components": n_components if isinstance(n_components, str) else int(n_components),
        "objective": objective,
        "noise": noise,
        "n_restarts": n_restarts,
        "n_extra": n_extra,
    }
    phases = _PHASES[objective] if init == "data" else ("train",)
    with working(chosen, engine, phases, observations, course) as work:
        learn = partial(
            learn_density,
            observations,
            seed=chosen.seed,
            engine=work.engine,
            progress=work.job,
        )
        if objective == "probability":
            return learn(n_components, held_out=held_out)
        chosen, settled, number = work.options, init != "data", None
        plain = objective == "auto" and method is None and noise == "per_visible"
        rivals = None
        if plain and not settled and observations.total_weight >= ROWS_TO_COMPARE:
            rivals = Comparison(
                observations, held_out, seed=chosen.seed, engine=work.engine, progress=work.job
            )
            with suppress(TimeUpError):
                quick = rivals.far_from_factors(n_components)
                if quick is not None:
                    richer = _few_alternatives(learn, observations, n_components, held_out, chosen)
                    if rivals.gain(richer.network, quick) > 0:
                        return richer
        if isinstance(n_components, str) or not settled:
            network, settled = start_by_search(
                observations,
                n_components,
                objective="errors" if objective == "errors" else "description",
                noise=noise,
                n_restarts=n_restarts,
                n_extra=n_extra,
                seed=chosen.seed,
                engine=work.engine,
                progress=work.job,
                keeper=work.keeper,
            )
            if isinstance(n_components, str) and not settled:
                with suppress(TimeUpError):
                    network, number = _fewer(network, observations, noise, n_restarts, work)
            if settled and options is None and "steps" not in changes:
                chosen = replace(chosen, steps=0)
        else:
            network = bipartite(observations.n_visible, n_components, noise=noise)
            network = initialize(network, init, noise="uniform", seed=chosen.seed)
        method = MaxProduct(temperature=1.0) if method is None else method
        with work.job.until(_SHARE_OF_DESCRIPTION if plain else 1.0):
            fitted = learn_network(
                network, observations, method, chosen, held_out=held_out, engine=work.engine
            )
        settings = {"objective": objective, "init": init, "noise": noise, **fitted.settings}
        if number is not None:
            settings["number"] = number.record()
        fitted = replace(fitted, settings=settings)
        if rivals is not None and not settled:
            with suppress(TimeUpError):
                if rivals.mixture_is_better(fitted.network):
                    richer = _few_alternatives(learn, observations, n_components, held_out, chosen)
                    if rivals.gain(richer.network, fitted.network) > 0:
                        return richer
        return fitted


def _fewer(
    network: Network, rows: Observations, noise: Any, n_restarts: int, work: Work
) -> tuple[Network, Choice | None]:
    """The network with as many causes as rows that were set aside ask for, and that choice."""
    seed, engine = work.options.seed, work.engine
    number = choose_number(
        rows, noise=noise, n_restarts=n_restarts, seed=seed, engine=engine, progress=work.job
    )
    if number is None:
        return network, None
    *_, network = shrink(network, rows, number.n_components, seed=seed, engine=engine)
    return network, number


def _check_number(n_components: object, rows: Observations, objective: str) -> None:
    """Refuse more causes than can be told apart, before anything is searched for."""
    COUNT_OR_AUTO.check("n_components", n_components)
    most = max(rows.n_rows, rows.n_visible) if objective == "probability" else rows.n_visible
    if isinstance(n_components, int | np.integer) and n_components > most:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but a table of {rows.n_rows:,} rows and "
            f"{rows.n_visible:,} columns has {most:,} causes at most"
        )


def _few_alternatives(
    learn: Callable[..., FitResult],
    rows: Observations,
    n_components: int | str,
    held_out: Any,
    options: TrainOptions,
) -> FitResult:
    """What `learn_density` finds; of alternatives, too, there are no more than rows ask for."""
    number = None
    if isinstance(n_components, str):
        number = choose_classes(rows, seed=options.seed, progress=options.progress)
    if number is None:
        return learn(n_components, held_out=held_out)
    found = learn(number.n_components, held_out=held_out)
    return replace(found, settings={**found.settings, "number": number.record()})
