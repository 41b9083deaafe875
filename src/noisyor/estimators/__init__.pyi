from .base import NoisyOrEstimator
from .models import (
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
