"""Load the paper's data sets and a few more for the benchmarks: one module per family.

Files are taken from the folder that the environment variable ``NOISYOR_DATA`` names, else from the
cache, else downloaded into the cache.
"""

from reproduction.datasets.download import data_folder, fetch
from reproduction.datasets.tables import (
    OVPM_NAMES,
    DeconvolutionProblem,
    OvpmData,
    Tiny20Data,
    load_deconvolution,
    load_ovpm,
    load_tiny20,
)
from reproduction.datasets.text import (
    load_ag_news,
    load_ag_news_union,
    load_arxiv_years,
    load_big_patent,
    load_imdb,
    load_scientific_papers,
    load_yelp,
)

__all__ = [
    "OVPM_NAMES",
    "DeconvolutionProblem",
    "OvpmData",
    "Tiny20Data",
    "data_folder",
    "fetch",
    "load_ag_news",
    "load_ag_news_union",
    "load_arxiv_years",
    "load_big_patent",
    "load_deconvolution",
    "load_imdb",
    "load_ovpm",
    "load_scientific_papers",
    "load_tiny20",
    "load_yelp",
]
