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
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.recipes.comparison import ROWS_TO_COMPARE, Comparison
from noisyor.learning.recipes.density import learn_density
from noisyor.learning.recipes.fit import DEFAULTS, FitResult, learn_network
from noisyor.learning.recipes.job import Work, working
from noisyor.learning.recipes.number import Choice, choose_classes, choose_number, shrink
from noisyor.learning.recipes.ways import Way, choose_way
from noisyor.learning.starts import start_by_search
from noisyor.model.builders import bipartite
from noisyor.model.graph import Network
from noisyor.search.restarts import numbers_in, sample_rows

__all__ = ["learn_factors"]

_OBJECTIVES = ("auto", "description", "probability", "errors")

_PHASES = {
    "auto": ("search", "gibbs", "gibbs", "train"),
    "description": ("search", "gibbs", "gibbs", "train"),
    "errors": ("search", "train"),
    "probability": ("mixture", "sets", "all rows"),
}
"""Bars that are expected, by objective."""

_SHARE_OF_CHOICE = 0.6
"""Of the time, if it is limited, for the choice of a way and of a number of causes."""

_SWEEPS = 40
"""Rounds of Gibbs sampling on all rows, of causes that were learned from some of them."""

_MAX_ENTRIES = 2**25
"""Above this many entries, these rounds use a random subset of the rows."""

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
        ``"auto"`` describes, and with five hundred rows or more asks rows that were set aside
        whether a mixture of Bernoullis gives them a clearly higher probability; if so, what
        ``"probability"`` finds is taken. If the number is to be found, too, these rows are asked
        first, after one start of the search. Where it is far from drawing the table, the search
        ends with it, and the causes start from a linear factorisation, which takes seconds: see
        ``settings["ways"]``.
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
        """The network by the objective, or by whatever way held-out rows prefer."""
        if self.objective == "probability":
            return self._density(self.n_components)
        if self.init != "data":
            return self._by_paper()
        rivals = None
        plain = self.objective == "auto" and self.method is None and self.noise == "per_visible"
        if plain and self.rows.total_weight >= ROWS_TO_COMPARE:
            rivals = Comparison(self.rows, self.held_out, self.work)
            quick = self._without_search(rivals)
            if quick is not None:
                return quick
        return self._by_search(rivals, _SHARE_OF_DESCRIPTION if plain else 1.0)

    def _without_search(self, rivals: Comparison) -> FitResult | None:
        """What is learned if it is clear, after a quick look, that the search is not worthwhile."""
        job = self.work.job
        if isinstance(self.n_components, str):
            job.expect(["search", "sizes", "gibbs"])
            with job.until(_SHARE_OF_CHOICE):
                way = choose_way(self.rows, self.work)
            if way.network is not None:
                return self._by_way(way, way.network)
            job.expect(_PHASES["auto"])
            return None
        job.expect(["search", "mixture", *_PHASES["auto"]])
        with suppress(TimeUpError):
            described = rivals.far_from_factors(self.n_components)
            if described is not None:
                richer = self._density(self.n_components)
                if rivals.gain(richer.network, described) > 0:
                    return richer
        return None

    def _by_search(self, rivals: Comparison | None, share: float) -> FitResult:
        """The factors that a search finds, trained; or alternatives, if rivals are better."""
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
        with work.job.until(share):
            fitted = _recorded(self._trained(network, settled), number)
        if rivals is not None and not settled:
            with suppress(TimeUpError):
                if rivals.mixture_is_better(fitted.network):
                    richer = self._few_alternatives()
                    if rivals.gain(richer.network, fitted.network) > 0:
                        return richer
        return fitted

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

    def _by_way(self, way: Way, network: Network) -> FitResult:
        """The causes or classes of a way, learned from all rows as long as there is time."""
        if self.work.job.is_over:
            fitted = self._trained(network, settled=True)
        elif way.name == "causes":
            fitted = self._causes(network)
        else:
            fitted = self._density(network.n_hidden)
        return _recorded(fitted, way.number, way.scores)

    def _causes(self, network: Network) -> FitResult:
        """Causes that were learned from some of the rows, learned from all of them."""
        work = self.work
        kept = None if work.keeper is None else work.keeper.load("start")
        if kept is not None:
            network = network.with_theta(np.array(numbers_in(kept, "theta", network.n_params)))
        else:
            _, rows = sample_rows(self.rows.unique_rows()[0], _MAX_ENTRIES, work.options.seed)
            network = learn_by_gibbs(
                network,
                rows,
                sweeps=_SWEEPS,
                seed=work.options.seed,
                engine=work.engine,
                progress=work.job,
            )
            if work.keeper is not None and not work.job.is_over:
                work.keeper.save("start", {"theta": network.theta})
        # Sampling has brought log p to its best; training for one explanation would lower it.
        return self._trained(network, settled=True)

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

    def _few_alternatives(self) -> FitResult:
        """What `learn_density` finds; of alternatives, too, there are no more than rows ask for."""
        number = None
        if isinstance(self.n_components, str):
            seed = self.work.options.seed
            number = choose_classes(self.rows, seed=seed, progress=self.work.job)
        if number is None:
            return self._density(self.n_components)
        return _recorded(self._density(number.n_components), number)

    def _density(self, n_components: int | Literal["auto"]) -> FitResult:
        self.work.job.expect(_PHASES["probability"])
        return learn_density(
            self.rows,
            n_components,
            held_out=self.held_out,
            seed=self.work.options.seed,
            engine=self.work.engine,
            progress=self.work.job,
            keeper=self.work.keeper,
        )


def _recorded(
    fitted: FitResult, number: Choice | None, ways: dict[str, float] | None = None
) -> FitResult:
    """What was learned, and how the number of its causes and the way to them were chosen."""
    settings = dict(fitted.settings)
    if number is not None:
        settings["number"] = number.record()
    if ways is not None:
        settings["ways"] = ways
    return replace(fitted, settings=settings)


def _check_number(n_components: object, rows: Observations, objective: str) -> None:
    """Refuse more causes than can be told apart, before anything is searched for."""
    COUNT_OR_AUTO.check("n_components", n_components)
    most = max(rows.n_rows, rows.n_visible) if objective == "probability" else rows.n_visible
    if isinstance(n_components, int | np.integer) and n_components > most:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but a table of {rows.n_rows:,} rows and "
            f"{rows.n_visible:,} columns has {most:,} causes at most"
        )
