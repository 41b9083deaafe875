"""Data to learn from: one module per data set or family.

    from noisyor import datasets

    posts = datasets.load_tiny20()
    reviews = datasets.load_imdb()
    own = datasets.vectorise(datasets.load_documents("reports.csv", text_field="body"))

Files are taken from the folder that the environment variable ``NOISYOR_DATA`` names, else from the
cache, else downloaded into it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisyor.data.vocabulary import TextData, encode_documents, vectorise
    from noisyor.datasets.bmf import BmfData, generate_bmf
    from noisyor.datasets.deconvolution import (
        DeconvolutionData,
        DeconvolutionProblem,
        generate_deconvolution,
        load_deconvolution,
        true_features,
    )
    from noisyor.datasets.documents import iterate_documents, load_documents
    from noisyor.datasets.fetching import fetch
    from noisyor.datasets.hpo import HpoData, load_hpo
    from noisyor.datasets.matrices import MatrixData, load_plants, load_zoo
    from noisyor.datasets.ovpm import OVPM_NAMES, OvpmData, load_ovpm
    from noisyor.datasets.text_sources import (
        load_ag_news,
        load_ag_news_partial,
        load_arxiv_abstracts,
        load_big_patent,
        load_imdb,
        load_scientific_papers,
        load_yelp,
    )
    from noisyor.datasets.tiny20 import Tiny20Data, load_tiny20

_HOME = {
    "OVPM_NAMES": "ovpm",
    "BmfData": "bmf",
    "DeconvolutionData": "deconvolution",
    "DeconvolutionProblem": "deconvolution",
    "HpoData": "hpo",
    "MatrixData": "matrices",
    "OvpmData": "ovpm",
    "TextData": "vectoriser",
    "Tiny20Data": "tiny20",
    "encode_documents": "vectoriser",
    "fetch": "fetching",
    "generate_bmf": "bmf",
    "generate_deconvolution": "deconvolution",
    "iterate_documents": "documents",
    "load_ag_news": "text_sources",
    "load_ag_news_partial": "text_sources",
    "load_arxiv_abstracts": "text_sources",
    "load_big_patent": "text_sources",
    "load_deconvolution": "deconvolution",
    "load_documents": "documents",
    "load_hpo": "hpo",
    "load_imdb": "text_sources",
    "load_ovpm": "ovpm",
    "load_plants": "matrices",
    "load_scientific_papers": "text_sources",
    "load_tiny20": "tiny20",
    "load_yelp": "text_sources",
    "load_zoo": "matrices",
    "true_features": "deconvolution",
    "vectorise": "vectoriser",
}

__all__ = [
    "OVPM_NAMES",
    "BmfData",
    "DeconvolutionData",
    "DeconvolutionProblem",
    "HpoData",
    "MatrixData",
    "OvpmData",
    "TextData",
    "Tiny20Data",
    "encode_documents",
    "fetch",
    "generate_bmf",
    "generate_deconvolution",
    "iterate_documents",
    "load_ag_news",
    "load_ag_news_partial",
    "load_arxiv_abstracts",
    "load_big_patent",
    "load_deconvolution",
    "load_documents",
    "load_hpo",
    "load_imdb",
    "load_ovpm",
    "load_plants",
    "load_scientific_papers",
    "load_tiny20",
    "load_yelp",
    "load_zoo",
    "true_features",
    "vectorise",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noisyor.datasets' has no attribute {name!r}")
    value = getattr(import_module(f"noisyor.datasets.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
