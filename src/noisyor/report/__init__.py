"""The HTML page about a model: what its causes are, how it explains data and how well it fits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
