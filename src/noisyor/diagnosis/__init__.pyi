from .attribution import Attribution, Chains, attribute_findings
from .counterfactual import CauseShift, Counterfactual, what_if
from .diseases import diagnose, disease_network, read_finding_names
from .findings import (
    find_visible,
    find_visibles,
    present_findings,
    state_of_finding,
    with_finding,
)
from .patients import Patients, naive_bayes, simulate_patients
from .ranking import Cause, Differential, ExplainedFinding, differential

__all__ = [
    "Attribution",
    "Cause",
    "CauseShift",
    "Chains",
    "Counterfactual",
    "Differential",
    "ExplainedFinding",
    "Patients",
    "attribute_findings",
    "diagnose",
    "differential",
    "disease_network",
    "find_visible",
    "find_visibles",
    "naive_bayes",
    "present_findings",
    "read_finding_names",
    "simulate_patients",
    "state_of_finding",
    "what_if",
    "with_finding",
]
