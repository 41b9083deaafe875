"""scikit-learn estimators: checked input, a recipe of `noisyor.learning`, what it found."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
