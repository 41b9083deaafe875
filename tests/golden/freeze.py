"""Write the frozen outputs anew: ``python tests/golden/freeze.py``, or only those of named calls.

Do so only for a change that is meant to change results, and say in the commit which and why.
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

FILE = Path(__file__).with_name("golden.json")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="calls to freeze; default all")
    parser.add_argument("--times", action="store_true", help="print CPU seconds of each call")
    arguments = parser.parse_args()
    names = arguments.names or list(CALLS)
    frozen: dict[str, Any] = {}
    if arguments.names:
        before = json.loads(FILE.read_text("utf-8"))
        if before["signature"] != signature():
            parser.error("the file is from another platform: freeze all calls, or none")
        frozen = before["calls"]
    for name in names:
        began = time.process_time()
        frozen[name] = outputs_of(name)
        if arguments.times:
            print(f"{time.process_time() - began:8.2f} s  {name}", flush=True)
    calls = {name: frozen[name] for name in CALLS}
    text = json.dumps({"signature": signature(), "calls": calls}, indent=1)
    FILE.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
