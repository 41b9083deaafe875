"""scikit-learn estimators: checked input, a recipe of `noisyor.learning`, what it found."""

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
