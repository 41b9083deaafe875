"""Write rankings of patients as one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2

from noisyor._util.files import check_folder, check_target, write_text
from noisyor_hpo import __version__
from noisyor_hpo.phenopackets import Patient
from noisyor_hpo.ranking import DiseaseFinding, DiseaseRanking, NextFinding, RankedDisease

__all__ = ["DISCLAIMER", "Case", "check_diagnosis_page", "diagnosis_page", "write_diagnosis_page"]

GENERATOR = "noisyor-hpo"
"""Marks pages that this package wrote."""

_SHOWN = 12  # findings listed for each disease

DISCLAIMER = (
    "This is a calculation from published annotations of rare diseases, and it can be wrong. It "
    "must not be used to diagnose or treat anybody: ask a physician."
)
"""Printed with every ranking."""


class Case(NamedTuple):
    """One patient, names of terms and diseases by identifier, the ranking and the questions."""

    patient: Patient
    names: dict[str, str]
    ranking: DiseaseRanking
    questions: tuple[NextFinding, ...]

    @property
    def rest(self) -> float | None:
        """Probability of all diseases that are not listed; None if several are possible."""
        if self.ranking.prior != "one":
            return None
        return max(0.0, 1.0 - sum(disease.probability for disease in self.ranking.diseases))

    def through(self, finding: DiseaseFinding) -> str:
        """Say through which other term a disease has a finding; "" if through the finding."""
        if not finding.own:
            return "by related diseases"
        return "" if finding.by == finding.term else f"by {self.names[finding.by]}"

    def unexplained(self, disease: RankedDisease) -> list[str]:
        """Return the names of the present findings that a disease does not explain."""
        explained = {finding.term for finding in disease.explains}
        return [self.names[term] for term in self.patient.present if term not in explained]


def check_diagnosis_page(out: Path, *, force: bool = False) -> None:
    """Reject an unwritable path before any work; an earlier page may be replaced."""
    check_target(out, (lambda _: True) if force else _is_page, "a diagnosis")
    check_folder(out.parent)


def write_diagnosis_page(
    out: Path, cases: Sequence[Case], about: Sequence[tuple[str, str]]
) -> None:
    """Write the page of some patients; see `diagnosis_page`."""
    page = diagnosis_page(cases, about)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page)


def diagnosis_page(cases: Sequence[Case], about: Sequence[tuple[str, str]]) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    cases : one patient or several.
    about : names and values of the sources: versions, assumptions.
    """
    templates = jinja2.Environment(
        # The page shares the base style sheet with the reports of noisyor.
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("noisyor_hpo"), jinja2.PackageLoader("noisyor.report")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["percent"] = percent
    html: str = templates.get_template("diagnosis.html").render(
        generator=f"{GENERATOR} {__version__}",
        version=__version__,
        disclaimer=DISCLAIMER,
        cases=cases,
        about=about,
        shown=_SHOWN,
    )
    return html


def percent(share: float) -> str:
    """Format a probability in percent, with a decimal near 0 and 1."""
    if share < 0.0005:
        return "<\u00a00.1\u00a0%" if share > 0 else "0\u00a0%"
    if share > 0.9995:
        return ">\u00a099.9\u00a0%" if share < 1 else "100\u00a0%"
    digits = 0 if 0.095 <= share <= 0.905 else 1
    return f"{100 * share:.{digits}f}\u00a0%"


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f'name="generator" content="{GENERATOR} '.encode() in stream.read(2000)
