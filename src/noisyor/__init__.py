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

import lazy_loader as lazy

from noisyor._version import __version__

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
__all__ = [*__all__, "__version__"]
