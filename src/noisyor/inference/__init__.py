"""How to infer the hidden causes of rows, and all that can be asked of a network."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
