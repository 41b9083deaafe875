"""Write the frozen outputs anew: ``python tests/golden/freeze.py``, or only those of named calls.

Do so only for a change that is meant to change results, and say in the commit which and why. There
is one file for each kind of processor. Calls whose outputs changed leave the other files, because
they can only be frozen there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import scipy.linalg  # noqa: F401  (loads the second BLAS, which the signature names)
import threadpoolctl
from golden_calls import CALLS

FOLDER = Path(__file__).with_name("frozen")
N_SHOWN = 6


def describe(value: Any) -> dict[str, Any]:
    """Reduce an array to its digest, type and shape, with the first values for diagnosis."""
    array = np.ascontiguousarray(value)
    shown = array.ravel()[:N_SHOWN].tolist()
    return {
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "first": [str(one) for one in shown],
    }


def outputs_of(name: str) -> dict[str, dict[str, Any]]:
    """Run a call and describe each of its outputs."""
    return {output: describe(value) for output, value in CALLS[name]().items()}


def signature() -> dict[str, str]:
    """Describe what decides about the last bits: processor, libraries and their versions."""
    features = sorted(name for name, is_on in llvm.get_host_cpu_features().items() if is_on)
    libraries = {
        f"{one['internal_api']} {one['version']} {one.get('architecture', '')}".strip()
        for one in threadpoolctl.threadpool_info()
        if one["user_api"] == "blas"
    }
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": llvm.get_host_cpu_name(),
        "features": hashlib.sha256(" ".join(features).encode()).hexdigest()[:16],
        "libc": " ".join(platform.libc_ver()),
        "blas": ", ".join(sorted(libraries)),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "llvmlite", "scikit-learn")},
    }


def files() -> dict[Path, dict[str, Any]]:
    """Read the frozen outputs of all kinds of processors."""
    return {file: json.loads(file.read_text("utf-8")) for file in sorted(FOLDER.glob("*.json"))}


def write(file: Path, signature: dict[str, str], frozen: dict[str, Any]) -> None:
    """Write the frozen outputs of one kind of processor, in the order of the calls."""
    calls = {name: frozen[name] for name in CALLS if name in frozen}
    text = json.dumps({"signature": signature, "calls": calls}, indent=1)
    file.write_text(text + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="calls to freeze; default all")
    parser.add_argument("--times", action="store_true", help="print CPU seconds of each call")
    arguments = parser.parse_args()
    here, known = signature(), files()
    own = FOLDER / f"{here['processor']}.json"
    before = known.pop(own, {"signature": here, "calls": {}})
    if arguments.names and before["signature"] != here:
        parser.error("other libraries than in the file: freeze all calls, or none")
    frozen, changed = dict(before["calls"]), set()
    for name in arguments.names or list(CALLS):
        began = time.process_time()
        frozen[name] = outputs_of(name)
        if before["calls"].get(name, frozen[name]) != frozen[name]:
            changed.add(name)
        if arguments.times:
            print(f"{time.process_time() - began:8.2f} s  {name}", flush=True)
    write(own, here, frozen)
    if before["signature"] == here:
        for file, other in known.items():
            kept = {name: one for name, one in other["calls"].items() if name not in changed}
            write(file, other["signature"], kept)
    print("changed:", ", ".join(sorted(changed)) or "nothing")


if __name__ == "__main__":
    main()
