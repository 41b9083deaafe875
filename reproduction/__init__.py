"""The paper's experiments: one module each, with a runner and tables that all share.

An experiment is a value (`reproduction.protocol.Experiment`): what can be run, the paper's
settings, and a function that does one run. Everything else, from resuming to tables, is common.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from noisyor.errors import InvalidSettingError

if TYPE_CHECKING:
    from reproduction.protocol import Experiment

NAMES = ("tiny20", "text", "bmf", "overparam", "deconvolution")
"""Names of the experiments, in the order of the paper."""

__all__ = ["NAMES", "experiment"]


def experiment(name: str) -> Experiment:
    """An experiment by its name."""
    if name not in NAMES:
        raise InvalidSettingError(f"no experiment is named {name!r}; there are {', '.join(NAMES)}")
    found: Experiment = import_module(f"reproduction.{name}").EXPERIMENT
    return found
