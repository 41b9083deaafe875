"""Search: causes found in the data, and starting parameters from them or from counts."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
