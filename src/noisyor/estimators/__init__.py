"""scikit-learn estimators: checked input, a recipe of `noisyor.learning`, what it found."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
