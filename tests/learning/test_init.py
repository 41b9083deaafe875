"""Names that the packages offer: each is there, and none is hidden by a module of the same name."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PACKAGES = ["noisyor.learning", "noisyor.search", "noisyor.estimators"]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_there_and_is_no_module(name):
    package = import_module(name)
    modules = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    assert package.__all__ == sorted(package.__all__)
    assert not modules & set(package.__all__)
    for public in package.__all__:
        assert not isinstance(getattr(package, public), ModuleType), public
