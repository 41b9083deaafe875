"""The HTML report of a model: its causes, explanations of data, and quality of the fit."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
