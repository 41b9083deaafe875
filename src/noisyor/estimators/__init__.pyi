from .imputer import NoisyOrImputer as NoisyOrImputer
