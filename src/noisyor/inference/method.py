"""The protocol of an inference method: all that training, explaining and evaluating ask of one."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from noisyor.data.observations import Observations
from noisyor.inference.posterior import Posterior
from noisyor.network.graph import Network


class Gradient(NamedTuple):
    """Objective of a batch: its mean per row, and the gradient of that mean, (n_params,)."""

    value: float
    gradient: npt.NDArray[np.float64]


class Method(Protocol):
    """An inference method that can train a network."""

    def posterior(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int,
        clamp: npt.NDArray[np.uint8] | None,
        n_threads: int,
        progress: bool | None,
    ) -> Posterior:
        """Causes of every row; ``clamp`` (n_rows or 1, n_hidden) of 0, 1 and 2 for not observed."""
        ...

    def gradient(
        self, network: Network, observations: Observations, *, seed: int, step: int, n_threads: int
    ) -> Gradient:
        """Infer the causes of a batch, then differentiate the bound with the causes held fixed."""
        ...

    def bound(
        self, network: Network, observations: Observations, *, n_threads: int
    ) -> npt.NDArray[np.float64]:
        """The method's test-time bound on ``log p(x)`` for every row, shape (n_rows,)."""
        ...

    def settings(self) -> dict[str, object]:
        """Everything that determines the method's results, for records and checkpoints."""
        ...
