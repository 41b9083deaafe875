"""Run the functions of the library on the workers of a Dask cluster; the client comes first.

``pip install ".[dask]"`` in a clone installs Dask. Workers read their chunks of rows themselves,
and results have the same bits as on one machine: see docs/scale.md.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
