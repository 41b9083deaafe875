"""What all estimators share: fitting, going on from chunks, causes of rows, files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from noisyor._util.kinds import Kind
from noisyor._util.validation import (
    COUNT,
    COUNT_OR_ZERO,
    FLAG,
    NUMBER,
    PATH,
    POSITIVE,
    TEXT,
    WORKERS,
    Rule,
    check_settings,
    choice,
    or_none,
)
from noisyor.data.chunks import RowSource, open_rows
from noisyor.data.observations import Observations
from noisyor.engines.contract import Engine
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError, ModelFileError
from noisyor.estimators.answers import Answers
from noisyor.estimators.persistence import history_of, method_of, read_model, write_model
from noisyor.estimators.rows import (
    BinarizedSource,
    PreparedSource,
    Tally,
    read_rows,
    with_sample_weight,
)
from noisyor.inference.method import Method
from noisyor.io.provenance import mapping_in, provenance
from noisyor.learning.options import TrainOptions
from noisyor.learning.recipes import FitResult
from noisyor.learning.state import History
from noisyor.learning.stream import learn_chunk, start_stream, train_stream
from noisyor.model.forward import edge_matrix
from noisyor.model.network import Network

__all__ = ["NoisyOrEstimator"]

_PASSED_ON = ("init", "steps", "learning_rate", "method", "progress")
_OF_AN_UPDATE = ("batch_size", "learning_rate", "parameterization")
_OF_A_STREAM = ("callbacks", "checkpoint_every")
_KEPT_UPDATES = 10_000
_CLUSTER_BATCH, _CLUSTER_STEPS = 2**16, 200
_RULES = {
    "steps": or_none(COUNT_OR_ZERO),
    "batch_size": or_none(
        Rule(lambda value: value == "all" or COUNT.valid(value), "1, 2, …, 'all'")
    ),
    "learning_rate": or_none(POSITIVE),
    "method": or_none(
        Rule(lambda value: hasattr(value, "posterior"), "a method such as MaxProduct()")
    ),
    "output": choice("states", "probability"),
    "binarize": or_none(NUMBER),
    "n_jobs": or_none(WORKERS),
    "progress": or_none(FLAG),
    "checkpoint": or_none(PATH),
    "resume": FLAG,
    "options": or_none(Rule(lambda value: isinstance(value, Mapping), "a mapping")),
}


@dataclass(kw_only=True, eq=False, repr=False)
class NoisyOrEstimator(Answers, ABC):
    """Base of the estimators; use one of its subclasses.

    Rows are 0, 1 and NaN or null, which means unobserved: arrays, SciPy sparse matrices, frames
    (pandas, Polars, Arrow) or `Observations`. A parameter that is None leaves the choice to the
    function of `noisyor.learning.recipes` that the estimator calls. The parameters are the fields
    of a dataclass, so that each is written once; scikit-learn reads them off the generated
    ``__init__``.

    Parameters
    ----------
    steps : number of updates.
    batch_size : rows per update; ``"all"`` for all of them.
    learning_rate : of Adam.
    method : how hidden states are inferred in training, `MaxProduct` or `MeanField`; its settings
        also hold for `transform`, where the mode is taken.
    output : what `transform` returns: ``"states"``, the most likely causes as 0 and 1, or
        ``"probability"``, the probability of each cause by mean-field.
    binarize : None expects 0 and 1; a number makes entries above it 1 and the others 0.
    random_state : seed of the start and of the training; None draws a new one in every fit.
    n_jobs : number of threads; None or -1 for all cores. No result depends on it.
    progress : True shows a progress bar, None on a terminal only.
    checkpoint, resume : file for the state of `fit`, and whether to go on from it, see `train`.
    options : further keywords for the learning function, a mapping: more of `TrainOptions`, or what
        the function itself takes. An unknown name is refused before anything is learned.

    Attributes
    ----------
    network_ : the learned `Network`.
    components_ : probability that a cause switches a column on.
    prior_ : probability of each cause (when the causes above it are off).
    noise_ : (n_features_in_,) probability of each column when no cause is on.
    history_ : bounds and times of all updates, see `noisyor.learning.History`.
    settings_ : how the model was learned, with the defaults filled in.
    provenance_ : what `save` writes beside the network: data, settings, versions.
    n_features_in_, feature_names_in_ : number of columns, and their names if they had any.

    Examples
    --------
    >>> import noisyor as nor
    >>> model = nor.BooleanMatrixFactorization(n_components=2)
    >>> isinstance(model, nor.estimators.NoisyOrEstimator)
    True
    """

    _kind: ClassVar[Kind]
    _min_features: ClassVar[int] = 1

    steps: int | None = None
    batch_size: int | Literal["all"] | None = None
    learning_rate: float | None = None
    method: Method | None = None
    output: Literal["states", "probability"] = "states"
    binarize: float | None = None
    random_state: Any = 0
    n_jobs: int | None = None
    progress: bool | None = False
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False
    options: Mapping[str, Any] | None = None

    # ---- learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : (n_rows, n_features), or a `RowSource` from `noisyor.data.chunks.open_rows` for rows
            that do not fit into memory: one pass is made over it, or ``steps`` updates.
        y : ignored.
        sample_weight : (n_rows,) how many rows each one stands for, such as its number of
            occurrences in an aggregated table; 0 leaves a row out. None counts each once.
        client : a ``distributed.Client``: its workers read the rows then, which are as in
            `noisyor.distributed.train`. Learning starts from a sample of them, and goes on with all
            for 200 updates, or ``steps``, of 65,536 rows each, or ``batch_size``.
        """
        self._check_params()
        self.__dict__.pop("_stream", None)
        if client is not None:
            if sample_weight is not None:
                raise InvalidDataError("sample_weight is for rows in memory, not for a cluster")
            return self._fit_cluster(client, X)
        if isinstance(X, RowSource):
            if sample_weight is not None:
                raise InvalidDataError("sample_weight is for rows in memory, not for chunks")
            return self._fit_source(X)
        rows = with_sample_weight(self._rows(X, reset=True), sample_weight)
        learned = self._learn(rows, **self._run_options(), **self._options())
        return self._keep(learned, rows)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go through one chunk of rows once, from where the last call, `fit` or `load` left off.

        The first chunk of a new model also decides where learning starts (and the graph of a
        topic model), so let it be a fair sample. ``steps``, ``checkpoint`` and ``resume`` do not
        apply. ``sample_weight`` (n_rows,) as in `fit`. ``history_`` keeps the last 10,000 updates,
        so that a service can go on for ever.
        """
        self._check_params()
        new = not hasattr(self, "network_")
        rows = with_sample_weight(self._rows(X, reset=new), sample_weight)
        if new:
            self._start(rows)
        if not hasattr(self, "_stream"):
            self._stream = start_stream(self.network_)
            self._tally = Tally() if new else Tally.after(self.provenance_)
        self._tally.add(self._stream.n_chunks, rows)
        method, options = self._stream_settings()
        self._stream, history = learn_chunk(
            self._stream, self.network_, rows, method, options, engine=self._engine()
        )
        network = self.network_.with_theta(self._stream.training.theta)
        self._tally.fold()
        history = self.history_.followed_by(history).recent(_KEPT_UPDATES)
        return self._keep_streamed(network, history, rows, self._tally)

    def _fit_source(self, source: RowSource) -> Self:
        first = self._rows(source.read(0), reset=True)
        self._start(first)
        prepared = PreparedSource(source, lambda X: self._rows(X, reset=False))
        method, options = self._stream_settings()
        given = {name: value for name, value in self._given().items() if name in _OF_A_STREAM}
        options = replace(
            options, steps=self.steps, progress=self.progress, **self._run_options(), **given
        )
        result = train_stream(self.network_, prepared, method, options, engine=self._engine())
        return self._keep_streamed(result.network, result.history, first, prepared.tally)

    def _fit_cluster(self, client: Any, X: Any) -> Self:
        from noisyor.distributed.starts import count_chunks, fetch_sample
        from noisyor.distributed.training import train

        if isinstance(X, str | os.PathLike):
            X = open_rows(X)
        if self.binarize is not None:
            if not isinstance(X, RowSource):
                raise InvalidSettingError("binarize is for a RowSource; compare a Dask collection")
            X = BinarizedSource(X, self.binarize)
        seed = self._options()["seed"]
        first = self._rows(fetch_sample(client, X, seed), reset=True)
        self._start(first)
        method, options = self._stream_settings()
        size = _CLUSTER_BATCH if self.batch_size is None else self._given()["batch_size"]
        options = replace(
            options,
            steps=_CLUSTER_STEPS if self.steps is None else self.steps,
            batch_size=size,
            progress=self.progress,
            **self._run_options(),
        )
        result = train(client, self.network_, X, method, options)
        self.settings_.update(options.record())
        tally = Tally()
        tally.add_counted(count_chunks(client, X), first.n_visible)
        return self._keep_streamed(result.network, result.history, first, tally)

    def _keep_streamed(
        self, network: Network, history: History, rows: Observations, tally: Tally
    ) -> Self:
        """Store what was learned from chunks, of which ``rows`` is one."""
        settings = self.settings_ | {"steps": history.n_steps}
        self._keep(FitResult(network, history, settings), rows)
        self.provenance_["data"] = tally.describe()
        return self

    def _start(self, rows: Observations) -> None:
        """Parameters before the first update, and the settings that the learning function takes."""
        self._keep(self._learn(rows, **self._options() | {"steps": 0}), rows)

    @abstractmethod
    def _learn(self, rows: Observations, **options: Any) -> FitResult:
        """Call the learning function of this kind of model."""

    def _options(self) -> dict[str, Any]:
        """Keywords for the learning function; a random state is drawn from once for each call."""
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            try:
                seed = check_random_state(seed).randint(2**31 - 1)
            except (ValueError, TypeError) as error:
                raise InvalidSettingError(f"random_state: {error}") from error
        return {"seed": int(seed), **self._given()}

    def _given(self) -> dict[str, Any]:
        named = {name: getattr(self, name, None) for name in _PASSED_ON}
        given = {name: value for name, value in named.items() if value is not None}
        if self.batch_size is not None:
            given["batch_size"] = None if self.batch_size == "all" else self.batch_size
        return {**given, "engine": self._engine(), **(self.options or {})}

    def _engine(self) -> Engine:
        """All cores for ``n_jobs`` None or -1, as in scikit-learn, else so many threads."""
        return get_engine(n_threads=None if self.n_jobs == -1 else self.n_jobs)

    def _run_options(self) -> dict[str, Any]:
        if self.checkpoint is None:
            return {}
        return {"checkpoint": self.checkpoint, "resume": self.resume}

    def _stream_settings(self) -> tuple[Method | None, TrainOptions]:
        """Method and options for updates from chunks: as given now, else as learning chose them."""
        given = self._given()
        method = given.get("method")
        if method is None and "method" in self.settings_:
            method = method_of(self.settings_["method"])
        known = {
            "batch_size": 100,
            "learning_rate": 0.01,
            "parameterization": "theta",
            **self.settings_,
        }
        chosen = {name: given.get(name, known[name]) for name in _OF_AN_UPDATE}
        return method, TrainOptions(seed=self.settings_.get("seed", 0), **chosen)

    def _keep(self, learned: FitResult, rows: Observations) -> Self:
        """Store what was learned, and from which rows."""
        self.history_, self.settings_ = learned.history, learned.settings
        self._describe(_with_names(learned.network, rows.column_names))
        metrics = {}
        if len(self.history_.elbo):
            tail = max(1, len(self.history_.elbo) // 10)
            metrics["training_elbo"] = float(self.history_.elbo[-tail:].mean())
        last = self.history_.evaluations[-1:]
        if last and last[0].step == self.history_.n_steps:  # of these parameters, not of earlier
            metrics["held_out_elbo"] = last[0].elbo
        self.provenance_ = provenance(
            self._kind, rows, settings=self.settings_, metrics=metrics, curve=self.history_.curve()
        )
        return self

    def _describe(self, network: Network) -> None:
        """Attributes that show the parameters of the network."""
        self.network_ = network
        self.prior_ = network.prior_probability
        self.noise_ = network.noise_probability
        self.components_ = self._components(network)

    def _components(self, network: Network) -> Any:
        """Sparse (n_hidden, n_visible): only the edges, of which deep networks have few."""
        edges = edge_matrix(network, probability=True)
        return sp.csr_array(edges[: network.n_visible].T)

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a ``.safetensors`` file with its origin; nothing in it is executed.

        The state of the optimizer is not part of it.
        """
        check_is_fitted(self, "network_")
        write_model(path, self.network_, self.provenance_, self.get_params(deep=False))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` or the command line wrote. ``history_`` is thinned."""
        network, metadata, params = read_model(path, cls._kind, cls._get_param_names())
        estimator = cls(**(cls._params_of(network) | params))
        try:
            estimator._check_params()
        except InvalidSettingError as error:
            raise ModelFileError(
                f"the model file {os.fspath(path)} holds parameters that make no sense: {error}"
            ) from error
        estimator.provenance_ = {
            name: value for name, value in metadata.items() if name != "estimator"
        }
        estimator.settings_ = dict(mapping_in(metadata, "settings"))
        estimator.history_ = history_of(metadata)
        estimator.n_features_in_ = network.n_visible
        if network.visible_names is not None:
            estimator.feature_names_in_ = np.array(network.visible_names, dtype=object)
        estimator._describe(network)
        return estimator

    @classmethod
    def _params_of(cls, network: Network) -> dict[str, Any]:
        """Parameters that the network shows, for files in which an estimator did not write them."""
        return {}

    # ---- scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _rows(self, X: Any, reset: bool) -> Observations:
        return read_rows(self, X, reset=reset, min_features=self._min_features if reset else 1)

    def _fitted_rows(self, X: Any) -> Observations:
        check_is_fitted(self, "network_")
        self._check_params()
        return self._rows(X, reset=False)

    def _check_params(self) -> None:
        check_settings(self, _RULES)
        or_none(TEXT).check("init", getattr(self, "init", None))


def _with_names(network: Network, names: tuple[str, ...] | None) -> Network:
    if names is None or network.visible_names == names:
        return network
    return replace(network, visible_names=names)
