"""noisyor: learn noisy-OR Bayesian networks from binary data, and explain data with them."""

from noisyor._version import __version__

__all__ = ["__version__"]
