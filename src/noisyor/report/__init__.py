"""The HTML page about a model: what its causes are, how it explains data and how well it fits."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
