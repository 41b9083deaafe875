"""Count the modules that `noisyor fit` and `noisyor explain` enter.

The script counts the modules in which a function is called, the distinct calls from one module into
another, and the pairs of modules that call each other. Imports and definitions do not count.

    python benchmarks/path_of_a_row.py --out results/path_of_a_row.json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np


class Calls:
    """Count calls between modules of the package while the context is active."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self.across: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        to = _module(frame)
        if to is None or frame.f_code.co_qualname.split(".")[-1] == "__getattr__":
            return
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back  # through the standard library, as with thread pools
        if _importing(frame):
            return
        self.entered[to] += 1
        origin = None if caller is None else _module(caller)
        if origin is not None and origin != to:
            self.across[origin, to] += 1

    def summary(self) -> dict[str, Any]:
        pairs = {tuple(sorted(pair)) for pair in self.across if pair[::-1] in self.across}
        return {
            "modules_entered": len(self.entered),
            "calls_between_modules": len(self.across),
            "two_way_pairs": sorted(" <-> ".join(pair) for pair in pairs),
            "modules": sorted(self.entered),
        }


def _module(frame: FrameType) -> str | None:
    name = frame.f_globals.get("__name__", "")
    return name if isinstance(name, str) and name.startswith("noisyor.") else None


def _importing(frame: FrameType) -> bool:
    """Return whether the stack contains the import of a module."""
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "<module>" and _module(frame) is not None:
            return True
    return False


def count(arguments: list[str]) -> dict[str, Any]:
    """Run a command, discard its output, and count the calls."""
    from noisyor.cli.main import main

    calls = Calls()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        threading.setprofile(calls)
        sys.setprofile(calls)
        try:
            code = main(arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    if code:
        raise SystemExit(f"noisyor {' '.join(arguments)} ended with code {code}")
    return calls.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ["NOISYOR_NUM_THREADS"] = "1"
    generator = np.random.default_rng(0)
    causes = generator.random((60, 3)) < 0.4
    rows = (causes @ (generator.random((3, 10)) < 0.4)).astype(int)
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        names = [f"c{column}" for column in range(10)]
        lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
        Path("x.csv").write_text("\n".join(lines) + "\n")
        fit = ["fit", "x.csv", "--components", "auto", "--out", "x.safetensors"]
        explain = ["explain", "x.safetensors", "--observe", "c1,c2"]
        count([*fit, "--force"])  # so that compilation and lazy imports are done with
        count(explain)
        for name, command in (("fit", [*fit, "--force"]), ("explain", explain)):
            found[name] = count(command)
            print(name, {key: value for key, value in found[name].items() if key != "modules"})
            print("   ", " ".join(found[name]["modules"]))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
