"""scikit-learn estimators: check input, call a recipe of `noisyor.learning`, store its result."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
