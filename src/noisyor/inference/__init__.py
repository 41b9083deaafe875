"""Inference methods, and functions that answer questions about rows with a network."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
