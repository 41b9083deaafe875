"""Starting parameters: the paper's four settings by name, and noise to break symmetry."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from noisyor._util.validation import is_finite
from noisyor.errors import InvalidSettingError
from noisyor.model.network import Network, theta_from_failure, theta_from_probability

SETTINGS = {
    "paper-1": (0.5, 0.5),
    "paper-2": (0.5, 0.1),
    "paper-3": (0.9, 0.1),
    "paper-4": (0.9, 0.5),
}
"""The four initializations of the paper's experiments: failure probability, prior probability."""

_NOISE_SCALE = 0.1
"""Standard deviation of the Gaussian rule, half width of the uniform one."""

_DEVIATION = {"gaussian": _NOISE_SCALE, "wide-gaussian": _NOISE_SCALE**0.5}

_SMALLEST_FAILURE = 1e-5  # a failure probability of 0 would be an infinite parameter

Noise = Literal["none", "gaussian", "wide-gaussian", "uniform"]


def initialize(
    network: Network,
    setting: str | tuple[float, float] = "paper-3",
    noise: Noise = "none",
    seed: int = 0,
) -> Network:
    """Return the network with fresh starting parameters; fixed entries keep their value.

    Parameters
    ----------
    network : any network.
    setting : a name of ``SETTINGS``, or a pair (failure probability, prior probability). A noise
        probability that is free starts at the prior, as in the paper.
    noise : how the symmetry between hidden nodes is broken. ``"gaussian"``, the paper's text:
        normal with standard deviation 0.1 on failure and prior probabilities; the text does not
        say whether its 0.1 is the variance, which is ``"wide-gaussian"``. ``"uniform"``, the
        authors' software: uniform on [-0.1, 0.1] on failure probabilities only. All are projected
        back to [0, 1]. ``"none"``: none, as for text.
    seed : seed of the noise.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.initialize(nor.bipartite(n_visible=2, n_hidden=1), "paper-3")
    >>> network.failure_probability.round(3)
    array([[0.9, 0.9]])
    """
    failure, prior = _setting(setting)
    if noise not in get_args(Noise):
        raise InvalidSettingError(
            f"noise must be one of {', '.join(get_args(Noise))}, got {noise!r}"
        )
    generator, roles, theta = np.random.default_rng(seed), network.roles, np.array(network.theta)
    for role, probability in [("failure", failure), ("prior", prior), ("noise", prior)]:
        entries = np.flatnonzero(roles == role)
        values = np.full(len(entries), float(probability))
        if noise in _DEVIATION and role != "noise":
            values += generator.normal(0.0, _DEVIATION[noise], len(entries))
        elif noise == "uniform" and role == "failure":
            values += generator.uniform(-_NOISE_SCALE, _NOISE_SCALE, len(entries))
        values = np.clip(values, 0.0, 1.0)
        if role == "failure":
            theta[entries] = theta_from_failure(np.maximum(values, _SMALLEST_FAILURE))
        else:
            theta[entries] = theta_from_probability(np.minimum(values, 1.0 - _SMALLEST_FAILURE))
    return network.with_theta(np.where(network.free, theta, network.theta))


def _setting(setting: str | tuple[float, float]) -> tuple[float, float]:
    if isinstance(setting, str):
        if setting not in SETTINGS:
            raise InvalidSettingError(
                f"no initialization is named {setting!r}; there are {', '.join(SETTINGS)}"
            )
        return SETTINGS[setting]
    is_pair = isinstance(setting, tuple | list) and len(setting) == 2
    if not is_pair or not all(is_finite(value) and 0 <= value <= 1 for value in setting):
        raise InvalidSettingError(
            f"a start is one of {', '.join(SETTINGS)}, or two probabilities between 0 and 1, got "
            f"{setting!r}"
        )
    failure, prior = setting
    return failure, prior
