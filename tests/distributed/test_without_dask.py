"""What there is without Dask."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_DASK = """
import sys
for name in ("dask", "distributed"):
    sys.modules[name] = None
import numpy as np
import noisyor as nor
from noisyor.cli import main  # the commands are there
network = nor.bipartite(n_visible=2, n_hidden=1)
assert nor.explain(network, np.eye(2), engine="numpy").n_rows == 2
nor.data.write_rows(sys.argv[1], [np.eye(2)])
for call in (
    lambda: nor.distributed.train(None, network, sys.argv[1]),
    lambda: nor.BooleanMatrixFactorization(2).fit(sys.argv[1], client=object()),
):
    try:
        call()
    except nor.errors.MissingExtraError as error:
        print(error)
"""


def test_everything_else_works_without_dask(tmp_path):
    command = [sys.executable, "-c", WITHOUT_DASK, str(tmp_path / "rows")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count('pip install ".[dask]"') == 2
