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


_HPO = "https://github.com/obophenotype/human-phenotype-ontology/releases/download/v2025-01-16/"

_LIST = [
    DataFile(
        "hpo_phenotype.hpoa",
        "8180403e2f5de0d8f41890e587d95077ce7f8bb8228d5d7b29dd358b70f0938c",
        _HPO + "phenotype.hpoa",
        "https://hpo.jax.org/data/annotations",
    ),
    DataFile(
        "hp.obo",
        "6b77de067eecc838319ce7650ed5bab0f92a502eabb160e6bc7c0238bc1548c5",
        _HPO + "hp.obo",
        "https://hpo.jax.org/data/ontology",
    ),
]

FILES: dict[str, DataFile] = {file.name: file for file in _LIST}
"""Every known file by its name."""


def data_file(name: str) -> DataFile:
    """The entry of a file; an unknown name is an error."""
    if name not in FILES:
        raise InvalidSettingError(f"no data file is called {name!r}; known are {', '.join(FILES)}")
    return FILES[name]
