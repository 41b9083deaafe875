"""Mean-field inference, compiled."""

from noisyor.engines.numba.mean_field.entry import Prepared, gradient, infer

__all__ = ["Prepared", "gradient", "infer"]
