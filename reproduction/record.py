"""The record of all runs: a table that only grows, and the arrays that the figures need.

A folder with a record holds

* ``runs.jsonl``, one line per finished run: a JSON object with sorted keys that states what made
  the run (settings, versions, commit, machine), its metrics and its times;
* ``arrays/EXPERIMENT.npz``, the arrays of the runs. An array is stored under the first digits of
  the SHA-256 of its content, once however many runs share it, and the line of a run names the
  digests of its arrays;
* ``MANIFEST.sha256``, checksums of the first n lines of the table for growing n, and of the files
  in ``archive/``. Appending keeps them valid; editing or removing a line does not.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import subprocess  # nosec B404  git is asked for the commit
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import noisyor
from noisyor._util.files import plain, take_lock, write_atomically
from noisyor._version import __version__
from noisyor.errors import InvalidDataError
from reproduction.protocol import MP_PHASE, Context, Outcome, RunSpec

__all__ = ["FOLDER", "Record", "Run", "compact", "environment", "merge_runs", "run_record"]

FOLDER = Path(__file__).resolve().parent
"""The folder with the record of this repository."""

Run = dict[str, Any]
"""A line of the table as Python values. ``arrays`` is a mapping from names to arrays."""

RUN_FORMAT = "noisyor-run-2"
MAX_BYTES = 1_000_000
"""Arrays of a run that take more than this in total are left out of the record."""

_DIGITS = 16
_IDENTITY = (
    *("experiment", "case", "method", "steps", "init"),
    *("noise", "tolerance", "damping", "seed"),
)
_REQUIRED: dict[str, type] = {
    **dict.fromkeys(("metrics", "seconds", "settings", "environment", "arrays"), dict),
    **dict.fromkeys(("experiment", "part", "case", "method", "init", "noise"), str),
    **dict.fromkeys(("steps", "seed"), int),
}


# ---- one run


def run_record(spec: RunSpec, outcome: Outcome, context: Context, seconds: float) -> Run:
    """Describe a finished run: its specification, results, times, settings and environment."""
    # The first update may include compilation.
    updates = (
        outcome.update_seconds[1:] if len(outcome.update_seconds) > 1 else (outcome.update_seconds)
    )
    return {
        "format": RUN_FORMAT,
        "experiment": spec.experiment,
        "part": spec.part,
        "case": spec.case,
        "steps": spec.steps,
        "seed": spec.seed,
        "init": spec.init,
        "noise": spec.noise,
        "tolerance": spec.tolerance,
        "damping": spec.damping,
        "method": spec.method,
        "metrics": {name: float(value) for name, value in outcome.metrics.items()},
        "seconds": {
            "total": seconds + outcome.earlier_seconds,
            "update_median": float(np.median(updates)) if len(updates) else None,
            **outcome.extra_seconds,
        },
        "environment": environment(context.engine.workers),
        "settings": outcome.settings,
        "arrays": outcome.arrays,
    }


def environment(n_threads: int) -> dict[str, Any]:
    """Describe what a result or its time depends on: versions, machine, commit and date."""
    return {
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": np.__version__,
        "noisyor": __version__,
        "commit": commit_of(FOLDER.parent),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "threads": n_threads,
    }


@lru_cache(maxsize=1)
def commit_of(root: Path) -> str | None:
    """Return the commit of a clone, with a + if its code has changed since.

    None where noisyor is not imported from the clone, or the folder is not one.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        result = subprocess.run(  # nosec B603  fixed arguments, no shell
            command, capture_output=True, text=True, check=True
        )
        return result.stdout.strip()

    package = Path(noisyor.__file__).resolve().parent
    try:
        git("ls-files", "--error-unmatch", str(package / "__init__.py"))
        code = (str(package), "reproduction/*.py")  # a run itself changes the record
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


@lru_cache(maxsize=1)
def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not on every system
        pass
    return platform.processor() or platform.machine()


# ---- arrays


def compact(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert an array to a small dtype: bool, uint16, text, or else float16."""
    array = np.asarray(values)
    if array.dtype.kind == "U":
        return array
    if bool(((array == 0) | (array == 1)).all()):
        return array.astype(np.bool_)
    if array.dtype.kind in "iu" and array.min() >= 0 and array.max() < 2**16:
        return array.astype(np.uint16)
    return array.astype(np.float16)


class StoredArrays(Mapping[str, Any]):
    """The arrays of a run, read when they are asked for.

    Arrays of 0 and 1 are uint8, whole numbers int64, others float64; text is a list.
    """

    def __init__(self, path: Path, digests: Mapping[str, str]) -> None:
        self._path, self._digests = path, digests

    def __getitem__(self, name: str) -> Any:
        digest = self._digests[name]
        try:
            content = _open(self._path, self._path.stat().st_mtime_ns).read(f"{digest}.npy")
            array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise InvalidDataError(
                f"{self._path}: array {digest} cannot be read: {error}"
            ) from error
        if array.dtype.kind == "U":
            return array.tolist()
        return array.astype({"b": np.uint8, "u": np.int64}.get(array.dtype.kind, np.float64))

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)


@lru_cache(maxsize=8)
def _open(path: Path, changed: int) -> zipfile.ZipFile:
    """Open an archive of arrays in memory; ``changed`` is the time of its last change."""
    return zipfile.ZipFile(io.BytesIO(path.read_bytes()))


# ---- the table


class Record:
    """The record in a folder, which need not exist before the first run is appended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "runs.jsonl"
        self.manifest = folder / "MANIFEST.sha256"

    def append(self, run: Run) -> None:
        """Add a finished run. Several processes may append to one record at the same time.

        Arrays come first and the manifest last, each file replaced in one step: a process that is
        killed in between leaves a valid record.
        """
        arrays = {name: compact(values) for name, values in run["arrays"].items()}
        if sum(array.nbytes for array in arrays.values()) > MAX_BYTES:
            arrays = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            digests = self._store(run["experiment"], arrays)
            line = json.dumps(plain({**run, "arrays": digests}), sort_keys=True, ensure_ascii=False)
            table = _content(self.table) + line.encode() + b"\n"
            write_atomically(self.table, table)
            n_lines = len(table.splitlines())
            entry = f"{hashlib.sha256(table).hexdigest()}  {self.table.name}:{n_lines}\n"
            write_atomically(self.manifest, _content(self.manifest) + entry.encode())

    def lines(self) -> list[Run]:
        """Read all runs in the order of the table; a fault is reported with its line."""
        if not self.folder.is_dir():
            raise InvalidDataError(f"{self.folder} is not a folder with a record of runs")
        runs = []
        for number, line in enumerate(_content(self.table).splitlines(), 1):
            where = f"{self.table}, line {number}"
            try:
                run = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidDataError(f"{where}: not JSON ({error})") from error
            if not isinstance(run, dict) or run.get("format") != RUN_FORMAT:
                raise InvalidDataError(f"{where}: not a run of the format {RUN_FORMAT}")
            for key, kind in _REQUIRED.items():
                if not isinstance(run.get(key), kind):
                    raise InvalidDataError(f"{where}: {key!r} is missing or no {kind.__name__}")
            run["arrays"] = StoredArrays(self._archive(run["experiment"]), run["arrays"])
            runs.append(run)
        return runs

    def runs(self, experiment: str | None = None) -> list[Run]:
        """Read the runs of one experiment, or all, as `merge_runs` returns them."""
        lines = self.lines()
        return merge_runs(run for run in lines if experiment in (None, run["experiment"]))

    def faults(self) -> list[str]:
        """Compare the record with its checksums; each fault found is one sentence."""
        found = []
        lines = _content(self.table).splitlines(keepends=True)
        covered = 0
        for entry in _content(self.manifest).decode().splitlines():
            digest, name = entry.split("  ", 1)
            file, _, count = name.partition(":")
            if count:
                covered = int(count)
                content = b"".join(lines[:covered])
                fault = f"one of the first {covered} lines of {file} was edited or removed"
            else:
                content = _content(self.folder / file)
                fault = f"{file} was edited or removed"
            if hashlib.sha256(content).hexdigest() != digest:
                found.append(fault)
        if covered < len(lines):
            found.append(f"lines after line {covered} have no checksum")
        for run in map(json.loads, lines):
            path = self._archive(run["experiment"])
            for name, digest in run["arrays"].items():
                content = _open(path, path.stat().st_mtime_ns).read(f"{digest}.npy")
                if _digest(content) != digest:
                    found.append(f"{path.name}: array {name} with digest {digest} has changed")
        return found

    def _archive(self, experiment: str) -> Path:
        return self.folder / "arrays" / f"{experiment}.npz"

    def _store(self, experiment: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, str]:
        """Add the arrays that the archive does not hold yet; returns the digests of all."""
        path = self._archive(experiment)
        content = io.BytesIO(_content(path))
        digests = {}
        with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
            known = set(archive.namelist())
            for name, array in arrays.items():
                stream = io.BytesIO()
                np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
                digests[name] = _digest(stream.getvalue())
                entry = zipfile.ZipInfo(f"{digests[name]}.npy")  # dated 1980: the same bytes again
                entry.compress_type = zipfile.ZIP_DEFLATED
                if entry.filename not in known:
                    known.add(entry.filename)
                    archive.writestr(entry, stream.getvalue())
        if digests:
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, content.getvalue())
        return digests

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait until no other process appends."""
        with (self.folder / ".runs.lock").open("ab") as stream:
            while take_lock(stream.fileno()) is False:
                time.sleep(0.02)
            yield


def _content(path: Path) -> bytes:
    """Return the content of a file, empty if the file does not exist."""
    return path.read_bytes() if path.exists() else b""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


# ---- runs side by side


def merge_runs(records: Iterable[Run]) -> list[Run]:
    """Put the validation bound of a run beside its test results, in a fixed order of runs.

    A run that was repeated counts once, as it was recorded last. A validation run whose test run
    is missing stays on its own, with that one metric.
    """
    parts: dict[str, dict[tuple[Any, ...], Run]] = {"test": {}, "validation": {}}
    for record in records:
        parts[record["part"]][_key(record)] = record
    merged = parts["validation"] | parts["test"]
    for key in set(parts["validation"]) & set(parts["test"]):
        test, validation = parts["test"][key], parts["validation"][key]
        merged[key] = {
            **test,
            "metrics": {**test["metrics"], **validation["metrics"]},
            "seconds": {**test["seconds"], "validation_total": validation["seconds"]["total"]},
        }
    return [merged[key] for key in sorted(merged, key=_natural)]


def with_mp_phase(runs: Sequence[Run]) -> list[Run]:
    """Add max-product runs from the first phases of hybrid runs, where there are no others.

    The first phase of a hybrid run is a max-product run to the bit.
    """
    own = {_key(run) for run in runs}
    result = list(runs)
    for run in runs:
        steps = run["metrics"].get(MP_PHASE + "steps")
        if run["part"] != "test" or steps is None:
            continue
        found = {
            name.removeprefix(MP_PHASE): value
            for name, value in run["metrics"].items()
            if name.startswith(MP_PHASE) and name != MP_PHASE + "steps"
        }
        kept = {name: run["metrics"][name] for name in run["metrics"] if name.startswith("trivial")}
        first = {
            **run,
            "method": run["method"].replace("hybrid", "mp", 1),
            "steps": int(steps),
            "tolerance": None,  # the tolerance of a hybrid is that of its second phase
            "settings": {name: run["settings"][name] for name in ("protocol", "mp")},
            "metrics": {**found, **kept},
            "seconds": {"total": 0.0, "update_median": run["seconds"].get("update_median_mp")},
            "arrays": {},
        }
        if _key(first) not in own:
            own.add(_key(first))
            result.append(first)
    return sorted(result, key=lambda run: _natural(_key(run)))


def _natural(key: tuple[Any, ...]) -> list[Any]:
    """Sort key by which 8 comes before 10, also inside names."""
    parts = [part for item in key for part in re.split(r"(\d+)", str(item))]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _key(run: Run) -> tuple[Any, ...]:
    return tuple(run[name] for name in _IDENTITY)


def is_recorded(spec: RunSpec, known: set[tuple[Any, ...]]) -> bool:
    """Return whether a run is among those of `recorded`."""
    return (spec.part, *(getattr(spec, name) for name in _IDENTITY)) in known


def recorded(runs: Iterable[Run]) -> set[tuple[Any, ...]]:
    """Return the identities of runs, for `is_recorded`."""
    return {(run["part"], *_key(run)) for run in runs}
