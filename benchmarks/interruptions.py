"""Interrupt training, recipes and commands at random points, resume them, and compare the bits.

    python benchmarks/interruptions.py --runs 300
    python benchmarks/interruptions.py --seconds 600
    python benchmarks/interruptions.py --seed 7 --first 31 --runs 1   # one again

Every run takes one piece of work, stops it up to four times and starts it again until it is
finished. The result must have the same bits as an undisturbed run. For work with a checkpoint, the
script compares parameters, the record of training and settings; for commands that start again, it
compares the files. After every stop, a file that a command writes must have its old content or its
new one, and no temporary file may be left at the end. Ways to stop:

* ``interrupt``: KeyboardInterrupt, as from Ctrl-C.
* ``kill``: the process ends at once, as by SIGKILL; nothing is cleaned up.
* ``limit``: the time limit passes. The work must return a valid network. Functions continue
  afterwards from the checkpoint. Commands end at the limit, so they run in a copy of the folder.

Points are counted in ticks: calls of the engine, readings of the clock, and writes of a file. The
clock of time limits is replaced by these ticks, so that a stop can be repeated exactly. With
``--processes N``, ``noisyor fit`` also runs N times in separate processes that get real signals.
These runs depend on the speed of the machine and cannot be repeated exactly.

The seed is new in every run unless it is given, and it is printed. A failure prints the command
that repeats it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
import inspect
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from noisyor._util import progress
from noisyor._util.files import write_atomically
from noisyor.cli import fit as cli_fit
from noisyor.cli.main import main as noisyor
from noisyor.engines.contract import FUNCTIONS
from noisyor.io import model_file
from noisyor.io.model_file import load_model
from noisyor.learning import train
from reproduction.__main__ import main as reproduction
from reproduction.record import Record

Way = Literal["interrupt", "kill", "limit", "none"]
WAYS: tuple[Way, ...] = ("interrupt", "kill", "limit")
MAX_STOPS = 4
KILLED = 9


# ---- stops


@dataclass
class Trap:
    """Count ticks; at tick ``at`` interrupt the work or end the process."""

    way: Way = "none"
    at: int = 0
    ticks: int = 0

    def tick(self) -> None:
        """Count one tick."""
        self.ticks += 1
        if self.ticks == self.at and self.way == "interrupt":
            raise KeyboardInterrupt
        if self.ticks == self.at and self.way == "kill":
            os._exit(KILLED)

    @property
    def limit(self) -> float | None:
        """Return the time limit in ticks, or None if the run is stopped in another way."""
        return float(self.at) if self.way == "limit" else None


class _Clock(ModuleType):
    """The module ``time`` with a monotonic clock of one second a tick."""

    def __init__(self, trap: Trap) -> None:
        super().__init__("time")
        self.__dict__.update(vars(time))

        def monotonic() -> float:
            trap.tick()
            return float(trap.ticks)

        self.__dict__["monotonic"] = monotonic


@contextmanager
def armed(trap: Trap) -> Iterator[None]:
    """Count ticks in the engine, the clocks of time limits and checkpoints, and writes of files."""
    replaced: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        # The attribute as it is stored, so that a static method is put back as one.
        stored = inspect.getattr_static(owner, name)
        replaced.append((owner, name, stored))
        setattr(owner, name, staticmethod(value) if isinstance(stored, staticmethod) else value)

    def ticking(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            trap.tick()
            found = function(*arguments, **options)
            trap.tick()
            return found

        return call

    for module in (progress, train, cli_fit):
        put(module, "time", _Clock(trap))
    put(model_file, "write_atomically", ticking(write_atomically))
    put(os, "replace", ticking(os.replace))
    put(os, "fsync", ticking(os.fsync))
    for name in FUNCTIONS:
        put(nor.engines.NumbaEngine, name, ticking(getattr(nor.engines.NumbaEngine, name)))
    try:
        yield
    finally:
        for owner, name, value in reversed(replaced):
            setattr(owner, name, value)


# ---- works


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a run, and other values that must be equal, as text."""

    network: nor.Network
    elbo: Any
    record: str


Work = Callable[[Path, Trap], Outcome]
"""Does the work in a folder, or goes on with it there, with the time limit of a trap."""


@cache
def table(n_rows: int = 60, weight: float = 1.0) -> nor.Observations:
    """Draw rows of three overlapping causes, with flips and missing values."""
    random = np.random.default_rng(3)
    factors = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1]])
    rows = ((random.random((n_rows, 3)) < 0.4) @ factors > 0).astype(float)
    rows = np.where(random.random(rows.shape) < 0.03, 1 - rows, rows)
    rows[random.random(rows.shape) < 0.02] = np.nan
    found = nor.Observations.of(rows)
    return found if weight == 1 else found.with_weights(np.full(n_rows, weight))


@cache
def noise_table() -> nor.Observations:
    """Draw rows that few factors do not describe, so that the objective likelihood is chosen."""
    random = np.random.default_rng(4)
    return nor.Observations.of((random.random((80, 6)) < random.random(6)).astype(int))


@cache
def images() -> Any:
    """Draw images of two small features."""
    random = np.random.default_rng(5)
    drawn = np.zeros((15, 6, 6), dtype=int)
    for image in drawn:
        for feature in (np.array([[1, 1], [1, 0]]), np.array([[0, 1], [1, 1]])):
            i, j = random.integers(0, 5, 2)
            image[i : i + 2, j : j + 2] |= feature
    return drawn


def _start() -> nor.Network:
    return nor.initialize(nor.bipartite(n_visible=7, n_hidden=3), "paper-3", seed=1)


def _function(call: Callable[..., Any], *arguments: Any, **settings: Any) -> Work:
    """Return the work of a function with a checkpoint; arguments that are functions are called."""

    def work(folder: Path, trap: Trap) -> Outcome:
        found = call(
            *(each() if callable(each) else each for each in arguments),
            **settings,
            checkpoint=folder / "run",
            resume=True,
            checkpoint_every=0.0 if trap.at % 2 else 30.0,
            time_limit=trap.limit,
            progress=False,
            engine=nor.engines.NumbaEngine(n_threads=1),
        )
        record = repr((found.history.evaluations, getattr(found, "settings", {})))
        return Outcome(found.network, found.history.elbo, record)

    return work


def _command(data: Callable[[], Any], *arguments: str) -> Work:
    """Return the work of a command line of ``noisyor fit``."""

    def work(folder: Path, trap: Trap) -> Outcome:
        table_file, model = folder / "table.npy", folder / "model.safetensors"
        if not table_file.exists():
            np.save(table_file, data())
        if trap.way == "limit":
            with tempfile.TemporaryDirectory() as other:
                shutil.copytree(folder, other, dirs_exist_ok=True)
                return run(Path(other) / model.name, table_file, trap)
        return run(model, table_file, trap)

    def run(model: Path, table_file: Path, trap: Trap) -> Outcome:
        told = io.StringIO()
        line = ["fit", str(table_file), *arguments, "--out", str(model), "--resume"]
        left = list(model.parent.glob("*.checkpoint*"))
        if model.exists() and left:  # killed at its very end
            line.append("--force")
        if trap.limit is not None:
            line += ["--time-limit", str(trap.limit)]
        if left or not model.exists():
            with redirect_stdout(told), redirect_stderr(told):
                code = noisyor([*line, "--threads", "1", "--quiet"])
            if code == 130:
                raise KeyboardInterrupt
            if code not in (0, 1):
                raise DifferenceError(f"{line[0]} ended with {code}: {told.getvalue()}")
        if list(model.parent.glob("*.checkpoint*")):
            raise DifferenceError(f"files were left behind: {os.listdir(model.parent)}")
        network, metadata = load_model(model)
        curve = metadata["curve"]["elbo"]
        return Outcome(network, np.array(curve), repr((metadata["metrics"], metadata["settings"])))

    return work


def _hybrid(folder: Path, trap: Trap) -> Outcome:
    """Train in two phases; each has a checkpoint of its own."""
    found = nor.learning.train_hybrid(
        _start(),
        table(),
        mp_steps=20,
        vi_steps=8,
        batch_size=20,
        checkpoint=folder / "run",
        resume=True,
        checkpoint_every=0.0 if trap.at % 2 else 30.0,
        time_limit=trap.limit,
        progress=False,
        engine=nor.engines.NumbaEngine(n_threads=1),
    )
    elbo = np.concatenate([result.history.elbo for result in found.results])
    return Outcome(found.network, elbo, str(len(elbo)))


def _sweep(folder: Path, trap: Trap) -> Outcome:
    """Run two runs of the reproduction; finished runs are skipped, stopped runs continue."""
    told = io.StringIO()
    line = ["run", "bmf", "--size", "12,3", "--init", "paper-3", "--seeds", "0-1", "--steps", "40"]
    line += ["--threads", "1", "--validation-seeds", "0", "--quiet", "--out", str(folder / "out")]
    with redirect_stdout(told), redirect_stderr(told):
        code = reproduction(line)
    if code == 130:
        raise KeyboardInterrupt
    if code:
        raise DifferenceError(f"the sweep ended with {code}: {told.getvalue()}")
    left = [path.name for path in folder.rglob("*") if path.name.endswith("-part")]
    if left:
        raise DifferenceError(f"files were left behind: {left}")
    runs = Record(folder / "out").runs()
    return Outcome(_start(), np.zeros(1), repr([run["metrics"] for run in runs]))


def _files(*arguments: str) -> Work:
    """Return the work of a command that writes files and starts again after a stop.

    In the arguments ``{in}`` is the folder of `_inputs`, and ``{out}`` the output folder.
    """
    source = _inputs()

    def work(folder: Path, trap: Trap) -> Outcome:
        line = [part.format_map({"in": source, "out": folder}) for part in arguments]
        told = io.StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            code = noisyor(line)
        if code == 130:
            raise KeyboardInterrupt
        if code not in (0, 1):
            raise DifferenceError(f"{line[0]} ended with {code}: {told.getvalue()}")
        hidden = [path.name for path in folder.rglob(".*")]
        if hidden:
            raise DifferenceError(f"files were left behind: {hidden}")
        written = sorted(path for path in folder.rglob("*") if path.is_file())
        content = [(path.name, _lasting(path.read_bytes())) for path in written]
        text = told.getvalue().replace(str(folder), "")
        return Outcome(_start(), np.zeros(1), repr((content, text)))

    return work


@cache
def _inputs() -> Path:
    """Return a folder with a model and rows with missing values."""
    folder = Path(tempfile.mkdtemp(prefix="interruptions-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    nor.save_network(folder / "model", _start())
    np.save(folder / "rows.npy", table().to_dense())
    return folder


def _lasting(content: bytes) -> str:
    """Return a hash of a file without the dates and durations in it."""
    if content[:20].lower().startswith(b"<!doctype html"):
        content = re.sub(rb"20\d\d-\d\d-\d\d[T ][\d:+]+|[\d.]+ s\b", b"", content)
    elif b"noisyor" in content[:2000] and b"child_ptr" in content:
        return hashlib.sha256(_theta_of(content)).hexdigest()
    return hashlib.sha256(content).hexdigest()


def _theta_of(content: bytes) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return load_model(file.name).network.theta.tobytes()


def works() -> dict[str, Work]:
    """Return all work by name: functions with a checkpoint, and commands that write files."""
    factors, topics, features = nor.learn_factors, nor.learn_topics, nor.learn_features
    held_out: dict[str, Any] = {"held_out": table(20), "evaluate_every": 7}
    few: dict[str, Any] = {"n_restarts": 3}
    mean_field = nor.MeanField(tolerance=1e-2)

    def dense() -> Any:
        return table().to_dense()

    def chunks() -> Any:
        return [dense()[begin : begin + 25] for begin in (0, 25, 50)]

    return {
        "train": _function(
            nor.train, _start, table, nor.MaxProduct(temperature=1.0), steps=40, **held_out
        ),
        "train by mean field": _function(
            nor.train, _start, table, mean_field, steps=15, **held_out
        ),
        "train_hybrid": _hybrid,
        "reproduction": _sweep,
        "demo": _files("demo", "--out", "{out}/demo", "--quiet"),
        "impute": _files(
            "impute", "{in}/model", "{in}/rows.npy", "--out", "{out}/m.csv", "--force"
        ),
        "explain": _files("explain", "{in}/model", "{in}/rows.npy"),
        "evaluate": _files("evaluate", "{in}/model", "{in}/rows.npy"),
        "report": _files(
            "report", "{in}/model", "{in}/rows.npy", "--out", "{out}/page.html", "--quiet"
        ),
        "train_stream": _function(nor.train_stream, _start, chunks, batch_size=10, passes=3),
        "learn_network": _function(nor.learn_network, _start, table, steps=30, batch_size=10),
        "factors mdl": _function(factors, table, 3, objective="mdl", steps=20, **few),
        "factors mdl, heavy": _function(
            factors, lambda: table(50, 30.0), 2, objective="mdl", steps=15, **few
        ),
        "factors hamming": _function(factors, table, 3, objective="hamming", **few),
        "factors likelihood": _function(factors, noise_table, 3, objective="likelihood", steps=9),
        "factors auto": _function(factors, table, "auto", **few),
        "factors auto, few rows": _function(
            factors, lambda: table(4, 30.0), "auto", objective="mdl", **few
        ),
        "factors auto, heavy": _function(
            factors, lambda: table(50, 30.0), "auto", objective="mdl", **few
        ),
        "factors auto of noise": _function(factors, noise_table, "auto", **few),
        "topics": _function(topics, table, 2, n_parents=2, steps=25),
        "topics by mean field": _function(topics, table, 2, method=mean_field, steps=15),
        "topics, flat": _function(topics, table, n_components=2, steps=12),
        "features": _function(features, images, 2, (2, 2), n_restarts=2, steps=10),
        "fit": _command(dense),
        "fit factors": _command(dense, "--components", "3", "--steps", "30"),
        "fit topics": _command(dense, "--kind", "topics", "--layers", "2", "--steps", "20"),
        "fit a number of topics": _command(dense, "--topics", "2", "--steps", "20"),
        "fit features": _command(images, "--components", "2", "--feature-shape", "2,2"),
    }


# ---- runs


class DifferenceError(Exception):
    """A run that was stopped has another result than an undisturbed run."""


def start(work: Work, folder: Path, trap: Trap) -> Outcome:
    """Run or continue the work until it is finished or the trap stops it."""
    with armed(trap), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work(folder, trap)


def stop(work: Work, folder: Path, trap: Trap) -> None:
    """Run the work until the trap stops it."""
    if trap.way == "kill":
        child = os.fork()
        if child == 0:
            try:
                start(work, folder, trap)
            except BaseException as error:  # nothing of the parent may run in the child
                print(f"in the process to be killed: {error!r}", file=sys.stderr)
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status not in (0, KILLED):
            raise DifferenceError(f"the work failed, exit code {status}")
        return
    with suppress(KeyboardInterrupt):
        found = start(work, folder, trap)
        if not np.isfinite(found.network.theta).all() or not np.isfinite(found.elbo).all():
            raise DifferenceError("the network at a time limit has values that are not finite")


def compare(found: Outcome, expected: Outcome) -> None:
    """Require the same bits of the network, the record and the settings."""
    for name in ("child_ptr", "parent", "param", "leak_param", "theta", "free"):
        one, other = getattr(found.network, name), getattr(expected.network, name)
        if one.tobytes() != other.tobytes():
            raise DifferenceError(f"{name} of the network differs: {one} instead of {other}")
    if np.asarray(found.elbo).tobytes() != np.asarray(expected.elbo).tobytes():
        raise DifferenceError("the record of the training differs")
    if found.record != expected.record:
        raise DifferenceError(f"{found.record} instead of {expected.record}")


class Runs:
    """All work, with the results of undisturbed runs, computed when first needed."""

    def __init__(self, names: list[str] | None = None) -> None:
        self.works = {k: w for k, w in works().items() if names is None or k in names}
        self._expected: dict[str, tuple[Outcome, int]] = {}

    def expected(self, name: str) -> tuple[Outcome, int]:
        """Return the result of an undisturbed run, and its number of ticks."""
        if name not in self._expected:
            with tempfile.TemporaryDirectory() as folder:
                trap = Trap()
                found = start(self.works[name], Path(folder), trap)
                self._expected[name] = found, trap.ticks
        return self._expected[name]

    def run(self, random: np.random.Generator) -> str:
        """Draw work and stops, compare the results, and return a description."""
        name = str(random.choice(list(self.works)))
        expected, ticks = self.expected(name)
        told = [name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            try:
                for _ in range(int(random.integers(1, MAX_STOPS + 1))):
                    way: Way = WAYS[int(random.integers(len(WAYS)))]
                    at = int(random.integers(1, max(2, ticks)))
                    if random.random() < 0.3:  # early in what is left
                        at = int(random.integers(1, 30))
                    told.append(f"{way} at {at}")
                    stop(self.works[name], path, Trap(way, at))
                compare(start(self.works[name], path, Trap()), expected)
            except Exception as error:
                raise DifferenceError(f"{', '.join(told)}: {error!r}") from error
        return ", ".join(told)


# ---- real signals


def run_with_signals(random: np.random.Generator) -> str:
    """Start ``noisyor fit`` in a process, stop it by signals, resume it, and compare."""
    code = "import sys; from noisyor.__main__ import main; sys.exit(main())"
    told: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        models = [Path(folder) / "alone.safetensors", Path(folder) / "model.safetensors"]
        np.save(Path(folder) / "table.npy", table(400).to_dense())
        for model in models:
            while not model.exists():
                line = ["fit", str(Path(folder) / "table.npy"), "--components", "3"]
                line += ["--steps", "20000", "--out", str(model), "--resume"]
                process = subprocess.Popen(
                    [sys.executable, "-c", code, *line, "--threads", "1", "--quiet"],
                    stderr=subprocess.PIPE,
                    text=True,
                )
                sent = signal.SIGKILL if random.random() < 0.3 else signal.SIGINT
                with suppress(subprocess.TimeoutExpired):
                    wait = random.uniform(1.5, 8) if model == models[1] and len(told) < 4 else None
                    process.wait(wait)
                if process.poll() is None:
                    told.append(f"{sent.name} after {wait:.1f} s")
                    process.send_signal(sent)
                errors = process.communicate()[1]
                expected = (0, 1) if process.returncode in (0, 1) else (130, -signal.SIGKILL)
                if process.returncode not in expected or "Traceback" in errors:
                    raise DifferenceError(
                        f"{', '.join(told)}: ended with {process.returncode}: {errors}"
                    )
        one, other = (nor.load_network(model).theta for model in models)
        if one.tobytes() != other.tobytes():
            raise DifferenceError(f"{', '.join(told)}: theta differs")
    return ", ".join(told)


def main() -> int:
    """Run the campaign; return 1 if a result differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=None, help="number of runs (default 100)")
    parser.add_argument("--seed", type=int, default=None, help="seed (default: a new one)")
    parser.add_argument("--first", type=int, default=0, help="index of the first run")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this many seconds")
    parser.add_argument(
        "--works", nargs="+", choices=list(works()), help="names of the work to run"
    )
    parser.add_argument("--processes", type=int, default=0, help="runs with real signals")
    parser.add_argument("--verbose", action="store_true", help="print each run")
    options = parser.parse_args()
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    seed = fresh if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    runs, most = Runs(options.works), options.runs
    if most is None:
        most = 100 if options.seconds is None else sys.maxsize
    ends = None if options.seconds is None else time.monotonic() + options.seconds
    done, failures = 0, 0
    for index in range(options.first, options.first + most):
        if ends is not None and time.monotonic() > ends:
            break
        try:
            told = runs.run(np.random.default_rng([seed, index]))
            if options.verbose:
                print(told, flush=True)
        except Exception as error:  # a crash is a failure like any other
            failures += 1
            some = "" if options.works is None else f" --works {' '.join(map(repr, options.works))}"
            print(f"FAILED: {error}")
            print(
                f"  again: python benchmarks/interruptions.py --seed {seed} --first {index} "
                f"--runs 1{some}",
                flush=True,
            )
        done += 1
    for index in range(options.processes):
        try:
            told = run_with_signals(np.random.default_rng([seed, 1, index]))
            if options.verbose:
                print(told, flush=True)
        except DifferenceError as error:
            failures += 1
            print(f"FAILED with real signals: {error}", flush=True)
        done += 1
    print(f"{done} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
