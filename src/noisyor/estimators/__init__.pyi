from .base import NoisyOrEstimator as NoisyOrEstimator
from .imputer import NoisyOrImputer as NoisyOrImputer
from .stability import Stability as Stability
