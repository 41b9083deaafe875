"""Result files: one for every run, and one that holds a whole experiment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.atomic import write_atomically
from noisyor._util.json import to_json
from noisyor.errors import InvalidDataError, InvalidSettingError
from reproduction.protocol import MP_PHASE, Context, Outcome, RunSpec
from reproduction.provenance import environment

__all__ = [
    "RUN_FORMAT",
    "check_replaceable",
    "find_runs",
    "merge_runs",
    "read_run",
    "run_path",
    "run_record",
    "to_text",
    "with_mp_phase",
    "write_run",
]

RUN_FORMAT = "noisyor-run-2"
_IDENTITY = (
    *("experiment", "case", "method", "steps", "init"),
    *("noise", "tolerance", "damping", "seed"),
)
_REQUIRED = {
    **dict.fromkeys(("metrics", "seconds", "settings", "environment", "arrays"), dict),
    **dict.fromkeys(("experiment", "part", "case", "method", "init", "noise"), str),
    **dict.fromkeys(("steps", "seed"), int),
}
MAX_BYTES = 100_000
"""No run file is larger; arrays that would not fit are left out."""


def run_path(out: Path, spec: RunSpec) -> Path:
    """Where the record of a run is kept."""
    return out / "runs" / f"{spec.name}.json"


def run_record(spec: RunSpec, outcome: Outcome, context: Context, seconds: float) -> dict[str, Any]:
    """The record of a finished run."""
    updates = (
        outcome.update_seconds[1:] if len(outcome.update_seconds) > 1 else (outcome.update_seconds)
    )
    median = float(np.median(updates)) if len(updates) else None
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
            "update_median": median,
            **outcome.extra_seconds,
        },
        "environment": environment(context.engine.workers),
        "settings": outcome.settings,
        "arrays": outcome.arrays,
    }


def write_run(out: Path, spec: RunSpec, record: dict[str, Any]) -> None:
    """Write a run's record in one step."""
    content = to_text(record).encode()
    if len(content) > MAX_BYTES:
        content = to_text({**record, "arrays": {}}).encode()
    write_atomically(run_path(out, spec), content)


def read_run(path: Path) -> dict[str, Any]:
    """Read a run's record; an error names the file."""
    try:
        record = json.loads(path.read_bytes())
        if not isinstance(record, dict) or record.get("format") != RUN_FORMAT:
            raise InvalidDataError(f"{path} is not the record of a run")
        for key, kind in _REQUIRED.items():
            if not isinstance(record.get(key), kind):
                raise InvalidDataError(f"{path} is damaged: {key!r} is missing or strange")
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidDataError):
            raise
        raise InvalidDataError(f"{path} is damaged: {error}") from error
    return record


def check_replaceable(path: Path, experiment: str) -> None:
    """Refuse to replace a file that does not hold results of this experiment."""
    if not os.path.lexists(path):
        return
    if not path.is_file():
        raise InvalidSettingError(f"{path} is in the way: it is not a regular file")
    content = path.read_bytes()
    try:
        found = json.loads(content) if content else {"experiment": experiment}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("experiment") != experiment:
        raise InvalidSettingError(
            f"{path} exists and holds no results of {experiment}; remove it or choose another name"
        )


def find_runs(folder: Path, experiment: str | None = None) -> list[dict[str, Any]]:
    """Records of all runs in ``runs`` folders inside a folder, merged, in a fixed order."""
    if not folder.is_dir():
        raise InvalidDataError(f"{folder} is not a folder with results")
    paths = {path for path in folder.rglob("*.json") if path.parent.name == "runs"}
    records = [read_run(path) for path in sorted(paths)]
    if experiment is not None:
        records = [record for record in records if record["experiment"] == experiment]
    return merge_runs(records)


def merge_runs(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the validation bound of a run beside its test results.

    A validation run whose test run is missing stays on its own, with that one metric.
    """
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    ordered = sorted(records, key=lambda record: record["part"] != "test")
    for record in ordered:
        key = _key(record)
        if key not in merged:
            merged[key] = record
            continue
        whole = merged[key]
        if record["part"] == whole["part"]:
            raise InvalidDataError(f"two records of the same run: {', '.join(map(str, key))}")
        merged[key] = {
            **whole,
            "metrics": {**whole["metrics"], **record["metrics"]},
            "seconds": {**whole["seconds"], "validation_total": record["seconds"]["total"]},
        }
    return [merged[key] for key in sorted(merged, key=_natural)]


def with_mp_phase(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add max-product runs from the first phases of hybrid ones, where there are none of their own.

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
            "tolerance": None,  # that of a hybrid is of its second phase
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
    """Order in which 8 comes before 10, also inside names."""
    parts = [part for item in key for part in re.split(r"(\d+)", str(item))]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in _IDENTITY)


def to_text(value: Any) -> str:
    """Readable JSON that ends in an end of line; numbers that JSON does not have become null."""
    return to_json(value, indent=1) + "\n"
