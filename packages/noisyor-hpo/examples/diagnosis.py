"""Rank the causes of a patient's findings in a two-layer network of 12,679 rare diseases.

    python examples/diagnosis.py [hp.obo]

Reads the annotations of the Human Phenotype Ontology (downloaded at first use). With the ontology
file ``hp.obo``, findings are shown by name.
"""

import sys

import noisyor_hpo
from noisyor.explanation import named_evidence, rank_causes
from noisyor.explanation.ranking import CauseRanking

PRESENT = {
    "HP:0001166": "Arachnodactyly",
    "HP:0001083": "Ectopia lentis",
    "HP:0000098": "Tall stature",
}
ABSENT = {"HP:0001250": "Seizure"}
ANEURYSM = "HP:0002616"


def main(ontology: str | None = None) -> None:
    """Print the likely diseases of one patient, and how one more finding changes them."""
    names = PRESENT | ABSENT
    if ontology:
        terms = noisyor_hpo.read_ontology(ontology)
        names = dict(zip(terms.terms, terms.names, strict=True))
    network = noisyor_hpo.disease_network(noisyor_hpo.read_annotations(), finding_names=names)
    print(f"{network.n_hidden:,} diseases, {network.n_visible:,} findings")
    present, absent = ([names[term] for term in terms] for terms in (PRESENT, ABSENT))
    show("Three findings", rank_causes(network, named_evidence(network, present, absent), top=5))
    more = [*present, names.get(ANEURYSM, ANEURYSM)]
    show(
        "... and aortic root aneurysm",
        rank_causes(network, named_evidence(network, more, absent), top=5),
    )


def show(title: str, result: CauseRanking) -> None:
    """Print ranked causes with their probabilities, errors and explained findings."""
    print(f"\n{title} ({result.method})")
    for cause in result.causes:
        explains = ", ".join(finding.name for finding in cause.explains)
        print(f"  {cause.probability:6.1%} ± {cause.error or 0:.1%}  {cause.name}: {explains}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
