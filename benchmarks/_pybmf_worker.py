"""GreConD or MEBF of PyBMF, for `real_matrices.py`; runs in an environment that has PyBMF.

    python _pybmf_worker.py METHOD K IN.npz OUT.npz

The script reads the binary matrix ``X`` (rows, columns) and writes ``factors`` (at most K,
columns), the version of PyBMF, and the CPU seconds of the fit without imports.
"""

import contextlib
import io
import sys
import time
from importlib.metadata import version

import numpy as np
from PyBMF.models import MEBF, GreConD

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def fit(model, X):
    """Return the factors and the number of wrong entries of the training rows."""
    quiet = {"show_logs": False, "save_model": False, "show_result": False}
    model.fit(X.astype(float), task="reconstruction", **quiet)
    U, V = model.U.toarray() > 0, model.V.toarray() > 0
    return V.T, int(((U.astype(int) @ V.T.astype(int) > 0) != (X > 0)).sum())


def main():
    method, k, source, target = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    with np.load(source) as archive:
        X = archive["X"]
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):  # it reports every factor
        if method == "GreConD":
            factors, _ = fit(GreConD(k=k), X)
        else:  # the threshold has no default: the one with fewest errors on the training rows
            found = [fit(MEBF(k=k, t=threshold), X) for threshold in THRESHOLDS]
            factors, _ = min(found, key=lambda pair: pair[1])
    np.savez(
        target,
        factors=factors.astype(np.uint8),
        cpu_s=time.process_time() - began,
        version=version("PyBMF"),
    )


if __name__ == "__main__":
    main()
