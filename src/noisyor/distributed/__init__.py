"""Many machines: the functions of the library on the workers of a Dask cluster, client first.

``pip install ".[dask]"`` in a clone brings Dask. Workers read their chunks of rows themselves,
tasks have no side effect but their result, and results have the bits of one machine: see
docs/scale.md.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
