from __future__ import annotations

import subprocess
import sys

import pytest

from noisyor import datasets


def test_every_public_name_exists():
    for name in datasets.__all__:
        assert getattr(datasets, name) is not None
    assert sorted(datasets.__all__) == dir(datasets)
    assert set(datasets.__all__) == set(datasets._HOME)


def test_unknown_names():
    with pytest.raises(AttributeError, match="load_everything"):
        _ = datasets.load_everything


def test_importing_is_cheap():
    code = (
        "import sys; from noisyor import datasets; "
        "print([m for m in ('numpy', 'scipy', 'pooch', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
