"""scikit-learn estimators: they check input, call `noisyor.learning.recipes` and keep what it found."""

from noisyor.estimators.base import NoisyOrEstimator
from noisyor.estimators.models import (
    BlindDeconvolution,
    BooleanMatrixFactorization,
    NoisyOrNetwork,
    TopicModel,
)

__all__ = [
    "BlindDeconvolution",
    "BooleanMatrixFactorization",
    "NoisyOrEstimator",
    "NoisyOrNetwork",
    "TopicModel",
]
