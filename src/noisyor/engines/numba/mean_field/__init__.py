"""Mean-field inference, compiled."""

from noisyor.engines.numba.mean_field.entry import Prepared, gradient, infer
from noisyor.engines.numba.mean_field.rows import infer_blocks

__all__ = ["Prepared", "gradient", "infer", "infer_blocks"]
