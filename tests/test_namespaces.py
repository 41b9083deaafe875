"""Namespaces list what exists, once, and nothing that a submodule would hide."""

import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

NAMESPACES = ("diagnosis", "io", "network", "report")


@pytest.mark.parametrize("name", NAMESPACES)
def test_every_listed_name_is_there(name):
    package = import_module(f"noisyor.{name}")
    assert len(package.__all__) == len(set(package.__all__)) > 0
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not submodules & set(package.__all__)
    for public in package.__all__:
        assert not isinstance(getattr(package, public), ModuleType), public
