"""The files that the data sets are read from: name, public address, checksum.

A checksum is that of the unpacked content where a copy may also be kept compressed (``name.xz``).
Files without an address are collections or repackagings that exist as local copies only.
"""

from __future__ import annotations

from dataclasses import dataclass

from noisyor.errors import InvalidSettingError

__all__ = ["FILES", "DataFile", "data_file"]


@dataclass(frozen=True)
class DataFile:
    """One file that a loader reads.

    Attributes
    ----------
    name : path of the file inside the folder of data, and its key in `FILES`.
    sha256 : of its content; None if no published value is known. Then the value at the first
        download is recorded beside the file, and later reads are held to it.
    url : where the file itself can be downloaded; None if nowhere.
    origin : a public page about the data.
    """

    name: str
    sha256: str | None
    url: str | None
    origin: str


_IMDB = "https://ai.stanford.edu/~amaas/data/sentiment/"
_AG_NEWS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
_BIG_PATENT = "https://huggingface.co/datasets/NortheasternUniversity/big_patent/resolve/main/data/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_OVPM_PAGE = "https://github.com/clinicalml/overparam/tree/master/noisyor/datasets"
_OVPM_FILES = "https://raw.githubusercontent.com/clinicalml/overparam/30acfacf7baba6dc6d748e48702c958088f3e988/"

_COLUMN_GENERATION = "https://github.com/kovacsrekaagnes/rank_k_Binary_Matrix_Factorisation"
_COLUMN_GENERATION_FILES = (
    "https://raw.githubusercontent.com/kovacsrekaagnes/rank_k_Binary_Matrix_Factorisation/"
    "cfeac2d3517ff5500572e6d6683f1b7faf63408a/data/"
)

_LIST = [
    # ---- tiny20
    DataFile(
        "20news_w100.mat",
        "6667c5459e22eb544a854bff1443edaaea71735cf1af7b12cc5d986e74af7064",
        "https://cs.nyu.edu/~roweis/data/20news_w100.mat",
        "https://cs.nyu.edu/~roweis/data.html",
    ),
    # ---- text: the originals
    DataFile(
        "aclImdb_v1.tar.gz",
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        _IMDB + "aclImdb_v1.tar.gz",
        _IMDB,
    ),
    DataFile(
        "ag_news_train.csv",
        "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
        _AG_NEWS + "train.csv",
        "https://arxiv.org/abs/1509.01626",
    ),
    DataFile(
        "ag_news_test.csv",
        "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
        _AG_NEWS + "test.csv",
        "https://arxiv.org/abs/1509.01626",
    ),
    DataFile(
        "yelp_review_polarity_csv.tgz",
        "528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35",
        "https://s3.amazonaws.com/fast-ai-nlp/yelp_review_polarity_csv.tgz",
        "https://arxiv.org/abs/1509.01626",
    ),
    DataFile(
        "arxiv-dataset.zip",
        "82ed30dd7c66a6497eeb3d7c3090c274e9e32c012438f8e0bb3cce3e6c1fcada",
        "https://archive.org/download/armancohan-long-summarization-paper-code/arxiv-dataset.zip",
        "https://github.com/armancohan/long-summarization",
    ),
    # The authors' own archive is handed out through a form that a program cannot pass. These hold
    # the same files, one archive per split; no checksum of them is published.
    DataFile(
        "big_patent_train.zip",
        None,
        _BIG_PATENT + "2.1.2/train.zip",
        "https://evasharma.github.io/bigpatent/",
    ),
    DataFile(
        "big_patent_test.zip",
        None,
        _BIG_PATENT + "2.1.2/test.zip",
        "https://evasharma.github.io/bigpatent/",
    ),
    # ---- text: repackaged or partial
    DataFile(
        "imdb_reviews_train.jsonl.xz",
        "73316bef7c1f7e6f5a313657c6ee7104eb6a3eb495ad10c24bd34a6d1af89db4",
        None,
        _IMDB,
    ),
    DataFile(
        "imdb_reviews_test.jsonl.xz",
        "72f4dc2754792a26ad036bdb47bd003da9401ebadda03708f959dc8e40090fb5",
        None,
        _IMDB,
    ),
    DataFile(
        "ag_news_train_partial.jsonl.xz",
        "9fcde1e71ba9c91694d0c31d77b04cd53e2b709f11c6d372f63912f511b96829",
        None,
        "https://arxiv.org/abs/1509.01626",
    ),
    DataFile(
        "arxiv_abstracts.jsonl.xz",
        "68f4ac5e68ea7e72d7b8aeccb50f013910d1d89a6fd2281ce8c8eae88334bf4e",
        None,
        "https://github.com/dw-dengwei/daily-arXiv-ai-enhanced",
    ),
    # ---- blind deconvolution
    DataFile(
        "conv_problem.npz",
        "8f2674a268c58b30faed29961a720cce5c2b728d95767e34fb2b487255e9eea6",
        "https://raw.githubusercontent.com/deepmind/PGMax/main/examples/example_data/conv_problem.npz",
        "https://github.com/google-deepmind/PGMax",
    ),
    # ---- real matrices
    DataFile(
        "bmf_plants.npz",
        "ca0b38db39230ef125388520b4fc4bcec7ce3373c1cbcaf0b93b5a114a16c0ad",
        None,
        "https://archive.ics.uci.edu/dataset/180/plants",
    ),
    DataFile(
        "plants.data",
        None,  # no published value
        _UCI + "plants/plants.data",
        "https://archive.ics.uci.edu/dataset/180/plants",
    ),
    DataFile(
        "bmf_zoo.npz",
        "fbe9fe09a7a4e302b51f3be84beda52ba705be24557efc484b99488bb3159b37",
        None,
        "https://archive.ics.uci.edu/dataset/111/zoo",
    ),
    DataFile(
        "zoo.data",
        "cddc71c26ab9bc82795b8f4ff114cade41885d92720c6af29ffb69bcf73f0315",
        _UCI + "zoo/zoo.data",
        "https://archive.ics.uci.edu/dataset/111/zoo",
    ),
    # ---- overparametrisation
    DataFile(
        "overparam_noisyor_datasets_raw.tar.xz",
        "1e77cef69927b3bfeb473058819e7f45e8d165d97f056640e1b110792594ee55",
        None,
        _OVPM_PAGE,
    ),
]

_OVPM_ARCHIVES = {
    "IMG": "397029155a25bbb2a6a576f2c3b8c1ec740e242328d8cba529c470554256bd61",
    "PLNT": "20bb084a0c9b6bfd0af7a284d022eaa76b7043d4410fa77119487701fda68064",
    "UNIF": "87355e00b25c6b4ee7900e5d11fbee4219f10d526e00512b0f607a898e0c226d",
    "CON8": "06f8582b821dec2bd8390adfed7261d3e19de68d6c919e35bff62164856e42fc",
    "CON24": "4caa785853892b50f6988c2d423c5717c0e85995280e21835b22cc9610c6d145",
    "IMG-FLIP": "d38c6a1d103e8fa8d6b1094210f74163e58b7e45704f4912488cb2a875083956",
    "IMG-UNIF": "63eb4cb781b45ce297a11447e225f03070c8555b6f4580d728229a8576a40351",
}

# Whitespace-separated matrices, for benchmarks/published_matrices.py.
_PUBLISHED = {
    "apb": "8616d55f6d5dfeb3a79035b73e1c943b4e5dbb6ef9426a7a626f3779170566b7",
    "heart": "82fa7111a15293e7c73d517cfd21885fe7df4c89e3ffc129b0da7dfdcf4d01c2",
    "lymp": "43676bef260801f85f7fbf8e02f66feebdfb7918083a59b153c058c2e2bafdc0",
    "zoo": "4c0ff96a8aa5c2cecde41124ba1aed1df4a87286eaf03b12644d1d943a78ae03",
}

_NOISE = "9b4fe088bc64400f1f918c16444881e5701488ed01441cf82539e628b36aeaa2"
_IMG_PRIORS = "77022d867ffaeabfe5631555592fcbda560c09fdb499188900b12677dbe8509e"
_CON_PRIORS = "e5cd5d0fa5ceee2bca7cdf478bcbbd9b55ed0de5a1c8616d1dbbb79092cd1fe2"
_IMG_WEIGHTS = "a760dd721235a4d4e63d1938568e9c1bada37c8cc0659ad06113a13a648d3e16"

# Checksums of samples, weights.txt, priors.txt and noise.txt.
_OVPM_ORIGINALS = {
    "IMG": (
        "52bd0de11f19f5ef179277bd710f7c55044452c22b245b890cc1727c9a0e0d99",
        _IMG_WEIGHTS,
        _IMG_PRIORS,
        _NOISE,
    ),
    "PLNT": (
        "8be43163078e0bbaeccd9022416e5893a0aa8fe037c0fb7a1ad2cb1f0a2422f4",
        "d669adb96a5f308b5067bfc4835e0047d230d4639c8aba258d32b9863ede05bc",
        "0fa7db00f7d98fcb4f260128603e83af71d0ad146764634799b49121c657d602",
        "97ebac56f40b05b974bd273ccc1f85da179a14efdf687a17272fd978f1cf852a",
    ),
    "UNIF": (
        "fb54bdb29656c899ec8b4685006ed76786cf0f8ec37ac8f19b036500a57ae92e",
        "ebc4ec297e37482f86af2ba49d11a78949a8a113a1196d5206b77995b23b342b",
        "1a291f906b699d78949628e44bde1d3e38092476e7d1f31965d55d8cbf25fd4c",
        _NOISE,
    ),
    "CON8": (
        "3ff994b6e0e079d9bde265cc6d862e18b8622d0fe85042bb272b16a4e389fe8d",
        "505223572eb804c5690b753b5b3ca5ff60d58194d2210eb14ea406fd0c51f094",
        _CON_PRIORS,
        _NOISE,
    ),
    "CON24": (
        "ae495e1f13ce983edb8476b282104e642bb9c170f5ff97883defa59d136e0b99",
        "ee52193d146780a2d3634d12114e592429b50b57ccb2fbe91aa9ff56f6fcee15",
        _CON_PRIORS,
        _NOISE,
    ),
    "IMG-FLIP": (
        "621b4b66301e3d1370b156f7b91df2e7afab1064dd42f048bb122fb4a8ecbb6d",
        _IMG_WEIGHTS,
        _IMG_PRIORS,
        _NOISE,
    ),
    "IMG-UNIF": (
        "3eedc7a61faf2e33b024bf7fafd259379bd63d80aaaa309e83ac9628fa6cf8a0",
        "29d39b4ecd0d4be24baeb084be28bfc1a6d38ee1253117076628edd15e5f5174",
        _IMG_PRIORS,
        _NOISE,
    ),
}


def ovpm_originals(name: str) -> list[str]:
    """Names of the files of one overparametrisation data set in the original layout.

    In this order: samples, weights, priors, noise.
    """
    samples = "samples_str10percent" if name == "IMG-FLIP" else "raw_samples_n10000_s0"
    folder = f"noisyor/datasets/{name}"
    return [
        f"{folder}/samples/{samples}",
        *(f"{folder}/true_params/{part}.txt" for part in ("weights", "priors", "noise")),
    ]


for _name, _sha256 in _PUBLISHED.items():
    _url = f"{_COLUMN_GENERATION_FILES}{_name}.txt"
    _LIST.append(DataFile(f"bmf_published/{_name}.txt", _sha256, _url, _COLUMN_GENERATION))

for _name, _sha256 in _OVPM_ARCHIVES.items():
    _LIST.append(DataFile(f"ovpm_{_name}.npz", _sha256, None, _OVPM_PAGE))
    for _file, _sha256 in zip(ovpm_originals(_name), _OVPM_ORIGINALS[_name], strict=True):
        _LIST.append(DataFile(_file, _sha256, _OVPM_FILES + _file, _OVPM_PAGE))

FILES: dict[str, DataFile] = {file.name: file for file in _LIST}
"""Every known file by its name."""


def data_file(name: str) -> DataFile:
    """The entry of a file; an unknown name is an error."""
    if name not in FILES:
        raise InvalidSettingError(f"no data file is called {name!r}; known are {', '.join(FILES)}")
    return FILES[name]
