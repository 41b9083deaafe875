import pytest

from noisyor.data.observations import Observations
from noisyor.explanation.counterfactual import what_if
from noisyor.inference.exact import enumerate_posterior
from noisyor.model.builders import from_edges
from noisyor.model.forward import edge_matrix


def row(present=(), absent=(), n_visible=6) -> Observations:
    return Observations.from_evidence(n_visible, present, absent)


def test_explaining_away(clinic):
    present, absent = what_if(clinic, row([0, 1]), "rash")
    assert (present.before, present.after) == ("unknown", "present")
    assert (absent.before, absent.after) == ("unknown", "absent")
    shifts = {shift.name: shift for shift in present.shifts}
    assert shifts["measles"].after > 0.4 > shifts["measles"].before
    assert shifts["flu"].after < shifts["flu"].before
    assert shifts["flu"].explained_away_by == "measles"
    expected = enumerate_posterior(clinic, row([0, 1, 3])).marginals[0]
    assert shifts["flu"].after == pytest.approx(expected[0])


def test_what_is_known_is_forgotten_or_turned(clinic):
    changes = what_if(clinic, row([0, 1]), 1)
    assert [(c.before, c.after) for c in changes] == [
        ("present", "unknown"),
        ("present", "absent"),
    ]
    assert all(s.explained_away_by == "" for change in changes for s in change.shifts)
    changes = what_if(clinic, row([0], [1]), 1)
    assert [c.after for c in changes] == ["unknown", "present"]


def test_the_number_of_causes_listed(clinic, monkeypatch):
    monkeypatch.setattr("noisyor.explanation.counterfactual._MAX_SHIFTS", 1)
    (present, _) = what_if(clinic, row([0, 1]), 3)
    assert [shift.name for shift in present.shifts] == ["measles"]


def test_the_only_finding_may_be_forgotten(clinic):
    unknown, _ = what_if(clinic, row([3]), 3)
    assert unknown.after == "unknown"
    for shift in unknown.shifts:
        assert shift.after == pytest.approx(clinic.prior_probability[shift.index])
    present, absent = what_if(clinic, row(), 3)
    expected = enumerate_posterior(clinic, row([3]))
    assert present.shifts[0].after == pytest.approx(expected.marginals[0, present.shifts[0].index])
    assert absent.after == "absent"


def test_parents_in_any_order():
    network = from_edges(1, 2, [(1, 0), (0, 0)], prior_probability=0.2, failure_probability=0.3)
    known, _ = what_if(network, row([0], n_visible=1), 0)
    assert known.after == "unknown"
    edges = edge_matrix(network)
    edges.sort_indices()  # in arrays of its own
    assert (edges >= 0.5).nnz == 2
