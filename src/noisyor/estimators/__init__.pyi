from .imputer import NoisyOrImputer as NoisyOrImputer
from .stability import Stability as Stability
