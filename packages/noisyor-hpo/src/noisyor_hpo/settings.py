"""Settings of a disease model. The defaults were chosen on the development half of the patients."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from noisyor.errors import InvalidSettingError

__all__ = ["DiseaseSettings"]

_FROM_0_TO_1 = ("kin", "general", "specific", "near", "weight_power")
_BETWEEN_0_AND_1 = ("unknown_frequency", "highest_frequency", "least_noise")
_BELOW_1 = ("absence", "doubt")


@dataclass(frozen=True)
class DiseaseSettings:
    """Assumptions that the annotations do not state: priors, wording of findings, and noise.

    Attributes
    ----------
    unknown_frequency : frequency of a finding where the annotations state none.
    prior_present, prior_absent : patients with and without the finding that are added to counts.
    highest_frequency : upper bound of frequencies, because a finding may be overlooked.
    kin : if only related diseases are annotated with a finding, a disease shows it with their
        frequency times this number.
    general : probability that an active term is recorded as a more general one.
    specific : an active general term is recorded as one of its kinds with this probability times
        the share of diseases with that kind among the diseases with the general term.
    near : the same where another kind of the general term is active.
    noise : probability of a finding without a disease, as a multiple of the share of diseases that
        have the finding.
    least_noise : probability added to the noise.
    unlisted : log-likelihood subtracted for each finding that a disease is expected to show.
    absence : probability that a recorded absence is true.
    weight, weight_power : findings of one patient repeat each other, so n of them count as
        ``weight * n ** (1 - weight_power)``. Each absent one counts as much as a present one,
        times ``n_absent ** -weight_power``.
    odds : prior odds of each further disease, where there may be several.
    doubt : share of the patients whose disease the annotations do not describe; that share of the
        probability is spread over all diseases.

    Examples
    --------
    >>> import noisyor_hpo
    >>> noisyor_hpo.DiseaseSettings(kin=0.0).kin
    0.0
    """

    unknown_frequency: float = 0.4
    prior_present: float = 0.5
    prior_absent: float = 2.0
    highest_frequency: float = 0.98
    kin: float = 0.25
    general: float = 0.5
    specific: float = 0.2
    near: float = 0.13
    noise: float = 0.2
    least_noise: float = 1e-5
    unlisted: float = 0.04
    absence: float = 0.5
    weight: float = 1.4
    weight_power: float = 0.55
    odds: float = 1e-2
    doubt: float = 0.07

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidSettingError(f"{name} must be a finite number, got {value!r}")
            if name in _FROM_0_TO_1:
                valid, expected = 0 <= value <= 1, "a number from 0 to 1"
            elif name in _BETWEEN_0_AND_1:
                valid, expected = 0 < value < 1, "a number between 0 and 1"
            elif name in _BELOW_1:
                valid, expected = 0 <= value < 1, "at least 0 and below 1"
            elif name == "unlisted":
                valid, expected = value >= 0, "at least 0"
            else:
                valid, expected = value > 0, "a positive number"
            if not valid:
                raise InvalidSettingError(f"{name} must be {expected}, got {value!r}")
