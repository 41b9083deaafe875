"""tiny20: which of 100 words each of 16,242 newsgroup posts contains."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.compression import existing
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from reproduction.datasets.download import fetch

__all__ = ["Tiny20Data", "load_tiny20"]


@dataclass(frozen=True, eq=False)
class Tiny20Data:
    """The posts as binary rows.

    Attributes
    ----------
    observations : (16242, 100).
    words : (100,) names of the columns.
    groups : (16242,) which of the group names each post belongs to, from 0.
    group_names : (4,) families of newsgroups.
    """

    observations: Observations
    words: tuple[str, ...]
    groups: npt.NDArray[np.int64]
    group_names: tuple[str, ...]


def load_tiny20(source: str | os.PathLike[str] | None = None) -> Tiny20Data:
    """Read ``20news_w100.mat``.

    Parameters
    ----------
    source : a copy of the file; without it the file is looked for, or downloaded.
    """
    from scipy.io import loadmat

    path = fetch("20news_w100.mat") if source is None else existing(source)
    try:
        with warnings.catch_warnings():
            # SciPy 1.18 announces another class of sparse matrices; both are read below.
            warnings.simplefilter("ignore", DeprecationWarning)
            content = loadmat(path)
        words = tuple(str(word[0]) for word in content["wordlist"].ravel())
        group_names = tuple(str(name[0]) for name in content["groupnames"].ravel())
        groups = content["newsgroups"].ravel().astype(np.int64) - 1
        documents = content["documents"].T
    except Exception as error:  # the reader has no family of errors of its own
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidDataError(f"{path}: not the tiny20 file ({reason})") from error
    observations = Observations.of(documents, column_names=words)
    if len(groups) != observations.n_rows:
        raise InvalidDataError(f"{path}: {len(groups)} groups of {observations.n_rows} documents")
    return Tiny20Data(observations, words, groups, group_names)
