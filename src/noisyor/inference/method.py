"""The protocol of an inference method: all that training, explaining and evaluating ask of one."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, GradientSum, WarmState
from noisyor.inference.posterior import Posterior
from noisyor.model.graph import Network


class Gradient(NamedTuple):
    """Objective of a batch: its mean per row, and the gradient of that mean, (n_params,).

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.inference import Gradient
    >>> Gradient(-2.0, np.zeros(3)).gradient.shape
    (3,)
    """

    value: float
    gradient: FloatArray


class BatchGradient(NamedTuple):
    """Sums over a batch, and where inference of the same batch may start the next time.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> batch = nor.Observations.of(rows)
    >>> nor.MaxProduct().gradient(network, batch, seed=0, step=0).total.weight
    2.0
    """

    total: GradientSum
    warm: WarmState | None = None


class Bounds(NamedTuple):
    """Test-time bounds on ``log p(x)`` of every row, (n_rows,) each.

    ``mode``: ``log p(h, x)`` at the method's single best explanation; ``elbo``: the method's own
    bound, the same as ``mode`` unless the method averages over causes.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> bounds = nor.MeanField().bounds(network, nor.Observations.of(rows[:1]))
    >>> bool(bounds.elbo[0] > bounds.mode[0])
    True
    """

    mode: FloatArray
    elbo: FloatArray


class Method(Protocol):
    """An inference method that can train a network. Methods are values: settings, no memory.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.MaxProduct().name, nor.MeanField().name
    ('max-product', 'mean-field')
    """

    @property
    def name(self) -> str:
        """Short name for records, such as ``"max-product"``."""
        ...

    @property
    def has_noise(self) -> bool:
        """Whether rows that are the same may get different results, by noise keyed by their ids."""
        ...

    def posterior(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int = 0,
        clamp: BinaryArray | None = None,
        engine: EngineLike = "auto",
        progress: bool | None = False,
    ) -> Posterior:
        """Causes of every row; ``clamp`` (n_rows or 1, n_hidden) of 0, 1 and 2 for not observed."""
        ...

    def gradient(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int,
        step: int,
        warm: WarmState | None = None,
        engine: EngineLike = "auto",
    ) -> BatchGradient:
        """Infer the causes of a batch, then differentiate the bound with the causes held fixed.

        ``warm`` is what the same batch returned the last time; a method may ignore it.
        """
        ...

    def bounds(
        self,
        network: Network,
        observations: Observations,
        *,
        engine: EngineLike = "auto",
        progress: bool | None = False,
    ) -> Bounds:
        """The bounds that the method gives at test time: no noise, one explanation."""
        ...

    def settings(self) -> dict[str, object]:
        """Everything that determines the method's results, for records and checkpoints."""
        ...
