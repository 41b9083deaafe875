from .cover import cover_rows as cover_rows
from .factors import search_factors as search_factors
from .features import search_features as search_features
from .starts import start_from_counts as start_from_counts
