"""Hidden causes of a binary table, each a set of columns that it switches on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
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
from noisyor.learning.recipes.fit import DEFAULTS, FitResult, learn_network
from noisyor.learning.recipes.job import Work, working
from noisyor.learning.recipes.number import Choice, choose_number, shrink
from noisyor.learning.starts import start_by_search
from noisyor.model.builders import bipartite
from noisyor.model.network import Network

__all__ = ["learn_factors"]

_OBJECTIVES = ("auto", "description", "errors")

_PHASES = {
    "auto": ("search", "gibbs", "gibbs", "train"),
    "description": ("search", "gibbs", "gibbs", "train"),
    "errors": ("search", "train"),
}
"""Bars that are expected, by objective."""


def learn_factors(
    X: Any,
    n_components: int | Literal["auto"],
    *,
    objective: Literal["auto", "description", "errors"] = "auto",
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
    objective : ``"description"``: few factors, each supported by the data (minimum description
        length). ``"errors"``: the fewest wrong entries for a given number of factors, see
        `search_factors`. ``"auto"`` is ``"description"``.
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
        _check_number(n_components, observations)
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
    if held_out is not None:  # these rows decide
        held_out = Observations.of(held_out, n_visible=observations.n_visible)
        course["held_out"] = held_out.fingerprint()
    phases = _PHASES[objective] if init == "data" else ("train",)
    with working(chosen, engine, phases, observations, course) as work:
        fitted = _Task(
            rows=observations,
            n_components=n_components,
            objective=objective,
            init=init,
            noise=noise,
            n_restarts=n_restarts,
            n_extra=n_extra,
            method=method,
            steps_given=options is not None or "steps" in changes,
            held_out=held_out,
            work=work,
        )
        return fitted.learned()


@dataclass(frozen=True, eq=False)
class _Task:
    """What `learn_factors` was asked for."""

    rows: Observations
    n_components: int | Literal["auto"]
    objective: str
    init: str
    noise: Any
    n_restarts: int
    n_extra: int
    method: Method | None
    steps_given: bool
    held_out: Any
    work: Work

    def learned(self) -> FitResult:
        """Find factors by the objective and train them."""
        if self.init != "data":
            return self._by_paper()
        work, number = self.work, None
        network, settled = start_by_search(
            self.rows,
            self.n_components,
            objective="errors" if self.objective == "errors" else "description",
            noise=self.noise,
            n_restarts=self.n_restarts,
            n_extra=self.n_extra,
            seed=work.options.seed,
            engine=work.engine,
            progress=work.job,
            keeper=work.keeper,
        )
        if isinstance(self.n_components, str) and not settled:
            with suppress(TimeUpError):
                network, number = self._fewer(network)
        return _recorded(self._trained(network, settled), number)

    def _by_paper(self) -> FitResult:
        """One of the paper's starts, trained."""
        assert not isinstance(self.n_components, str)
        network = bipartite(self.rows.n_visible, self.n_components, noise=self.noise)
        network = initialize(network, self.init, noise="uniform", seed=self.work.options.seed)
        return self._trained(network, settled=False)

    def _trained(self, network: Network, settled: bool) -> FitResult:
        """The network after training, of which there is none if all is settled."""
        options = self.work.options
        if settled and not self.steps_given:
            options = replace(options, steps=0)
        method = MaxProduct(temperature=1.0) if self.method is None else self.method
        fitted = learn_network(
            network, self.rows, method, options, held_out=self.held_out, engine=self.work.engine
        )
        settings = {"objective": self.objective, "init": self.init, "noise": self.noise}
        return replace(fitted, settings={**settings, **fitted.settings})

    def _fewer(self, network: Network) -> tuple[Network, Choice | None]:
        """The network with as many causes as rows that were set aside ask for, and that choice."""
        seed, engine = self.work.options.seed, self.work.engine
        number = choose_number(
            self.rows,
            noise=self.noise,
            n_restarts=self.n_restarts,
            seed=seed,
            engine=engine,
            progress=self.work.job,
        )
        if number is None:
            return network, None
        *_, network = shrink(network, self.rows, number.n_components, seed=seed, engine=engine)
        return network, number


def _recorded(fitted: FitResult, number: Choice | None) -> FitResult:
    """Add how the number of causes was chosen to the settings of a fit."""
    if number is None:
        return fitted
    return replace(fitted, settings={**fitted.settings, "number": number.record()})


def _check_number(n_components: object, rows: Observations) -> None:
    """Refuse more causes than can be told apart, before anything is searched for."""
    COUNT_OR_AUTO.check("n_components", n_components)
    most = rows.n_visible
    if isinstance(n_components, int | np.integer) and n_components > most:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but a table of {rows.n_rows:,} rows and "
            f"{rows.n_visible:,} columns has {most:,} causes at most"
        )
