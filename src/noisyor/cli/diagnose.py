"""`noisyor diagnose`: likely rare diseases of a patient, and what to look for next."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor.cli.options import (
    PATH,
    few,
    force_option,
    json_option,
    print_json,
    printable,
    top_option,
)
from noisyor.errors import InvalidSettingError

if TYPE_CHECKING:
    from noisyor.diagnosis import DiseaseFinding, DiseaseModel, Ontology, Patient
    from noisyor.report.diagnosis import Case

__all__ = ["diagnose"]

_FAINT = 0.001
_SHOWN = 5
_RELEASE = "2025-01-16"
_PRIORS = ("one", "at_least_one", "independent")


@click.command()
@click.argument("patient", type=PATH, metavar="[PATIENT]", required=False)
@click.option("--present", multiple=True, metavar="NAMES", help="Findings that are present.")
@click.option("--absent", multiple=True, metavar="NAMES", help="Findings that are known absent.")
@click.option(
    "--prior",
    type=click.Choice([prior.replace("_", "-") for prior in _PRIORS]),
    default="one",
    show_default=True,
    help="one: the patient has exactly one disease; at-least-one: one or more; independent: any "
    "number, also none.",
)
@top_option(10, least=1)
@click.option(
    "--questions",
    type=click.IntRange(min=0, max=1000),
    default=5,
    show_default=True,
    metavar="N",
    help="Findings to look for next.",
)
@click.option("--omim-only", is_flag=True, help="Rank the diseases of OMIM only.")
@click.option("--html", type=PATH, metavar="FILE", help="Also write a page to look at.")
@force_option("Replace a file that is no diagnosis.")
@click.option(
    "--annotations",
    type=PATH,
    metavar="FILE",
    help=f"Annotations of diseases, phenotype.hpoa.  [default: {_RELEASE}, downloaded once]",
)
@click.option(
    "--ontology",
    type=PATH,
    metavar="FILE",
    help=f"Ontology of the same release, hp.obo.  [default: {_RELEASE}, downloaded once]",
)
@click.option(
    "--model",
    type=PATH,
    metavar="FILE",
    help="Model file to use, or to write if there is none.  [default: one in the cache]",
)
@json_option
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
    """Likely rare diseases of PATIENT, or of findings that are named. Not a medical device.

    PATIENT is a phenopacket (JSON), a file of JSON lines or a folder. With --present and --absent
    everything else is unknown; findings go by name, synonym or identifier of the Human Phenotype
    Ontology, separated by commas.

    Each disease comes with its probability and the findings it explains: 0.9 after a finding says
    that nine tenths of it are due to this disease. Then with what argues against it: findings that
    it does not explain, and absent ones with the share of patients who show them.

    \b
    Examples:
      noisyor diagnose patient.json --html patient.html
      noisyor diagnose --present "Arachnodactyly, Ectopia lentis" --absent Seizure
    """
    if (patient is None) == (not present and not absent):
        raise InvalidSettingError("give either PATIENT, or findings with --present and --absent")
    from noisyor.report.diagnosis import check_diagnosis_page

    if html is not None:
        inputs = [path for path in (patient, annotations, ontology, model) if path is not None]
        if any(html.resolve() == path.resolve() for path in inputs):
            raise InvalidSettingError(f"{html} is to be read, it cannot be written as well")
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
            click.echo(f"note: {one.id} has no known terms and is left out", err=True)
    if html is not None:
        from noisyor.report.diagnosis import write_diagnosis_page

        write_diagnosis_page(html, cases, _about(diseases, omim_only))
    if as_json:
        print_json(_record(diseases, cases))
    else:
        _print(cases, html)


def _model(
    path: Path | None, annotations: Path | None, ontology: Path | None, omim_only: bool
) -> DiseaseModel:
    from noisyor.diagnosis.hpo.model_file import (
        build_disease_model,
        load_disease_model,
        save_disease_model,
    )

    databases = ("OMIM",) if omim_only else None
    if path is None:
        return build_disease_model(annotations, ontology, databases=databases)
    if path.exists():
        if annotations is not None or ontology is not None:
            raise InvalidSettingError(
                f"{path} exists and holds its annotations and ontology; leave --annotations and "
                "--ontology out, or choose another name"
            )
        return load_disease_model(path)
    model = build_disease_model(annotations, ontology, databases=databases, cached=False)
    save_disease_model(path, model)
    return model


def _read(path: Path, ontology: Ontology) -> tuple[Patient, ...]:
    from noisyor.diagnosis.phenopackets import read_phenopackets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown terms stand beside each patient
        return read_phenopackets(path, ontology)


def _case(model: DiseaseModel, patient: Patient, prior: Any, top: int, questions: int) -> Case:
    from noisyor.diagnosis import next_findings, rank_diseases
    from noisyor.report.diagnosis import Case

    ranking = rank_diseases(model, patient, prior=prior, top=top)
    asked = next_findings(model, patient, top=questions, ranking=ranking) if questions else ()
    number = model.ontology.number
    told = (finding.by for one in ranking.diseases for finding in (*one.explains, *one.against))
    names = {
        term: model.ontology.names[number[term]]
        for term in (*patient.present, *patient.absent, *told)
    }
    called = dict(zip(model.disease_ids, model.disease_names, strict=True))
    names |= {id: called[id] for one in asked for id in (one.if_present, one.if_absent)}
    return Case(patient, names, ranking, asked)


# ---- findings by name


def named_patient(ontology: Ontology, present: Iterable[str], absent: Iterable[str]) -> Patient:
    """A patient with findings that were named on the command line."""
    from noisyor.diagnosis.phenopackets import Patient

    found, missing = (_terms(ontology, texts) for texts in (present, absent))
    both = [term for term in found if term in missing]
    if both:
        name = ontology.names[ontology.number[both[0]]]
        raise InvalidSettingError(f"{name!r} is given both as present and as absent")
    if not found and not missing:
        raise InvalidSettingError("--present and --absent name no finding")
    return Patient("findings", tuple(found), tuple(missing))


def _terms(ontology: Ontology, texts: Iterable[str]) -> dict[str, None]:
    """Terms of lists of names; a name may hold commas itself."""
    found: dict[str, None] = {}
    for text in texts:
        parts = [part.strip() for part in text.split(",")]
        while parts:
            for length in range(len(parts), 0, -1):
                name = ", ".join(parts[:length])
                if ontology.lookup(name) is not None:
                    break
            # The shortest is left if nothing is known: the error is about that one.
            if name:
                found[ontology.find(name)] = None
            del parts[:length]
    return found


# ---- what is printed


def _print(cases: list[Case], html: Path | None) -> None:
    from noisyor.report.diagnosis import DISCLAIMER

    for case in cases:
        click.echo(printable("\n".join(_text(case))))
    if html is not None:
        click.echo(f"page: {html}")
    click.echo(f"Not a medical device. {DISCLAIMER}", err=True)


def _text(case: Case) -> list[str]:
    """What is said of one patient, line by line."""
    patient = case.patient
    present = [case.names[term] for term in patient.present]
    lines = [
        f"{patient.id}: {few(present) or 'nothing present'}"
        f"  ({len(present)} present, {len(patient.absent)} absent)"
    ]
    if patient.unknown:
        lines.append(f"  not in the ontology, left out: {few(list(patient.unknown))}")
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
                lines.append(f"          {label} {few(told, _SHOWN)}")
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
    from dataclasses import asdict

    from noisyor.report.diagnosis import DISCLAIMER

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
    """What the page says that its probabilities rest on."""
    only = " of OMIM" if omim_only else ""
    return [
        ("Annotations", f"{model.version}, {len(model.disease_ids):,} diseases{only}"),
        ("Ontology", f"{model.ontology.version}, {model.ontology.n_terms:,} terms"),
    ]
