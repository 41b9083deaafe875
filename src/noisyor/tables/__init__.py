"""Read users' files as `Observations` with names of columns and rows.

The public names are listed in ``__init__.pyi`` and imported on first use.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
