"""Starting parameters: the paper's four settings by name, and noise to break symmetry."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import is_finite
from noisyor.errors import InvalidSettingError
from noisyor.model.network import Network, theta_from_failure, theta_from_probability

__all__ = ["NOISE_SCALE", "SETTINGS", "Noise", "Setting", "initialize"]


class Setting(NamedTuple):
    """Starting probabilities: of failure on every edge, of every prior and every free noise."""

    failure: float
    prior: float


SETTINGS: dict[str, Setting] = {
    "paper-1": Setting(0.5, 0.5),
    "paper-2": Setting(0.5, 0.1),
    "paper-3": Setting(0.9, 0.1),
    "paper-4": Setting(0.9, 0.5),
}
"""The four initializations of the paper's experiments."""

NOISE_SCALE = 0.1
"""Standard deviation of the Gaussian rule, half width of the uniform one."""

_DEVIATION = {"gaussian": NOISE_SCALE, "wide-gaussian": NOISE_SCALE**0.5}

_SMALLEST_FAILURE = 1e-5  # a failure probability of 0 would be an infinite parameter

Noise = Literal["none", "gaussian", "wide-gaussian", "uniform"]


def initialize(
    network: Network,
    setting: str | Setting | tuple[float, float] = "paper-3",
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
    seed : of the noise.

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
    generator = np.random.default_rng(seed)
    roles = network.roles
    theta = np.array(network.theta)
    for role, probability in [("failure", failure), ("prior", prior), ("noise", prior)]:
        entries = np.flatnonzero(roles == role)
        values = np.full(len(entries), float(probability))
        if noise in _DEVIATION and role != "noise":
            values += generator.normal(0.0, _DEVIATION[noise], len(entries))
        elif noise == "uniform" and role == "failure":
            values += generator.uniform(-NOISE_SCALE, NOISE_SCALE, len(entries))
        theta[entries] = _theta(role, np.clip(values, 0.0, 1.0))
    return network.with_theta(np.where(network.free, theta, network.theta))


def _theta(role: str, probability: FloatArray) -> FloatArray:
    if role == "failure":
        return theta_from_failure(np.maximum(probability, _SMALLEST_FAILURE))
    return theta_from_probability(np.minimum(probability, 1.0 - _SMALLEST_FAILURE))


def _setting(setting: str | Setting | tuple[float, float]) -> Setting:
    if isinstance(setting, str):
        if setting not in SETTINGS:
            raise InvalidSettingError(
                f"no initialization is named {setting!r}; there are {', '.join(SETTINGS)}"
            )
        return SETTINGS[setting]
    if not isinstance(setting, tuple | list) or len(setting) != 2:
        raise InvalidSettingError(
            f"a start is one of {', '.join(SETTINGS)}, or two probabilities, got {setting!r}"
        )
    if not all(is_finite(probability) and 0 <= probability <= 1 for probability in setting):
        raise InvalidSettingError(
            f"starting probabilities lie between 0 and 1, got {tuple(setting)}"
        )
    return Setting(*setting)
