from .count_start import start_from_counts
from .factor_start import is_determined_by_counts, start_from_factors, start_from_features
from .factors import FoundFactors, search_factors
from .features import FoundFeatures, search_features
from .memberships import cover_rows

__all__ = [
    "FoundFactors",
    "FoundFeatures",
    "cover_rows",
    "is_determined_by_counts",
    "search_factors",
    "search_features",
    "start_from_counts",
    "start_from_factors",
    "start_from_features",
]
