"""What ``import noisyor`` offers."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import noisyor


def test_every_public_name_exists_and_is_no_module():
    for name in noisyor.__all__:
        assert not isinstance(getattr(noisyor, name), ModuleType), name


def test_no_public_name_is_hidden_by_a_module_of_the_same_name():
    # Importing a submodule puts it where the public name would be looked up.
    folder = Path(noisyor.__file__).parent
    modules = {path.stem for path in folder.iterdir()}
    assert not modules & set(noisyor.__all__)


def test_names_are_listed_once_and_in_order():
    names = [name for name in noisyor.__all__ if name != "__version__"]
    assert sorted(names) == sorted(set(names)) == sorted(noisyor._HOME)
    for name, home in noisyor._HOME.items():
        assert hasattr(import_module(f"noisyor.{home}"), name)


def test_importing_costs_next_to_nothing():
    code = "import sys, noisyor; print('numpy' in sys.modules, 'numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["False", "False"]
