"""Explain a row: rank its causes, attribute findings to them, ask what if and what to ask next."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
