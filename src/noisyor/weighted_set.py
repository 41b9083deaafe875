"""Training on a set of explanations of each row instead of one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

import numpy as np
import numpy.typing as npt

from noisyor.engines.numba import engine
from noisyor.errors import InvalidSettingError
from noisyor.evidence import explore
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Gradient
from noisyor.inference.settings import is_whole
from noisyor.network import Network
from noisyor.observations import Observations
from noisyor.posterior import Posterior


@dataclass(frozen=True)
class WeightedSet:
    """Settings of inference by sets of likely configurations; see `evidence_bound`.

    Training climbs ``log sum_{h in S} p(h, x)``: its gradient is the mean of those of
    ``log p(h, x)`` under the normalised weights of S, taken over configurations drawn by them. A
    step costs several times one of `MaxProduct`; see docs/evidence.md for where that pays.

    Parameters
    ----------
    n_samples : perturb-and-max-product samples in S, beside the polished mode.
    n_expansions : members of S whose single flips are added.
    n_draws : configurations per row that the gradient is averaged over.
    max_product : settings of the messages; temperature and number of samples are not used.
    """

    n_samples: int = 2
    n_expansions: int = 4
    n_draws: int = 8
    max_product: MaxProduct = field(default_factory=MaxProduct)

    def __post_init__(self) -> None:
        for name, least in [("n_samples", 0), ("n_expansions", 0), ("n_draws", 1)]:
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise InvalidSettingError(f"{name} must be {least}, {least + 1}, …, got {value!r}")

    def settings(self) -> dict[str, object]:
        """Everything that determines the results."""
        return {
            "method": "weighted-set",
            **asdict(replace(self)),
            "max_product": self.max_product.settings(),
        }

    def posterior(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int = 0,
        clamp: npt.NDArray[np.uint8] | None = None,
        n_threads: int = 1,
        progress: bool | None = False,
    ) -> Posterior:
        """The polished mode of every row."""
        mode = replace(self.max_product.at_test_time(), polish=max(20, self.max_product.polish))
        return mode.posterior(
            network, observations, seed=seed, clamp=clamp, n_threads=n_threads, progress=progress
        )

    def gradient(
        self, network: Network, observations: Observations, *, seed: int, step: int, n_threads: int
    ) -> Gradient:
        """Mean over rows of the set's bound, and the mean gradient under the set's weights."""
        found = explore(
            network,
            observations,
            n_samples=self.n_samples,
            n_expansions=self.n_expansions,
            n_draws=self.n_draws,
            method=self.max_product,
            seed=_seed_of(seed, step),
            n_threads=n_threads,
        )
        prepared = engine.PreparedNetwork(network)
        _, gradient = engine.gradient(prepared, observations, found.draws, n_threads)
        return Gradient(float(found.log_sum.mean()), gradient / observations.n_rows)

    def bound(
        self, network: Network, observations: Observations, *, n_threads: int
    ) -> npt.NDArray[np.float64]:
        """The set's bound of every row, shape (n_rows,)."""
        return explore(
            network,
            observations,
            n_samples=self.n_samples,
            n_expansions=self.n_expansions,
            method=self.max_product,
            n_threads=n_threads,
        ).log_sum


def _seed_of(seed: int, step: int) -> int:
    """Another seed for every step."""
    return int(np.random.SeedSequence((seed, step)).generate_state(1, np.uint64)[0] >> 1)
