"""The command line: `noisyor-hpo diagnose` ranks diseases, `noisyor-hpo serve` shows a page.

Errors are one line on stderr and exit code 2.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from noisyor._util.files import to_json
from noisyor.cli.common import printable, run_command_line
from noisyor.cli.serve import run_server, server_options
from noisyor.errors import InvalidSettingError
from noisyor_hpo import __version__
from noisyor_hpo.model import DiseaseModel
from noisyor_hpo.model_file import load_model, prepare_model, save_model
from noisyor_hpo.ontology import Ontology
from noisyor_hpo.page import DISCLAIMER, Case, check_diagnosis_page, write_diagnosis_page
from noisyor_hpo.phenopackets import Patient, read_phenopackets
from noisyor_hpo.ranking import DiseaseFinding, next_findings, rank_diseases

__all__ = ["main"]

_FAINT = 0.001  # diseases below this probability are not printed
_SHOWN = 5  # findings printed for each disease
_RELEASE = "2025-01-16"
_PRIORS = ("one", "at_least_one", "independent")
_PATH = click.Path(path_type=Path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``arguments`` default to those of the process."""
    return run_command_line(_cli, "noisyor-hpo", arguments)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="noisyor-hpo %(version)s")
def _cli() -> None:
    """Rank rare diseases by a patient's findings. Not a medical device."""


_source_options = (
    click.option("--omim-only", is_flag=True, help="Rank the diseases of OMIM only."),
    click.option(
        "--annotations",
        type=_PATH,
        metavar="FILE",
        help=f"Annotations of diseases, phenotype.hpoa.  [default: {_RELEASE}, downloaded once]",
    ),
    click.option(
        "--ontology",
        type=_PATH,
        metavar="FILE",
        help=f"Ontology of the same release, hp.obo.  [default: {_RELEASE}, downloaded once]",
    ),
    click.option(
        "--model",
        type=_PATH,
        metavar="FILE",
        help="Model file to use, or to write if there is none.  [default: one in the cache]",
    ),
)


def _with_sources(function: Any) -> Any:
    """Add the options that choose the model."""
    for option in reversed(_source_options):
        function = option(function)
    return function


@_cli.command()
@click.argument("patient", type=_PATH, metavar="[PATIENT]", required=False)
@click.option("--present", multiple=True, metavar="NAMES", help="Findings that are present.")
@click.option("--absent", multiple=True, metavar="NAMES", help="Findings that are absent.")
@click.option(
    "--prior",
    type=click.Choice([prior.replace("_", "-") for prior in _PRIORS]),
    default="one",
    show_default=True,
    help="one: the patient has exactly one disease; at-least-one: one or more; independent: any "
    "number, including none.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Diseases to list.",
)
@click.option(
    "--questions",
    type=click.IntRange(min=0, max=1000),
    default=5,
    show_default=True,
    metavar="N",
    help="Findings to look for next.",
)
@click.option("--html", type=_PATH, metavar="FILE", help="Also write an HTML page.")
@click.option("--force", is_flag=True, help="Replace a file that is not a diagnosis.")
@_with_sources
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def diagnose(
    patient: Path | None,
    present: tuple[str, ...],
    absent: tuple[str, ...],
    prior: str,
    top: int,
    questions: int,
    omim_only: bool,
    html: Path | None,
    force: bool,
    annotations: Path | None,
    ontology: Path | None,
    model: Path | None,
    as_json: bool,
) -> None:
    """Rank rare diseases for PATIENT or for named findings. Not a medical device.

    PATIENT is a phenopacket (JSON), a file of JSON lines, a folder or an archive. With --present
    and --absent, findings are given by name, synonym or identifier of the Human Phenotype Ontology,
    separated by commas; all other findings are unknown.

    Each disease is printed with its probability and the findings it explains: 0.9 after a finding
    means that nine tenths of it are due to this disease. Evidence against a disease follows:
    present findings that it does not explain, and absent findings with the probability that the
    disease shows them.

    \b
    Examples:
      noisyor-hpo diagnose patient.json --html patient.html
      noisyor-hpo diagnose --present "Arachnodactyly, Ectopia lentis" --absent Seizure
    """
    if (patient is None) == (not present and not absent):
        raise InvalidSettingError("give either PATIENT, or findings with --present and --absent")
    if html is not None:
        inputs = [path for path in (patient, annotations, ontology, model) if path is not None]
        if any(html.resolve() == path.resolve() for path in inputs):
            raise InvalidSettingError(f"{html} is an input; choose another name for the page")
        check_diagnosis_page(html, force=force)

    diseases = _model(model, annotations, ontology, omim_only)
    if patient is None:
        patients: tuple[Patient, ...] = (named_patient(diseases.ontology, present, absent),)
    else:
        patients = _read(patient, diseases.ontology)
    cases = []
    for one in patients:
        if one.present or one.absent:
            cases.append(_case(diseases, one, prior.replace("-", "_"), top, questions))
        else:
            click.echo(f"note: {one.id} has no known terms and is ignored", err=True)
    if html is not None:
        write_diagnosis_page(html, cases, _about(diseases, omim_only))
    if as_json:
        click.echo(to_json(_record(diseases, cases), indent=2, ascii_only=True))
    else:
        _print(cases, html)


@_cli.command()
@_with_sources
@server_options
def serve(
    omim_only: bool,
    annotations: Path | None,
    ontology: Path | None,
    model: Path | None,
    port: int,
    opened: bool,
) -> None:
    """Show likely diseases on an interactive page. Not a medical device.

    The page completes the names of findings and shows likely diseases, what each explains, and
    which finding to look for next. The server accepts connections from this machine only.
    """
    from noisyor_hpo.serve import DiseaseSubject

    diseases = _model(model, annotations, ontology, omim_only)
    name = "rare diseases" if model is None else model.name
    run_server(lambda: DiseaseSubject(diseases, name), port, opened)


def _model(
    path: Path | None, annotations: Path | None, ontology: Path | None, omim_only: bool
) -> DiseaseModel:
    databases = ("OMIM",) if omim_only else None
    if path is None:
        return prepare_model(annotations, ontology, databases=databases)
    if path.exists():
        if annotations is not None or ontology is not None:
            raise InvalidSettingError(
                f"{path} exists and holds its annotations and ontology; leave --annotations and "
                "--ontology out, or choose another name"
            )
        return load_model(path)
    model = prepare_model(annotations, ontology, databases=databases, cached=False)
    save_model(path, model)
    return model


def _read(path: Path, ontology: Ontology) -> tuple[Patient, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown terms are printed with each patient
        return read_phenopackets(path, ontology)


def _case(model: DiseaseModel, patient: Patient, prior: Any, top: int, questions: int) -> Case:
    ranking = rank_diseases(model, patient, prior=prior, top=top)
    asked = next_findings(model, patient, top=questions, ranking=ranking) if questions else ()
    number = model.ontology.number
    used = (finding.by for one in ranking.diseases for finding in (*one.explains, *one.against))
    names = {
        term: model.ontology.names[number[term]]
        for term in (*patient.present, *patient.absent, *used)
    }
    called = dict(zip(model.disease_ids, model.disease_names, strict=True))
    names |= {id: called[id] for one in asked for id in (one.if_present, one.if_absent)}
    return Case(patient, names, ranking, asked)


# ---- findings by name


def named_patient(ontology: Ontology, present: Iterable[str], absent: Iterable[str]) -> Patient:
    """Return a patient with findings named on the command line."""
    found, missing = (_terms(ontology, texts) for texts in (present, absent))
    both = [term for term in found if term in missing]
    if both:
        name = ontology.names[ontology.number[both[0]]]
        raise InvalidSettingError(f"{name!r} is given both as present and as absent")
    if not found and not missing:
        raise InvalidSettingError("--present and --absent name no finding")
    return Patient("findings", tuple(found), tuple(missing))


def _terms(ontology: Ontology, texts: Iterable[str]) -> dict[str, None]:
    """Find the terms of lists of names; a name may contain commas itself."""
    found: dict[str, None] = {}
    for text in texts:
        parts = [part.strip() for part in text.split(",")]
        while parts:
            for length in range(len(parts), 0, -1):
                name = ", ".join(parts[:length])
                if ontology.lookup(name) is not None:
                    break
            # If no part is known, the error names the shortest.
            if name:
                found[ontology.find(name)] = None
            del parts[:length]
    return found


# ---- output


def _print(cases: list[Case], html: Path | None) -> None:
    for case in cases:
        click.echo(printable("\n".join(_text(case))))
    if html is not None:
        click.echo(f"page: {html}")
    click.echo(f"Not a medical device. {DISCLAIMER}", err=True)


def _text(case: Case) -> list[str]:
    """Return the lines about one patient."""
    patient = case.patient
    present = [case.names[term] for term in patient.present]
    lines = [
        f"{patient.id}: {_few(present) or 'nothing present'}"
        f"  ({len(present)} present, {len(patient.absent)} absent)"
    ]
    if patient.unknown:
        lines.append(f"  not in the ontology, ignored: {_few(list(patient.unknown))}")
    for disease in case.ranking.diseases:
        if disease.probability < _FAINT:
            break
        error = f"  (± {disease.error:.3f})" if disease.error >= 0.0005 else ""
        lines.append(f"  {disease.probability:6.3f}  {disease.name} ({disease.id}){error}")
        for label, told in (
            ("explains", [_share(case, finding) for finding in disease.explains]),
            ("does not explain", case.unexplained(disease)),
            ("lacks", [_share(case, finding) for finding in disease.against]),
        ):
            if told:
                lines.append(f"          {label} {_few(told, _SHOWN)}")
    if case.rest is not None:
        lines.append(f"  {case.rest:6.3f}  all other diseases")
    lines.append(f"  {case.ranking.method}")
    for number, question in enumerate(case.questions):
        if number == 0:
            lines.append("  look next for")
        chance = f"present with {question.probability:.2f}"
        lines.append(f"    {question.gain:.2f} bits  {question.name}  ({chance})")
        answers = [case.names[question.if_present], case.names[question.if_absent]]
        lines.append(f"               if present {answers[0]}, if absent {answers[1]}")
    return lines


def _share(case: Case, finding: DiseaseFinding) -> str:
    through = case.through(finding)
    return f"{finding.name} {finding.share:.2f}" + (f" {through}" if through else "")


def _record(model: DiseaseModel, cases: list[Case]) -> dict[str, Any]:
    return {
        "notice": f"Not a medical device. {DISCLAIMER}",
        "annotations": model.version,
        "ontology": model.ontology.version,
        "patients": [
            {
                **asdict(case.patient),
                "names": case.names,
                "prior": case.ranking.prior,
                "method": case.ranking.method,
                "diseases": [
                    {**asdict(disease), "unexplained": case.unexplained(disease)}
                    for disease in case.ranking.diseases
                ],
                "rest": case.rest,
                "unexplained": list(case.ranking.unexplained),
                "look_next_for": [asdict(question) for question in case.questions],
            }
            for case in cases
        ],
    }


def _about(model: DiseaseModel, omim_only: bool) -> list[tuple[str, str]]:
    """List the sources of the probabilities for the page."""
    only = " of OMIM" if omim_only else ""
    return [
        ("Annotations", f"{model.version}, {len(model.disease_ids):,} diseases{only}"),
        ("Ontology", f"{model.ontology.version}, {model.ontology.n_terms:,} terms"),
    ]


def _few(items: list[str], shown: int = 8) -> str:
    """Join the first names, and say how many more there are."""
    more = f" ... and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more


if __name__ == "__main__":
    sys.exit(main())
