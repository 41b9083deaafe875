"""Measure how often causes recur when rows are resampled and the seed changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from noisyor._util.arrays import BoolArray, FloatArray
from noisyor._util.progress import progress_bar
from noisyor._util.validation import check_count, check_seed
from noisyor.data.observations import Observations
from noisyor.errors import InvalidNetworkError
from noisyor.model.layout import ConvolutionalLayout
from noisyor.model.network import Network

MIN_COSINE = 0.8
"""Smallest cosine similarity of a cause that counts as found again."""

_MIN_EDGE = 0.01
"""A cause without an edge that works at least this often has no effect and cannot recur."""


@dataclass(frozen=True, eq=False)
class Stability:
    """How often each cause recurs.

    Attributes
    ----------
    recurrence : (n_hidden,) share of the resamples in which the cause was found again.
    cosine : (n_hidden,) mean cosine between the cause and its match, over the resamples.
    n_resamples : number of resamples.
    """

    recurrence: FloatArray
    cosine: FloatArray
    n_resamples: int

    @property
    def recurs(self) -> BoolArray:
        """Which causes were found again in more than half of the resamples, (n_hidden,)."""
        return np.asarray(self.recurrence > 0.5)

    def record(self) -> dict[str, Any]:
        """Return the numbers for a model file."""
        return {
            "n_resamples": self.n_resamples,
            "recurrence": [round(float(share), 4) for share in self.recurrence],
            "cosine": [round(float(cosine), 4) for cosine in self.cosine],
        }


def assess_stability(model: Any, rows: Observations, n_resamples: int, seed: int) -> Stability:
    """Learn a fitted model again from resampled rows; see `NoisyOrEstimator.stability`."""
    check_count("n_resamples", n_resamples)
    network = model.network_
    if network.n_layers > 1 or isinstance(network.layout, ConvolutionalLayout):
        raise InvalidNetworkError(
            "stability compares causes of columns; this model has "
            + ("several layers" if network.n_layers > 1 else "features of images")
        )
    generator = np.random.default_rng([check_seed(seed), 7])
    frequency = np.asarray(rows.to_csr().T @ rows.row_weights) / rows.total_weight
    share = rows.row_weights / rows.total_weight
    found = np.zeros((n_resamples, network.n_hidden))
    with progress_bar(n_resamples, "resamples", "fits", model.progress) as bar:
        for index in range(n_resamples):
            times = generator.multinomial(max(1, round(rows.total_weight)), share)
            drawn = rows.with_weights(None).take(times > 0).with_weights(times[times > 0])
            again = clone(model).set_params(
                random_state=seed + 1 + index, checkpoint=None, resume=False, progress=False
            )
            params = model.get_params(deep=False)
            if "n_components" in params:
                again.set_params(n_components=network.n_hidden)
            if "objective" in params:  # "auto" might choose anew
                again.set_params(objective=model.settings_.get("objective", params["objective"]))
            again.fit(drawn)
            found[index] = matched_cosines(network, again.network_, frequency)
            bar.update(1)
    return Stability((found >= MIN_COSINE).mean(axis=0), found.mean(axis=0), n_resamples)


def matched_cosines(network: Network, other: Network, frequency: FloatArray) -> FloatArray:
    """Return the cosine between each cause and its match in another network, (n_hidden,).

    A cause is described by the probabilities with which it switches on the columns, minus the
    frequencies of the columns. Causes are matched one to one so that the sum of the cosines is
    largest. A cause without a match, or with a negative cosine, or one that does nothing, has 0.
    ``frequency`` (n_visible,) is that of each column; both networks are bipartite.
    """
    cosine = _profiles(network, frequency) @ _profiles(other, frequency).T
    rows, columns = linear_sum_assignment(-cosine)
    result = np.zeros(network.n_hidden)
    result[rows] = np.maximum(cosine[rows, columns], 0.0)
    return result


def _profiles(network: Network, frequency: FloatArray) -> FloatArray:
    """Return the edge probabilities of causes minus base rates, as vectors of length 1 or 0."""
    edges = 1.0 - network.failure_probability
    works = (edges.max(axis=1, initial=0.0) >= _MIN_EDGE) & (network.prior_probability > 2e-4)
    profiles = np.where(works[:, None], edges - frequency, 0.0)
    length = np.linalg.norm(profiles, axis=1, keepdims=True)
    return np.asarray(profiles / np.where(length > 0, length, 1.0))
