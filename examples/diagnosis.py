"""Diagnose a patient with a network of 12,679 rare diseases.

    python examples/diagnosis.py [hp.obo]

Reads the annotations of the Human Phenotype Ontology (downloaded at first use). Findings are given
by their identifiers; with the ontology file ``hp.obo`` they are shown by name.
"""

import sys

from noisyor.datasets import load_hpo
from noisyor.diagnosis import Differential, diagnose, disease_network, read_finding_names

PRESENT = {
    "HP:0001166": "Arachnodactyly",
    "HP:0001083": "Ectopia lentis",
    "HP:0000098": "Tall stature",
}
ABSENT = {"HP:0001250": "Seizure"}


def main(ontology: str | None = None) -> None:
    """Print the differential of one patient, and what one more finding changes."""
    names = read_finding_names(ontology) if ontology else PRESENT | ABSENT
    network = disease_network(load_hpo(), finding_names=names)
    print(f"{network.n_hidden:,} diseases, {network.n_visible:,} findings")
    show("Three findings", diagnose(network, PRESENT.values(), ABSENT.values(), top=5))
    more = [*PRESENT.values(), "HP:0002616" if not ontology else names["HP:0002616"]]
    show(
        "... and aortic root aneurysm",
        diagnose(network, more, ABSENT.values(), top=5),
    )


def show(title: str, result: Differential) -> None:
    """Print ranked causes with probabilities, errors and what they explain."""
    print(f"\n{title} ({result.method})")
    for cause in result.causes:
        explains = ", ".join(finding.name for finding in cause.explains)
        print(f"  {cause.probability:6.1%} ± {cause.error or 0:.1%}  {cause.name}: {explains}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
