from .base import NoisyOrEstimator as NoisyOrEstimator
