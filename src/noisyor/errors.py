"""Exceptions of the library, with a common base class."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ClusterError",
    "DatasetNotFoundError",
    "InvalidDataError",
    "InvalidNetworkError",
    "InvalidSettingError",
    "MissingExtraError",
    "ModelFileError",
    "NoisyOrError",
    "NotFittedError",
    "UnsupportedDataError",
]


class NoisyOrError(Exception):
    """Base class of every error that noisyor raises on purpose."""


class InvalidNetworkError(NoisyOrError, ValueError):
    """The graph or its parameters do not describe a noisy-OR network."""


class InvalidDataError(NoisyOrError, ValueError):
    """The observations are not binary, or do not fit the network."""


class UnsupportedDataError(InvalidDataError, TypeError):
    """The data come in a container, or with a dtype, that cannot hold binary observations."""


class InvalidSettingError(NoisyOrError, ValueError):
    """An option has an invalid value."""


class NotFittedError(NoisyOrError, ValueError, AttributeError):
    """An estimator is used before `fit`."""


class CheckpointError(NoisyOrError, ValueError):
    """A checkpoint cannot be read, or belongs to another run."""


class ModelFileError(NoisyOrError, ValueError):
    """A model file cannot be read or written."""


class DatasetNotFoundError(NoisyOrError, FileNotFoundError):
    """A data file or folder does not exist, or could not be downloaded."""


class MissingExtraError(NoisyOrError, ImportError):
    """An optional dependency is needed and not installed."""

    @classmethod
    def of(cls, what: str, extra: str, instead: str = "") -> MissingExtraError:
        """Return the error that names what is missing and the extra that installs it."""
        return cls(
            f'{what}, not installed; pip install ".[{extra}]" in a clone of noisyor '
            f'(elsewhere "noisyor[{extra}]") installs it{instead}'
        )


class ClusterError(NoisyOrError, RuntimeError):
    """Workers of a cluster failed, or their versions differ."""
