"""A training run: its options, its state and record, and both as a checkpoint.

A checkpoint is one file, written atomically and bound to its run.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.files import check_folder, real_path
from noisyor._util.progress import LOG, Progress, warn
from noisyor._util.validation import OPTIONS, check_seed, check_settings
from noisyor._version import __version__
from noisyor.data.observations import Observations
from noisyor.engines.context import CheckpointStore
from noisyor.errors import CheckpointError, InvalidSettingError, ModelFileError
from noisyor.io.model_file import on_one_line, read_sealed, write_sealed
from noisyor.learning.optimizers import (
    Adam,
    Optimizer,
    Rate,
    optimizer_key,
    rate_at,
    rate_key,
    rebuild_state,
    state_arrays,
)
from noisyor.model.network import Network

PathLike = str | os.PathLike[str]


# ---- options


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How to train. The defaults are the paper's.

    Functions that train also take single options by name: ``train(network, X, steps=100)``.

    Parameters
    ----------
    steps : number of updates in total; None for as many as ``passes`` take.
    passes : how often to go through all rows, if ``steps`` is None.
    batch_size : rows per update; None for all rows, or for a whole chunk in `train_stream`.
    block_rows : if minibatches are shuffled, shuffle blocks of this many consecutive rows instead
        of single rows; useful for rows that are read in blocks. None shuffles single rows, as in
        the paper, and on a cluster blocks of 8,192; `train_stream` shuffles within chunks.
    learning_rate : learning rate of Adam: a number, or a function of the number of updates so far.
    final_learning_rate : rate at the last step; the rate falls to it geometrically. None keeps the
        rate constant, as in the paper. Resuming with more steps then changes the rates.
    optimizer : `Adam` with other settings, or any object with ``init`` and ``update``, such as an
        optimizer of optax; see `Optimizer`. It has its own learning rate, and
        ``learning_rate`` is not used. None for ``Adam(learning_rate)``.
    parameterization : what the optimizer moves. ``"theta"``, as in the paper: all parameters move
        by the rate, a large step for parameters of rare columns. ``"log"``: the logarithms, so that
        at a rate of 0.01 each parameter changes by 1 %, for frequent and for rare columns. Use it
        with starting parameters of the right magnitude, see `start_from_counts`.
    smoothing : strength of a Beta prior on the parameters, in pseudo-rows, which prevents
        overfitting on small data; see `smoothing_prior`. 0, as in the paper, for none.
    seed : seed of the shuffling and of the perturbations.
    evaluate_every : steps between two evaluations of held-out rows; 0 for one at the end only.
    callbacks : called after every update with a `StepInfo`; returning True stops training.
    checkpoint : file that the state is written to, atomically, every ``checkpoint_every`` seconds,
        at the end, and on an interrupt.
    resume : continue from the checkpoint if the file exists. It must come from the same data,
        graph and settings; only ``steps``, ``passes`` and the engine's workers may differ.
    time_limit : seconds after which to stop and return the best result so far; None for no limit.
        In functions that search before they train, the limit covers both.
    progress : show a progress bar with the running bound; None shows it on a terminal or in a
        notebook only.

    Examples
    --------
    >>> import noisyor as nor
    >>> TrainOptions = nor.learning.TrainOptions
    >>> options = TrainOptions(steps=100, learning_rate=0.1, final_learning_rate=0.001)
    >>> round(options.rate(50), 6)
    0.01
    >>> TrainOptions(batch_size=0)
    Traceback (most recent call last):
    noisyor.errors.InvalidSettingError: batch_size must be 1, 2, … or None, got 0
    """

    steps: int | None = None
    passes: int = 1
    batch_size: int | None = 20
    block_rows: int | None = None
    learning_rate: Rate = 1e-3
    optimizer: Optimizer | None = None
    final_learning_rate: float | None = None
    parameterization: Literal["theta", "log"] = "theta"
    smoothing: float = 0.0
    seed: int = 0
    evaluate_every: int = 0
    callbacks: Iterable[Callback] = ()
    checkpoint: PathLike | None = None
    checkpoint_every: float = 30.0
    resume: bool = False
    time_limit: float | None = None
    progress: Progress = None

    def __post_init__(self) -> None:
        check_settings(self, {name: OPTIONS[name].rule for name in _NAMES})
        check_seed(self.seed)
        given = self.callbacks
        calls = tuple(given) if isinstance(given, Iterable) else (None,)
        if not all(map(callable, calls)):
            raise InvalidSettingError(f"callbacks must be a list of functions, got {given!r}")
        object.__setattr__(self, "callbacks", calls)
        if self.final_learning_rate is not None and callable(self.learning_rate):
            raise InvalidSettingError("final_learning_rate needs a learning_rate that is a number")
        if self.resume and self.checkpoint is None:
            raise InvalidSettingError("resume needs the checkpoint file to resume from")

    def rate(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        if self.final_learning_rate is None:
            return rate_at(self.learning_rate, step)
        if self.steps is None:
            raise InvalidSettingError(
                "final_learning_rate needs the number of steps at which it is reached: give steps"
            )
        assert not callable(self.learning_rate)
        decay = (self.final_learning_rate / self.learning_rate) ** (1.0 / max(self.steps, 1))
        return float(self.learning_rate * decay**step)

    def chosen_optimizer(self) -> Optimizer:
        """Return the optimizer: the one given, or Adam with the learning rate of these options."""
        return Adam(self.rate) if self.optimizer is None else self.optimizer

    def run_key(self) -> dict[str, object]:
        """Return all options that determine a run; a resumed run must have the same."""
        final = self.final_learning_rate
        return {
            "batch_size": None if self.batch_size is None else int(self.batch_size),
            "learning_rate": rate_key(self.learning_rate),
            "final_learning_rate": None if final is None else float(final),
            "parameterization": self.parameterization,
            "smoothing": float(self.smoothing),
            "seed": int(self.seed),
            "evaluate_every": int(self.evaluate_every),
            **({} if self.optimizer is None else {"optimizer": optimizer_key(self.optimizer)}),
            **({} if self.block_rows is None else {"block_rows": int(self.block_rows)}),
        }

    def record(self) -> dict[str, Any]:
        """Return the options for a model file: the essential ones, and others if unusual."""
        names = ["steps", "batch_size", "learning_rate", "seed"]
        unusual = ("smoothing", "final_learning_rate", "parameterization")
        names += [name for name in unusual if getattr(self, name) != getattr(_PAPER, name)]
        values = {name: getattr(self, name) for name in names}
        if callable(self.learning_rate):
            values["learning_rate"] = getattr(self.learning_rate, "__name__", "a function")
        if self.optimizer is not None:
            del values["learning_rate"]
            values["optimizer"] = type(self.optimizer).__name__
        return values


_NAMES = tuple(field.name for field in fields(TrainOptions))
_PAPER = TrainOptions()


def choose_options(
    options: TrainOptions | None,
    changes: Mapping[str, Any],
    defaults: TrainOptions = _PAPER,
    also: Iterable[str] = (),
) -> TrainOptions:
    """Return the options given, or the defaults, with some of them changed by name.

    Unknown names are rejected; ``also`` are further names for the suggestion in the error.
    """
    if not isinstance(options, TrainOptions | None):
        raise InvalidSettingError(
            f"options must be TrainOptions or None, got {type(options).__name__}"
        )
    for name in changes:
        if name not in _NAMES:
            known = (*_NAMES, *also)
            alike = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {alike[0]!r}?" if alike else f"there are {', '.join(known)}"
            raise InvalidSettingError(f"there is no option {name!r}; {hint}")
    rates = {"learning_rate", "final_learning_rate"}
    if changes.get("optimizer") is not None and changes.keys() & rates:
        raise InvalidSettingError(
            "an optimizer has its own learning rate: give it there, as in Adam(0.01)"
        )
    chosen = defaults if options is None else options
    if callable(changes.get("learning_rate")):  # the function alone says how the rate falls
        changes = {"final_learning_rate": None, **changes}
    return replace(chosen, **changes) if changes else chosen


_CURVE_POINTS = 400


class TrainingState(NamedTuple):
    """Everything that changes from step to step. The object is immutable.

    ``step`` number of updates so far; ``theta`` (n_params,) parameters; ``optimizer`` the state of
    the optimizer.
    """

    step: int
    theta: FloatArray
    optimizer: Any


class Evaluation(NamedTuple):
    """Mean held-out bound after a number of steps."""

    step: int
    elbo: float


@dataclass(frozen=True)
class History:
    """Record of a training run.

    ``elbo`` (steps,) mean bound of each minibatch before its update, rows counted by their weights;
    ``seconds`` (steps,) wall time of each update; ``evaluations`` the held-out bounds;
    ``forgotten`` the number of earlier updates whose record was dropped, see `recent`.
    """

    elbo: FloatArray = field(default_factory=lambda: np.empty(0))
    seconds: FloatArray = field(default_factory=lambda: np.empty(0))
    evaluations: tuple[Evaluation, ...] = ()
    forgotten: int = 0

    @property
    def n_steps(self) -> int:
        """Number of updates, including those whose record was dropped."""
        return self.forgotten + len(self.elbo)

    def curve(self) -> dict[str, list[float]]:
        """Return a few hundred means of the bounds, and the held-out bounds, as lists."""
        edges = np.unique(np.linspace(0, len(self.elbo), _CURVE_POINTS + 1).astype(int))
        return {
            "step": (self.forgotten + edges[1:]).tolist(),
            "elbo": [float(self.elbo[a:b].mean()) for a, b in pairwise(edges)],
            "held_out_step": [int(point.step) for point in self.evaluations],
            "held_out_elbo": [float(point.elbo) for point in self.evaluations],
        }

    def followed_by(self, later: History) -> History:
        """Return the record of a run followed by that of its continuation."""
        evaluations = [Evaluation(self.n_steps + step, elbo) for step, elbo in later.evaluations]
        return History(
            np.concatenate([self.elbo, later.elbo]),
            np.concatenate([self.seconds, later.seconds]),
            (*self.evaluations, *evaluations),
            self.forgotten + later.forgotten,
        )

    def recent(self, most: int) -> History:
        """Return the record of the last updates, so that the record of endless runs stays small."""
        surplus = len(self.elbo) - most
        if surplus <= 0:
            return self
        forgotten = self.forgotten + surplus
        kept = tuple(point for point in self.evaluations if point.step > forgotten)
        return History(self.elbo[-most:], self.seconds[-most:], kept, forgotten)


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The learned network, the final state (to continue from) and the record of the run.

    ``resumed_at`` is the step of the checkpoint that the run continued from, 0 for a new run.
    """

    network: Network
    state: TrainingState
    history: History
    resumed_at: int = 0


class StepInfo(NamedTuple):
    """Argument of a callback after a step.

    ``state`` is the new state; ``elbo`` the mean bound of the minibatch before the update;
    ``network`` the network with the new parameters; ``earlier_steps`` the number of steps in
    earlier phases, see `train_phases`.
    """

    state: TrainingState
    elbo: float
    network: Network
    earlier_steps: int = 0


Callback = Callable[[StepInfo], bool | None]
"""Called after every update; returning True stops training."""


class Recorder:
    """Collect the history without copying it at every step."""

    def __init__(self, history: History) -> None:
        self.elbo = history.elbo.tolist()
        self.seconds = history.seconds.tolist()
        self.evaluations = list(history.evaluations)
        self.running: float | None = None

    def add(self, elbo: float, seconds: float) -> None:
        """Record an update: the mean bound of its minibatch, and how long it took."""
        self.elbo.append(elbo)
        self.seconds.append(seconds)
        self.running = elbo if self.running is None else 0.98 * self.running + 0.02 * elbo

    def show(self, bar: Any, refresh: bool) -> None:
        """Show the running bound and the last held-out bound beside a progress bar."""
        if bar.disable or self.running is None:
            return
        shown = {"elbo": f"{self.running:.3f}"}
        if self.evaluations:
            shown["held out"] = f"{self.evaluations[-1].elbo:.3f}"
        bar.set_postfix(shown, refresh=refresh)

    def history(self, steps: int) -> History:
        """Return the record of the first steps, without an interrupted step."""
        known = tuple(each for each in self.evaluations if each.step <= steps)
        return History(np.array(self.elbo[:steps]), np.array(self.seconds[:steps]), known)


FORMAT = f"noisyor-checkpoint-4 of {'.'.join(__version__.split('.')[:2])}"
"""Format and minor version: another version may compute other numbers."""

_MARK = b"noisyor-checkpoint-"  # in the header of any version
_START = 2**20  # bytes that hold the header of any checkpoint


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything needed to resume: the step, the arrays, and the identity of the run.

    ``identity`` is a hash of the data, the graph, the starting parameters and the settings.
    """

    identity: str
    step: int
    arrays: dict[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, state: TrainingState, history: History, identity: str) -> Checkpoint:
        """Build from the state and record of a run."""
        evaluations = history.evaluations
        arrays = {
            "theta": state.theta,
            **_optimizer_arrays(state.optimizer),
            "elbo": history.elbo,
            "seconds": history.seconds,
            "evaluation_step": np.array([each.step for each in evaluations], dtype=np.int64),
            "evaluation_elbo": np.array([each.elbo for each in evaluations], dtype=np.float64),
        }
        return cls(identity, state.step, arrays)

    @staticmethod
    def identity_of(
        network: Network, rows: bytes, held_out: bytes | None, settings: dict[str, object]
    ) -> str:
        """Return a hash of all that determines a run; rows are given by `rows_identity`."""
        graph = (network.child_ptr, network.parent, network.param, network.leak_param)
        arrays = (*graph, network.theta, network.free)
        parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
        return _hash_of(*parts, rows, held_out or b"none", settings)

    def restore(self, start: TrainingState) -> tuple[TrainingState, History]:
        """Return the state and record of a run that started at ``start``."""
        arrays, names = self.arrays, _optimizer_arrays(start.optimizer)
        optimizer = rebuild_state(start.optimizer, iter([arrays[name] for name in names]))
        points = zip(arrays["evaluation_step"], arrays["evaluation_elbo"], strict=True)
        evaluations = tuple(Evaluation(int(step), float(elbo)) for step, elbo in points)
        history = History(arrays["elbo"], arrays["seconds"], evaluations)
        return TrainingState(self.step, arrays["theta"], optimizer), history


def _optimizer_arrays(state: Any) -> dict[str, npt.NDArray[Any]]:
    return {f"optimizer_{index}": array for index, array in enumerate(state_arrays(state))}


def search_identity(observations: Observations, settings: dict[str, object]) -> str:
    """Return a hash of all that determines a search."""
    return _hash_of(rows_identity(observations), settings)


def _hash_of(*parts: bytes | dict[str, object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        plain = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
        digest.update(plain)
    return digest.hexdigest()


def rows_identity(rows: Observations) -> bytes:
    """Return the identity of rows, from entries, weights and the ids that key their noise."""
    return rows.fingerprint().encode() + rows.row_ids.tobytes()


def check_place(path: PathLike | None) -> None:
    """Reject a path where no checkpoint can be written, before the work starts.

    A `CheckpointError` is raised if the folder does not exist, cannot be written to or is full, or
    if the file exists and is not a checkpoint.
    """
    if path is None:
        return
    try:
        target = real_path(Path(path))
        if not target.parent.is_dir():
            raise CheckpointError(f"{_cannot(path)}: the folder {target.parent} does not exist")
        check_folder(target.parent)
        if not stat.S_ISREG(target.lstat().st_mode):
            raise CheckpointError(f"{_cannot(path)}: it is not a regular file")
        if target.stat().st_size and not is_checkpoint(target):
            raise CheckpointError(f"{_cannot(path)}: the file there is no checkpoint")
    except FileNotFoundError:
        return
    except CheckpointError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or on_one_line(error)
        raise CheckpointError(f"{_cannot(path)}: {reason}") from error


def is_checkpoint(path: PathLike) -> bool:
    """Return whether a file is marked as a checkpoint, of any version and perhaps damaged."""
    try:
        with open(path, "rb") as stream:
            return _MARK in stream.read(_START)
    except (OSError, ValueError):
        return False


SAVED = "saved the checkpoint %s"
"""Message in the log after a checkpoint was written; the command line waits for it."""


def save_checkpoint(path: PathLike, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; a stop at any moment leaves the previous one or this one."""
    fields = {"identity": checkpoint.identity, "step": checkpoint.step}
    with _checkpoint_errors():
        write_sealed(real_path(Path(path)), FORMAT, fields, checkpoint.arrays)
    LOG.info(SAVED, os.fspath(path))


@contextmanager
def _checkpoint_errors() -> Iterator[None]:
    """Raise errors of model files, which have the same container, as errors of checkpoints."""
    try:
        yield
    except ModelFileError as error:
        raise CheckpointError(str(error).replace("model file", "checkpoint")) from error


def load_checkpoint(path: PathLike, identity: str, start: TrainingState) -> Checkpoint | None:
    """Read a checkpoint of the run with this identity and start; None if there is no such file."""
    if not os.path.lexists(path):
        return None
    checkpoint = read_checkpoint(path, identity)
    _check_arrays(path, checkpoint, start)
    return checkpoint


def open_store(path: PathLike, identity: str, *, resume: bool) -> CheckpointStore:
    """Open the file that stores the results of a search, beside the checkpoint of the training.

    ``identity`` is that of `search_identity`; with ``resume`` an existing file is read, otherwise
    replaced. If the disk is full, a warning is shown and the search continues without the file.
    """
    check_place(path)

    def write(arrays: dict[str, npt.NDArray[Any]]) -> None:
        try:
            save_checkpoint(path, Checkpoint(identity, 0, arrays))
        except CheckpointError as error:
            warn(f"{error}; the search continues without it")

    found = read_checkpoint(path, identity).arrays if resume and os.path.lexists(path) else {}
    return CheckpointStore(found, write)


def read_checkpoint(path: PathLike, identity: str | None = None) -> Checkpoint:
    """Read the checkpoint in a file, which must belong to the run with this identity, if given."""
    with _checkpoint_errors():
        fields, arrays = read_sealed(path, FORMAT)
    found = Checkpoint(fields.get("identity", ""), fields.get("step", 0), arrays)
    if identity is not None and found.identity != identity:
        raise CheckpointError(
            f"the checkpoint {os.fspath(path)} belongs to another run: data, graph, starting "
            "parameters or settings differ. Resume with the same ones, or choose another file."
        )
    return found


def _check_arrays(path: PathLike, checkpoint: Checkpoint, start: TrainingState) -> None:
    """Reject arrays that do not fit a run from this start."""
    arrays, step = checkpoint.arrays, checkpoint.step
    n_evaluations = arrays["evaluation_step"].size if "evaluation_step" in arrays else 0
    grown = {"elbo": step, "seconds": step}
    grown |= {"evaluation_step": n_evaluations, "evaluation_elbo": n_evaluations}
    wanted = {
        name: (array.dtype, (grown[name],) if name in grown else array.shape)
        for name, array in Checkpoint.of(start, History(), "").arrays.items()
    }
    found = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    if (
        found != wanted
        or not all(np.isfinite(arrays[name]).all() for name in wanted.keys() - grown.keys())
        or arrays["theta"].min(initial=0.0) < 0
    ):
        raise CheckpointError(f"the checkpoint {os.fspath(path)} is not one of this network")


def _cannot(path: PathLike) -> str:
    return f"cannot write the checkpoint {os.fspath(path)}"
