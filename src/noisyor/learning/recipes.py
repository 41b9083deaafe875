"""From data to a learned network in one call: `learn_factors`, `learn_topics`, `learn_features`.

Each recipe finds starting parameters in the data (`noisyor.search`, Gibbs sampling) and fine-tunes
them (`noisyor.learning.train`). Estimators and the command line call these functions. For the
paper's protocol, combine `initialize` and `train` instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import Progress, TimeUpError
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, OPTIONS
from noisyor.data.observations import Observations
from noisyor.engines.context import CheckpointStore, Context, Stored, note_compilation
from noisyor.engines.contract import EngineLike
from noisyor.errors import CheckpointError, InvalidDataError, InvalidSettingError
from noisyor.inference.evaluate import Score
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.io.model_file import number_curve
from noisyor.learning.causes import Causes, finish_causes, learn_causes, start_causes
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.initialize import initialize
from noisyor.learning.state import (
    History,
    TrainOptions,
    check_place,
    choose_options,
    open_store,
    search_identity,
)
from noisyor.learning.train import default_method, train
from noisyor.learning.validation import (
    SizeCurve,
    choose_size,
    estimate_log_p,
    prune_hidden,
    split_validation,
)
from noisyor.model.builders import bipartite, with_causes
from noisyor.model.layered import layered
from noisyor.model.network import Network, network_of
from noisyor.search.cover import Cover, Matrix, cover_rows, sample_rows
from noisyor.search.factors import FoundFactors, SearchSettings, search_rows
from noisyor.search.features import search_features
from noisyor.search.starts import (
    EXACT,
    choose_topics,
    is_determined_by_counts,
    start_from_counts,
    start_from_factors,
    start_from_features,
    start_from_topics,
)

__all__ = [
    "DEFAULTS",
    "SEARCH_ENDING",
    "FitResult",
    "learn_factors",
    "learn_features",
    "learn_network",
    "learn_topics",
    "start_by_sampling",
]

DEFAULTS = TrainOptions(steps=1000, batch_size=100, learning_rate=0.01)
"""Default options of `learn_network`; other recipes change some of them."""

SEARCH_ENDING = ".search"
"""Ending of the file beside the checkpoint that stores the results of a search."""

_OWN_KEYWORDS = ("method", "options", "held_out", "engine", "n_restarts")
"""Keywords of recipes beside the training options, for the suggestion in an error message."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """A learned network, the record of its training, and the settings that made it (for JSON)."""

    network: Network
    history: History
    settings: dict[str, Any]


def learn_network(
    network: Network,
    X: Any,
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> FitResult:
    """Train any network from its present parameters.

    Parameters
    ----------
    network : graph and starting parameters.
    X : training data in any form that `Observations.of` takes.
    method : how hidden states are inferred; the default is that of `train`.
    options, changes : how to train; default 1000 steps of 100 rows at a rate of 0.01.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> fitted = nor.learn_network(
    ...     nor.bipartite(n_visible=2, n_hidden=1), np.eye(2), steps=3, progress=False
    ... )
    >>> fitted.settings["steps"], len(fitted.history.elbo)
    (3, 3)
    """
    network, options = network_of(network), choose_options(options, changes, DEFAULTS)
    method = default_method(network) if method is None else method
    result = train(network, X, method, options, held_out=held_out, engine=engine)
    steps = result.state.step if options.steps is None else options.steps
    settings = {"method": method.settings(), **options.record(), "steps": steps}
    return FitResult(result.network, result.history, settings)


@contextmanager
def _working(
    options: TrainOptions,
    engine: EngineLike,
    observations: Observations,
    settings: dict[str, object],
) -> Iterator[tuple[Context, TrainOptions]]:
    """Provide the context of a recipe and the training options for it.

    ``settings`` and the seed determine the search and identify its checkpoint.
    """
    if observations.n_missing == observations.n_rows * observations.n_visible:
        raise InvalidDataError(
            f"expected some entries that are 0 or 1, but all entries of {observations.n_rows:,} "
            f"rows and {observations.n_visible:,} columns are missing"
        )
    store = None
    if options.checkpoint is not None:
        identity = search_identity(observations, {**settings, "seed": int(options.seed)})
        path = f"{options.checkpoint}{SEARCH_ENDING}"
        store = open_store(path, identity, resume=options.resume)
    limit = options.time_limit
    context = Context.of(engine, options.seed, options.progress, limit, store)
    with note_compilation(context.job.note):
        yield context, replace(options, progress=context.job)


def _trained(
    network: Network,
    rows: Observations,
    method: Method | None,
    options: TrainOptions,
    held_out: Any,
    context: Context,
) -> FitResult:
    """Train from a start; without a checkpoint if a time limit cut the start short.

    A resumed run finishes the start first, so a checkpoint of this training would not fit it.
    """
    if context.job.is_cut_short:
        options = replace(options, checkpoint=None, resume=False)
    return learn_network(network, rows, method, options, held_out=held_out, engine=context.engine)


def _save_start(network: Network, context: Context) -> None:
    """Keep starting parameters, unless a time limit ended the work on them early."""
    if not context.job.is_cut_short:
        context.store.save("start", {"theta": network.theta})


def _saved_start(graph: Network, context: Context) -> Network | None:
    """Return the graph with the parameters that `_save_start` kept, or None."""
    kept = context.store.load("start")
    if kept is None:
        return None
    return graph.with_theta(np.array(kept.numbers("theta", graph.n_params)))


# ---- factors

_SWEEPS = 40
"""Rounds of Gibbs sampling after a search or a first training."""

_REFIT_SWEEPS = 40
"""Rounds of Gibbs sampling that adapt the remaining causes after some were dropped."""

_MAX_ENTRIES = 2**23
"""Above this many entries, Gibbs sampling uses a random subset of the rows."""

_MAX_ENTRIES_OF_SIZES = 2**22
"""Above this many entries, numbers of causes are compared on a random subset of the rows."""

_FIRST_CAUSES, _MAX_CAUSES, _ROWS_PER_CAUSE = 8, 128, 5
"""Smallest and largest number of causes that a search for their number starts with, and smallest
number of training rows for each cause."""

_SHARE_OF_LEARNING, _SHARE_OF_SEARCH, _SHARE_OF_SIZES = 0.5, 0.6, 0.8
"""Share of a time limit after which the learning of a number of causes ends, so that it can be
scored; the search; and the comparison of sizes."""

_ROWS_TO_COMPARE, _MORE_CANDIDATES = 1000, 16
"""With this many rows, so many more factors than requested are searched for, and the causes without
which the bound falls most are kept. With fewer rows, factors are ranked by description length."""

_FEW_ROWS = 40
"""With fewer rows than this, no validation rows choose the number of causes."""

_TEST_ROWS, _TEST_FACTORS, _TEST_ITERATIONS = 300, 32, 80
"""Rows of the quick start that chooses the objective, factors that it looks for, at most half the
number of columns, and iterations of max-product: more of them change the code length by less than
4 percent. One repair follows; more of them changed 3 of 570 choices. If more causes are requested,
it looks for as many; if the number is to be chosen, for twice as many, and for more if these
describe a part of the table."""

_MAX_CODE_LENGTH, _MAX_CODE_LENGTH_OF_NOISE = 0.5, 0.85
"""Factors describe a table if they need at most the first share of the code length of independent
columns, or at most the second one and their errors look like noise. Boolean products have 0.2 to
0.6, with a tenth of the entries flipped 0.8; plants has 0.6, but its errors depend on the edge."""

_STARTED_BY = ("mdl", "likelihood", "hamming")
"""Objectives of a start; ``"auto"`` chooses one of them."""

_UNUSED_PRIOR = 1e-4
"""Prior probability of an unused cause."""


def learn_factors(
    X: Any,
    n_components: int | Literal["auto"] = "auto",
    *,
    objective: Literal["auto", "mdl", "likelihood", "hamming"] = "auto",
    n_restarts: int = 12,
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> FitResult:
    """Find hidden causes of binary data, each a set of columns that it switches on.

    This is Boolean matrix factorization with a probability model.

    Parameters
    ----------
    X : binary data (n_rows, n_visible).
    n_components : number of causes. If the data support fewer, the others are unused: their prior
        is 0.0001 and they switch nothing on (``settings["n_unused"]``). ``"auto"`` takes the fewest
        causes within one standard error of the best log-likelihood of a quarter of the rows, which
        is held out; ``settings["n_components_curve"]`` lists the log-likelihood by number. The
        causes of one search are ranked, and smaller numbers keep the first of them. For the
        likelihood, 8, 32 and 128 causes are tried before, and twice the best of these. Exact
        Boolean factors are all kept.
    objective : what the causes are fitted for.

        * ``"mdl"``: few causes, each supported by the data (minimum description length), found by
          `search_factors` and fine-tuned.
        * ``"likelihood"``: a high probability of unseen rows. The causes start from the classes of
          a mixture and from parts of rows and are learned by Gibbs sampling, see
          `noisyor.learning.causes`.
        * ``"hamming"``: fewest wrong entries for a given number of causes, see `search_factors`.
        * ``"auto"``: ``"mdl"`` if one quick start of the search shows that Boolean factors describe
          the table, else ``"likelihood"``; ``settings["objective"]`` has the choice.
    n_restarts : largest number of restarts of the search.
    method : how hidden states are inferred; default ``MaxProduct(temperature=1.0)``.
    options, changes : how to train; the seed also determines the start. After Gibbs sampling for
        the likelihood, training follows only if ``steps`` is given.
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
    defaults = replace(
        DEFAULTS, steps=200, learning_rate=1e-3, final_learning_rate=1e-4, smoothing=0.5
    )
    OPTIONS["objective"].rule.check("objective", objective)
    known = ("n_components", "objective", *_OWN_KEYWORDS)
    chosen = choose_options(options, changes, defaults, known)
    check_place(chosen.checkpoint)
    rows = Observations.of(X)
    _check_number(n_components, rows)
    run_key: dict[str, object] = {
        "recipe": "factors",
        "n_components": n_components if isinstance(n_components, str) else int(n_components),
        "objective": objective,
        "n_restarts": n_restarts,
    }
    with _working(chosen, engine, rows, run_key) as (context, chosen):
        start = _FactorSearch(rows, n_components, n_restarts, context).start(objective)
        if start.is_converged and options is None and "steps" not in changes:
            chosen = replace(chosen, steps=0)
        method = MaxProduct(temperature=1.0) if method is None else method
        fitted = _trained(start.network, rows, method, chosen, held_out, context)
    settings = {**start.settings, **fitted.settings}
    network = fitted.network
    if not isinstance(n_components, str) and network.n_hidden < n_components:
        settings["n_unused"] = int(n_components) - network.n_hidden
        network = _with_unused(network, int(n_components))
    return FitResult(network, fitted.history, settings)


def _check_number(n_components: object, rows: Observations) -> None:
    """Reject impossible numbers of causes before any work."""
    COUNT_OR_AUTO.check("n_components", n_components)
    most = max(rows.n_rows, rows.n_visible)
    if isinstance(n_components, int | np.integer) and n_components > most:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but a table of {rows.n_rows:,} rows and "
            f"{rows.n_visible:,} columns has {most:,} causes at most"
        )


def _with_unused(network: Network, n_components: int) -> Network:
    """Append unused causes, which are rare and have no effect."""
    more = n_components - network.n_hidden
    failure, prior = network.failure_probability, network.prior_probability
    return with_causes(
        network,
        np.vstack([failure, np.ones((more, network.n_visible))]),
        np.append(prior, np.full(more, _UNUSED_PRIOR)),
    )


class _Start(NamedTuple):
    """Starting parameters, whether they need no training, and settings for the model file."""

    network: Network
    is_converged: bool
    settings: dict[str, Any]


class _Sized(NamedTuple):
    """A number of causes: their start, their network, and log p of each validation row.

    If the time was over before these rows were scored, they have -inf.
    """

    start: Causes
    network: Network
    log_p: FloatArray

    def gains_on(self, other: _Sized, validation: Observations) -> bool:
        """Return whether mean log p is more than one standard error higher than for the other."""
        if not np.isfinite([self.log_p, other.log_p]).all():
            return False
        gain = Score(self.log_p - other.log_p, weights=validation.weights)
        return gain.mean > gain.standard_error


@dataclass(frozen=True, eq=False)
class _FactorSearch:
    """The part of `learn_factors` before training; see there for the settings."""

    rows: Observations
    n_components: int | Literal["auto"]
    n_restarts: int
    context: Context

    def start(self, objective: str) -> _Start:
        """Return starting parameters for an objective, from the checkpoint if it has them."""
        kept = self.context.store.load("chosen")
        if kept is not None:
            return self._restore(kept)
        if objective == "auto":
            objective = self._choose_objective()
        if isinstance(self.n_components, str):
            found = self._start_auto(objective)
        elif objective == "likelihood":
            network = learn_causes(self.rows, self.n_components, self.context)
            found = _Start(network, is_converged=True, settings={})
        else:
            found = _Start(*self._by_search(self.rows, objective), settings={})
        found = found._replace(settings={"objective": objective, **found.settings})
        self._save(found)
        return found

    def _choose_objective(self) -> Literal["mdl", "likelihood"]:
        """Test by a quick start on a sample of the rows whether factors describe the table."""
        rows, is_auto = self.rows, isinstance(self.n_components, str)
        if is_auto and rows.total_weight < _FEW_ROWS:
            return "mdl"
        _, some = sample_rows(rows, _TEST_ROWS * rows.n_visible, self.context.seed)
        context = self.context.with_(store=CheckpointStore())
        most = max(1, rows.n_visible // 2)
        number = min(2 * _TEST_FACTORS, most)
        if not isinstance(self.n_components, str):
            # Fewer factors than requested would not describe a table that is made of so many.
            number = most = max(min(_TEST_FACTORS, most), self.n_components)
        with context.job.until(0.2):
            while True:
                settings = SearchSettings(
                    number, n_restarts=1, patience=1, iterations=_TEST_ITERATIONS, repairs=1
                )
                found = search_rows(some, settings, context)
                ratio = _code_length_ratio(found)
                are_noise = found.errors == 0 or is_determined_by_counts(found)
                if ratio <= (_MAX_CODE_LENGTH_OF_NOISE if are_noise else _MAX_CODE_LENGTH):
                    return "mdl"
                # If these factors describe a part of the table, more may describe it all.
                if number == most or ratio > _MAX_CODE_LENGTH_OF_NOISE:
                    return "likelihood"
                number = min(2 * number, most)

    def _start_auto(self, objective: str) -> _Start:
        """Choose the number of causes, by validation rows."""
        context, seed = self.context, self.context.seed
        if self.rows.total_weight < _FEW_ROWS:
            if objective == "likelihood":
                most = max(1, round(self.rows.total_weight) // 4)
                network = learn_causes(self.rows, most, context)
                network = prune_hidden(network, self.rows, most, seed=seed, engine=context.engine)
                return _Start(network, is_converged=True, settings={})
            return _Start(*self._by_search(self.rows, objective), settings={})
        training, validation = split_validation(self.rows, seed)
        if objective == "likelihood":
            return self._by_likelihood(training, validation)
        with context.job.until(_SHARE_OF_SEARCH):
            found = self._search(training, "auto", "mdl")
        network, _ = self._network_of(found, training.total_weight)
        if max(found.rates) < EXACT:
            # Exact factors: all are kept, and their parameters are counted in all rows.
            network, _ = self._network_of(_recounted(found, self.rows, context))
            return _Start(network, is_converged=True, settings={})
        network = self._gibbs(network, training, _SWEEPS)
        with context.job.until(_SHARE_OF_SIZES):
            network, curve = choose_size(
                [network], training, validation, self._refit_with(training), context
            )
        network = self._gibbs(network, self.rows, _SWEEPS)
        return _Start(network, is_converged=False, settings=_settings_of(curve))

    def _by_likelihood(self, training: Observations, validation: Observations) -> _Start:
        """Choose the number of causes by the likelihood of validation rows."""
        context = self.context
        with context.job.until(_SHARE_OF_SEARCH):
            best, larger = self._candidates(training, validation)
        sized = [best] if larger is None else [best, larger]
        refit = self._refit_with(training, smoothing=best.start.smoothing, smooth_to="frequency")
        with context.job.until(_SHARE_OF_SIZES):
            network, curve = choose_size(
                [each.network for each in sized], training, validation, refit, context
            )
        start = next((each.start for each in sized if each.network is network), None)
        if start is None:
            start = self._better(best.start._replace(network=network), training, validation)
        network = finish_causes(start, self.rows, context)
        return _Start(network, is_converged=True, settings=_settings_of(curve))

    def _candidates(
        self, training: Observations, validation: Observations
    ) -> tuple[_Sized, _Sized | None]:
        """Return the best number of causes that was tried, and the next larger one.

        The number is quadrupled until validation rows gain nothing; then twice the best is tried.
        """
        most = max(1, min(_MAX_CAUSES, round(training.total_weight) // _ROWS_PER_CAUSE))
        number, larger = min(_FIRST_CAUSES, most), None
        best = self._sized(number, training, validation, _SHARE_OF_LEARNING)
        while larger is None and number < most:
            more = min(4 * number, most)
            found = self._sized(more, training, validation, _SHARE_OF_LEARNING)
            if found.gains_on(best, validation):
                best, number = found, more
            else:
                larger = found
        if larger is not None and larger.network.n_hidden > 2 * number:
            found = self._sized(2 * number, training, validation, _SHARE_OF_LEARNING)
            best, larger = (found, larger) if found.gains_on(best, validation) else (best, found)
        is_scored = larger is not None and bool(np.isfinite(larger.log_p).all())
        return best, larger if is_scored else None

    def _sized(
        self, number: int, training: Observations, validation: Observations, share: float = 1.0
    ) -> _Sized:
        """Learn a number of causes from the training rows, and score the validation rows.

        ``share`` of a time limit is for learning, so that some time is left for the score.
        """
        start = start_causes(training, number, self.context)
        with self.context.job.until(share):
            network = finish_causes(start, training, self.context, is_trial=True)
        try:
            log_p = estimate_log_p(network, validation, self.context).per_row
        except TimeUpError:
            log_p = np.full(validation.n_rows, -np.inf)
        return _Sized(start, network, log_p)

    def _better(self, causes: Causes, training: Observations, validation: Observations) -> Causes:
        """Return these causes, or a start of as many others that lead to better ones.

        What is left of more causes is a good start for rows that were sampled from a noisy-OR
        model, and for many other tables it is not.
        """
        fresh = self._sized(causes.network.n_hidden, training, validation)
        try:
            score = estimate_log_p(causes.network, validation, self.context).mean
        except TimeUpError:
            return causes
        return fresh.start if validation.mean(fresh.log_p) > score else causes

    def _refit_with(self, rows: Observations, **smoothing: Any) -> Callable[[Network], Network]:
        """Return the function that adapts causes to rows after others were dropped."""
        return partial(
            self._gibbs,
            rows=rows,
            sweeps=_REFIT_SWEEPS,
            max_entries=_MAX_ENTRIES_OF_SIZES,
            **smoothing,
        )

    def _by_search(self, rows: Observations, objective: str) -> tuple[Network, bool]:
        """Search for factors, learn their parameters, and drop causes without support."""
        context, n_components = self.context, self.n_components
        is_large = rows.total_weight >= _ROWS_TO_COMPARE
        limit, sought = rows.n_visible, n_components
        if not isinstance(n_components, str):
            more = _MORE_CANDIDATES if is_large and objective == "mdl" else 0
            limit, sought = n_components, n_components + more
        with context.job.until(_SHARE_OF_SEARCH):
            found = self._search(rows, sought, objective)
        network, is_converged = self._network_of(found, rows.total_weight)
        if objective == "hamming" or (is_converged and network.n_hidden <= limit):
            return network, True
        network = self._gibbs(network, rows, _SWEEPS)
        if is_large:
            _, some = sample_rows(rows.unique_rows()[0], _MAX_ENTRIES, context.seed)
            network = prune_hidden(network, some, limit, seed=context.seed, engine=context.engine)
            network = self._gibbs(network, rows, _SWEEPS)
        return network, False

    def _search(
        self, rows: Observations, n_components: int | Literal["auto"], objective: Any
    ) -> FoundFactors:
        settings = SearchSettings(n_components, self.n_restarts, objective=objective)
        return search_rows(rows, settings, self.context)

    def _network_of(self, found: FoundFactors, n_rows: float = np.inf) -> tuple[Network, bool]:
        """Return the network of the factors found, and whether counts determine its parameters."""
        network = start_from_factors(found)
        if n_rows >= _ROWS_TO_COMPARE:
            return network, max(found.rates) < EXACT
        return network, is_determined_by_counts(found)

    def _gibbs(
        self,
        network: Network,
        rows: Observations,
        sweeps: int,
        max_entries: int = _MAX_ENTRIES,
        **smoothing: Any,
    ) -> Network:
        """Estimate the parameters by Gibbs sampling, on a sample if the table is large."""
        context = self.context
        _, some = sample_rows(rows.unique_rows()[0], max_entries, context.seed)
        return learn_by_gibbs(
            network,
            some,
            sweeps=sweeps,
            seed=context.seed,
            engine=context.engine,
            progress=context.job,
            **smoothing,
        )

    def _save(self, start: _Start) -> None:
        """Keep starting parameters, unless a time limit ended the search for them early."""
        if not self.context.job.is_cut_short:
            about = json.dumps([bool(start.is_converged), start.settings]).encode()
            self.context.store.save(
                "chosen",
                {"theta": start.network.theta, "about": np.array(bytearray(about), np.uint8)},
            )

    def _restore(self, kept: Stored) -> _Start:
        """Return what `_save` kept."""
        theta, n_visible = np.array(kept.numbers("theta")), self.rows.n_visible
        graph = _graph(n_visible, (len(theta) - n_visible) // (n_visible + 1))
        try:
            is_converged, settings = json.loads(kept["about"].tobytes())
            is_right = isinstance(is_converged, bool) and settings["objective"] in _STARTED_BY
            if "n_components_curve" in settings:
                is_right &= number_curve({"settings": settings}) is not None
        except (KeyError, TypeError, ValueError, RecursionError):
            is_right = False
        if not is_right:
            raise CheckpointError("the checkpoint does not describe the start of a fit")
        return _Start(graph.with_theta(theta), is_converged, settings)


def _settings_of(curve: SizeCurve | None) -> dict[str, Any]:
    return {} if curve is None else {"n_components_curve": curve._asdict()}


def _graph(n_visible: int, n_hidden: int) -> Network:
    return bipartite(n_visible, n_hidden, noise="per_visible")


def _code_length_ratio(found: FoundFactors) -> float:
    """Return the code length of the searched rows by factors, divided by independent columns'."""
    matrix = found.matrix
    seen, ones = matrix.n_in_columns(matrix.observed), matrix.n_in_columns(matrix.ones)
    share = (ones + 1) / (seen + 2)
    independent = -float((ones * np.log(share) + (seen - ones) * np.log1p(-share)).sum())
    cover = Cover.of(matrix, found.states, found.factors)
    return -cover.score(matrix) / independent if independent else 1.0


def _recounted(found: FoundFactors, rows: Observations, context: Context) -> FoundFactors:
    """Return factors with their memberships in other rows, so that parameters can be counted."""
    numbers, some = sample_rows(rows, _MAX_ENTRIES, context.seed)
    states = cover_rows(some, found.factors, engine=context.engine)
    matrix = Matrix.of(some)
    cover = Cover.of(matrix, states, found.factors)
    return replace(
        found,
        states=states,
        rates=cover.rates,
        errors=cover.errors(matrix),
        rows=numbers,
        matrix=matrix,
    )


# ---- topics

_TOPIC_CANDIDATES = 2
"""Number of candidates per requested topic."""

_CANDIDATE_SWEEPS, _TOPIC_SWEEPS = 10, 30
"""Rounds of Gibbs sampling for the candidates, and for the topics that are kept."""

_MAX_ENTRIES_OF_TOPICS = 2**28
"""Documents times words; above this many, Gibbs sampling uses a random subset of documents."""


def learn_topics(
    X: Any,
    n_layers: int = 3,
    *,
    n_components: int | None = None,
    n_parents: int | None = None,
    shrink: int = 3,
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> FitResult:
    """Learn topics of binary bags of words: a given number, or a hierarchy.

    Max-product, the default, explains documents by their most likely topics. The highest bounds
    on the probability of documents are reached by ``method=MeanField(tolerance=1e-4)`` over some
    hundred words, and by ``MeanField(local=True, tolerance=1e-4)`` over thousands.

    Max-product and local mean-field start from counts, see `start_from_counts`, and move the
    logarithms of the parameters; full mean-field starts from a first training and Gibbs sampling,
    see `start_by_sampling`. All are refined with large batches, a rate that falls to a tenth, and
    smoothing.

    Parameters
    ----------
    X : binary data (n_documents, n_words).
    n_layers, shrink : see `layered`; not used where the number of topics is given.
    n_components : number of topics, in one layer with edges to all words. Twice as many candidates
        start from a linear factorization, see `start_from_topics`, and are learned by Gibbs
        sampling; the most coherent are kept, see `choose_topics`, and learned further. Training
        follows only if ``steps`` is given.
    n_parents : see `layered`; by default 5, or 15 for full mean-field.
    method : how hidden states are inferred; default ``MaxProduct(ancestors_only=True)``.
    options, changes : how to train; the seed also determines the start.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], 10, axis=0)
    >>> fitted = nor.learn_topics(X, 2, n_parents=1, shrink=2, steps=5, progress=False)
    >>> fitted.network.n_hidden, fitted.settings["parameterization"]
    (2, 'log')
    """
    if n_components is not None:
        return _flat(X, n_components, method, options, held_out, engine, changes)
    sampled = isinstance(method, MeanField) and not method.local
    known = ("n_components", "n_parents", "shrink", *_OWN_KEYWORDS)
    chosen = choose_options(options, changes, _topic_defaults(sampled), known)
    check_place(chosen.checkpoint)
    rate = chosen.learning_rate
    if options is None and "final_learning_rate" not in changes:
        chosen = chosen if callable(rate) else replace(chosen, final_learning_rate=0.1 * rate)
    observations = Observations.of(X)
    if n_parents is None:
        n_parents = 15 if sampled else 5
    recipe: dict[str, object] = {
        "recipe": "topics",
        "n_layers": n_layers,
        "n_parents": n_parents,
        "shrink": shrink,
        "method": None if method is None else method.settings(),
    }
    with _working(chosen, engine, observations, recipe) as (context, chosen):
        network = layered(observations, n_layers, n_parents=n_parents, shrink=shrink)
        if sampled:
            assert isinstance(method, MeanField)
            start = _saved_start(network, context)
            if start is None:
                start = start_by_sampling(
                    network,
                    observations,
                    method,
                    seed=chosen.seed,
                    engine=context.engine,
                    progress=context.job,
                )
                _save_start(start, context)
            network = start
        else:
            network = start_from_counts(network, observations)
        method = MaxProduct(ancestors_only=True) if method is None else method
        return _trained(network, observations, method, chosen, held_out, context)


def _flat(
    X: Any,
    n_components: int,
    method: Method | None,
    options: TrainOptions | None,
    held_out: Any,
    engine: EngineLike,
    changes: dict[str, Any],
) -> FitResult:
    """Learn a given number of topics in one layer."""
    COUNT.check("n_components", n_components)
    defaults = replace(DEFAULTS, steps=0, batch_size=1024, smoothing=1.0, parameterization="log")
    chosen = choose_options(options, changes, defaults, ("n_components", *_OWN_KEYWORDS))
    check_place(chosen.checkpoint)
    observations = Observations.of(X)
    run_key: dict[str, object] = {"recipe": "topics", "n_components": int(n_components)}
    with _working(chosen, engine, observations, run_key) as (context, chosen):
        network = _saved_start(_graph(observations.n_visible, n_components), context)
        if network is None:
            network = _sample_topics(observations, n_components, context)
            _save_start(network, context)
        return _trained(network, observations, method, chosen, held_out, context)


def _sample_topics(observations: Observations, n_components: int, context: Context) -> Network:
    """Learn twice as many topics by Gibbs sampling, keep the best, and learn these further."""
    _, rows = sample_rows(observations, _MAX_ENTRIES_OF_TOPICS, context.seed)
    possible = min(observations.n_rows, observations.n_visible)
    more = max(n_components, min(_TOPIC_CANDIDATES * n_components, possible))
    network = start_from_topics(observations, more, seed=context.seed)
    learn = partial(
        learn_by_gibbs,
        X=rows,
        smoothing=1.0,
        seed=context.seed,
        engine=context.engine,
        progress=context.job,
    )
    network = choose_topics(learn(network, sweeps=_CANDIDATE_SWEEPS), rows, n_components)
    return learn(network, sweeps=_TOPIC_SWEEPS)


def _topic_defaults(sampled: bool) -> TrainOptions:
    """Return the training options of a hierarchy of topics."""
    # In a small batch the one occurrence of a rare word is a gradient of thousands, which Adam
    # remembers for a thousand steps: the word's noise would stay where it happens to be.
    large = replace(DEFAULTS, batch_size=1024, smoothing=1.0)
    if sampled:
        return replace(large, steps=400, learning_rate=0.005)
    # Of ten thousand words most are in less than a hundredth of the documents. Steps of one size
    # for all would lose the frequencies that the counts have found.
    return replace(large, steps=200, learning_rate=0.05, parameterization="log")


def start_by_sampling(
    network: Network,
    X: Any,
    method: MeanField,
    *,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = None,
) -> Network:
    """Return starting parameters for mean-field, from a first training and Gibbs sampling.

    Mean-field alone keeps the hidden nodes that it switched on first. Sampling separates them, and
    training continues from better parameters.

    Parameters
    ----------
    network : any graph; the values of its free parameters are ignored.
    X : training data.
    method : method of the first training.
    seed, engine, progress : see `train`.
    """
    options = TrainOptions(
        steps=400,
        batch_size=1024,
        learning_rate=0.01,
        final_learning_rate=2e-3,
        smoothing=1.0,
        seed=seed,
        progress=progress,
    )
    network = initialize(network, "paper-3", noise="uniform", seed=seed)
    network = train(network, X, method, options, engine=engine).network
    _, rows = sample_rows(Observations.of(X).unique_rows()[0], _MAX_ENTRIES, seed)
    return learn_by_gibbs(
        network, rows, sweeps=_SWEEPS, seed=seed, engine=engine, progress=progress
    )


# ---- features

_SHARE_OF_FEATURE_SEARCH = 0.7
"""Share of a time limit after which the search for features ends."""


def learn_features(
    images: Any,
    n_components: int,
    feature_shape: tuple[int, int],
    *,
    border: bool = True,
    n_restarts: int = 6,
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> FitResult:
    """Find small features that, stamped into place, make up binary images (blind deconvolution).

    Parameters
    ----------
    images : (n_images, height, width) or any other form of images that `Observations.of` takes.
    n_components : number of features at most. The images are searched for features, see
        `search_features`; those that they support (MDL) are fine-tuned.
    feature_shape, border : see `convolutional`.
    n_restarts : largest number of restarts of the search.
    method : how hidden states are inferred; default ``MaxProduct(icm=5)``.
    options, changes : how to train; the seed also determines the start.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> images = np.zeros((12, 5, 5))
    >>> for number, image in enumerate(images):
    ...     image[number % 4 : number % 4 + 2, number % 3 : number % 3 + 2] = 1
    >>> fitted = nor.learn_features(images, 1, (2, 2), n_restarts=1, steps=3, progress=False)
    >>> fitted.network.theta_of("failure").shape
    (1, 2, 2)
    """
    # The prior of a place is some thousandths: a larger first step would leave it behind.
    defaults = replace(
        DEFAULTS,
        steps=50,
        batch_size=200,
        learning_rate=3e-4,
        final_learning_rate=3e-5,
        smoothing=0.5,
    )
    chosen = choose_options(options, changes, defaults, ("border", *_OWN_KEYWORDS))
    check_place(chosen.checkpoint)
    observations = Observations.of(images)
    if len(observations.shape) != 2:
        raise InvalidDataError(
            f"images have shape (n_images, height, width), got rows of shape {observations.shape}"
        )
    shape = (observations.shape[0], observations.shape[1])
    COUNT.check("n_components", n_components)
    OPTIONS["feature_shape"].rule.check("feature_shape", feature_shape)
    if n_components > observations.n_visible:
        raise InvalidSettingError(
            f"n_components is {n_components:,}, but images of {shape[0]} x {shape[1]} pixels have "
            f"{observations.n_visible:,} features at most"
        )
    run_key: dict[str, object] = {
        "recipe": "features",
        "n_components": int(n_components),
        "feature_shape": [int(size) for size in feature_shape],
        "border": border,
        "n_restarts": n_restarts,
    }
    with _working(chosen, engine, observations, run_key) as (context, chosen):
        with context.job.until(_SHARE_OF_FEATURE_SEARCH):
            found = search_features(
                observations,
                n_components,
                feature_shape,
                border=border,
                n_restarts=n_restarts,
                seed=chosen.seed,
                engine=context.engine,
                progress=context.job,
                store=context.store,
            )
        network = start_from_features(found, shape)
        method = MaxProduct(icm=5) if method is None else method
        return _trained(network, observations, method, chosen, held_out, context)
