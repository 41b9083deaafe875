"""Public names of the packages of data, which are imported on first use."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = ("noisyor.data", "noisyor.datasets", "noisyor.tables")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists(package):
    module = import_module(package)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert sorted(module.__all__) == sorted(dir(module))


def test_names_that_others_rely_on():
    from noisyor.data import RowSource, open_rows, vectorize, write_rows
    from noisyor.data.observations import Observations
    from noisyor.datasets import generate_bmf
    from noisyor.tables import FORMATS, ReadOptions, Table
    from noisyor.tables.table import read_table

    names = (
        Observations,
        RowSource,
        open_rows,
        vectorize,
        write_rows,
        generate_bmf,
    )
    assert all(map(callable, (*names, ReadOptions, Table, read_table)))
    assert "csv" in FORMATS


@pytest.mark.parametrize("package", PACKAGES)
def test_unknown_names(package):
    with pytest.raises(AttributeError, match="load_everything"):
        _ = import_module(package).load_everything


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_is_cheap(package):
    code = (
        f"import sys, {package}; "
        "print([m for m in ('numpy', 'scipy', 'pooch', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
