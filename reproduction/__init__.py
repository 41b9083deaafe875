"""Reproduction of the paper: its experiments, their data, the record of all runs, page and figures.

Run from a clone of the repository: ``python -m reproduction run tiny20``. An experiment is a value
(`reproduction.protocol.Experiment`): what can be run, the paper's settings, and a function that
does one run. The modules `layered` and `one_layer` define the five experiments; everything else,
from resuming to tables, is common to all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisyor.errors import InvalidSettingError

if TYPE_CHECKING:
    from reproduction.protocol import Experiment

NAMES = ("tiny20", "text", "bmf", "overparam", "deconvolution")
"""Names of the experiments, in the order of the paper."""

__all__ = ["NAMES", "experiment"]


def experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    from reproduction import layered, one_layer

    if name not in NAMES:
        raise InvalidSettingError(f"no experiment is named {name!r}; there are {', '.join(NAMES)}")
    module = layered if name in ("tiny20", "text") else one_layer
    found: Experiment = getattr(module, name.upper())
    return found
