"""noisyor: learn noisy-OR Bayesian networks from binary data, and explain data with them.

>>> import numpy as np
>>> import noisyor as nor
>>> X = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]] * 10)
>>> fit = nor.learn_factors(X, n_components=2, progress=False)
>>> nor.explain(fit.network, X[:4]).states.toarray().sum(axis=1)
array([1, 1, 2, 0])

What most people need is here; the rest is in the namespaces ``nor.baselines``, ``nor.data``,
``nor.datasets``, ``nor.distributed``, ``nor.engines``, ``nor.errors``, ``nor.estimators``,
``nor.explanation``, ``nor.inference``, ``nor.io``, ``nor.learning``, ``nor.metrics``,
``nor.model``, ``nor.report``, ``nor.search`` and ``nor.tables``. Names are listed once, in
``__init__.pyi``, and imported on first use.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import lazy_loader as lazy

from noisyor._version import __version__

_import, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
__all__ = [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use; the error for another name says where the name is."""
    try:
        return _import(name)
    except AttributeError:
        if not name.startswith("_"):
            for module in iter_modules(__path__, f"{__name__}."):
                namespace = module.name.partition(".")[2]
                if namespace in __all__ and name in import_module(module.name).__all__:
                    place = f"it is nor.{namespace}.{name}"
                    raise AttributeError(f"noisyor has no attribute {name!r}; {place}") from None
        raise
