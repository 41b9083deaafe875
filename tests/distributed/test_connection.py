"""What there is without Dask, and how a cluster is named."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from noisyor.distributed import connect
from noisyor.errors import ClusterError, InvalidSettingError

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
    lambda: nor.distributed.connect("local:2"),
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
    assert result.stdout.count('pip install ".[dask]"') == 3


@pytest.mark.parametrize("where", ["", "local:", "local:0", "tcp:/x", "10.0.0.1:8786"])
def test_a_name_that_is_none_is_refused(where):
    with pytest.raises(InvalidSettingError, match="local:N"):
        connect(where)


def test_a_scheduler_that_is_not_there_is_named():
    with pytest.raises(ClusterError, match=r"tcp://127.0.0.1:9"):
        connect("tcp://127.0.0.1:9", timeout=0.5)


@pytest.mark.long
def test_workers_that_are_started_here_do_not_see_ctrl_c():
    with connect("local:1") as client:
        (blocked,) = client.run(signal.pthread_sigmask, signal.SIG_BLOCK, []).values()
    assert signal.SIGINT in blocked
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
