"""Data to learn from: one module per data set or family.

    from noisyor import datasets

    posts = datasets.load_tiny20()
    reviews = datasets.load_imdb()
    own = datasets.vectorize(datasets.load_documents("reports.csv", text_field="body"))

Files are taken from the folder that the environment variable ``NOISYOR_DATA`` names, else from the
cache, else downloaded into it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisyor.data.vocabulary import TextData, encode_documents, vectorize
    from noisyor.datasets.bmf import BmfData, generate_bmf
    from noisyor.datasets.deconvolution import (
        DeconvolutionData,
        DeconvolutionProblem,
        generate_deconvolution,
        load_deconvolution,
        true_features,
    )
    from noisyor.datasets.documents import iterate_documents, load_documents
    from noisyor.datasets.download import fetch
    from noisyor.datasets.hpo import HpoData, load_hpo
    from noisyor.datasets.matrices import MatrixData, load_plants, load_zoo
    from noisyor.datasets.overparam import OVPM_NAMES, OvpmData, load_ovpm
    from noisyor.datasets.text import (
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
    "OVPM_NAMES": "datasets.overparam",
    "BmfData": "datasets.bmf",
    "DeconvolutionData": "datasets.deconvolution",
    "DeconvolutionProblem": "datasets.deconvolution",
    "HpoData": "datasets.hpo",
    "MatrixData": "datasets.matrices",
    "OvpmData": "datasets.overparam",
    "TextData": "data.vocabulary",
    "Tiny20Data": "datasets.tiny20",
    "encode_documents": "data.vocabulary",
    "fetch": "datasets.download",
    "generate_bmf": "datasets.bmf",
    "generate_deconvolution": "datasets.deconvolution",
    "iterate_documents": "datasets.documents",
    "load_ag_news": "datasets.text",
    "load_ag_news_partial": "datasets.text",
    "load_arxiv_abstracts": "datasets.text",
    "load_big_patent": "datasets.text",
    "load_deconvolution": "datasets.deconvolution",
    "load_documents": "datasets.documents",
    "load_hpo": "datasets.hpo",
    "load_imdb": "datasets.text",
    "load_ovpm": "datasets.overparam",
    "load_plants": "datasets.matrices",
    "load_scientific_papers": "datasets.text",
    "load_tiny20": "datasets.tiny20",
    "load_yelp": "datasets.text",
    "load_zoo": "datasets.matrices",
    "true_features": "datasets.deconvolution",
    "vectorize": "data.vocabulary",
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
    "vectorize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noisyor.datasets' has no attribute {name!r}")
    value = getattr(import_module(f"noisyor.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
