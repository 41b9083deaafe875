"""The free settings of a disease model, fitted on the development half of the patients."""

from __future__ import annotations

from dataclasses import dataclass

from noisyor._util.validation import (
    BELOW_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    Rule,
    check_settings,
    is_finite,
)

__all__ = ["DiseaseSettings"]

_SHARE = Rule(lambda value: is_finite(value) and 0 <= value <= 1, "a number of 0 to 1")
_INNER = Rule(lambda value: is_finite(value) and 0 < value < 1, "a number between 0 and 1")


@dataclass(frozen=True)
class DiseaseSettings:
    """What annotations do not state: priors, how findings are worded, and noise.

    Attributes
    ----------
    unknown_frequency : of a finding where the annotations state none.
    prior_present, prior_absent : patients with and without the finding that are added to counts.
    highest_frequency : larger ones are taken as this: a finding may be overlooked.
    kin : a disease shows a finding that only its kin have with this share of their frequency.
    general : probability that a term that is on is recorded by a more general one.
    specific : a general term that is on is recorded as one of its kinds with this probability
        times the share of diseases that have that kind among those that have the general term.
    near : the same where another kind of the general term is on.
    noise : a finding occurs without a disease as often as this share of the diseases that have it.
    least_noise : what is added to it.
    unlisted : how much a disease loses for each finding that it is expected to show, listed or not.
    absence : how far a statement is to be believed that a finding is absent.
    weight, weight_power : findings of one patient repeat each other, so n of them count as
        ``weight * n ** (1 - weight_power)``. Each absent one counts as much as a present one,
        times ``n_absent ** -weight_power``.
    odds : of each further disease, where there may be several.
    doubt : share of the patients whose disease the annotations do not describe; that much of every
        probability is spread over all diseases.

    Examples
    --------
    >>> import noisyor as nor, noisyor_hpo
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
        check_settings(
            self,
            {
                "unknown_frequency": _INNER,
                "prior_present": POSITIVE,
                "prior_absent": POSITIVE,
                "highest_frequency": _INNER,
                "kin": _SHARE,
                "general": _SHARE,
                "specific": _SHARE,
                "near": _SHARE,
                "noise": POSITIVE,
                "least_noise": _INNER,
                "unlisted": NOT_NEGATIVE,
                "absence": BELOW_ONE,
                "weight": POSITIVE,
                "weight_power": _SHARE,
                "odds": POSITIVE,
                "doubt": BELOW_ONE,
            },
        )
