"""Reading annotations, and pooling them into frequencies."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import Statement, statement
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo import read_annotations
from noisyor_hpo.annotations import frequencies_of, statements_of, without_papers
from noisyor_hpo.settings import DiseaseSettings

HEADER = (
    "#description: x\n#version: 2025-01-16\n"
    "database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex\t"
    "modifier\taspect\tbiocuration\n"
)


def row(disease: str, finding: str, frequency: str = "", qualifier: str = "", aspect: str = "P"):
    fields = [disease, f"name of {disease}", qualifier, finding, "PMID:1", "PCS", "", frequency]
    return "\t".join([*fields, "", "", aspect, "HPO:x"]) + "\n"


def written(tmp_path, *rows: str):
    file = tmp_path / "phenotype.hpoa"
    file.write_text(HEADER + "".join(rows))
    return file


def test_small_file(tmp_path):
    data = read_annotations(
        written(
            tmp_path,
            row("OMIM:2", "HP:9", "1/4"),
            row("OMIM:1", "HP:9", "HP:0040281"),
            row("OMIM:2", "HP:3", ""),
            row("OMIM:2", "HP:9", "75%"),
            row("OMIM:2", "HP:9", ""),
            row("OMIM:1", "HP:3", "1/1", qualifier="NOT"),
            row("OMIM:3", "HP:3", aspect="I"),
        )
    )
    assert data.version == "2025-01-16"
    assert data.disease_ids == ("OMIM:1", "OMIM:2")
    assert data.disease_names == ("name of OMIM:1", "name of OMIM:2")
    assert data.observations.column_names == ("HP:3", "HP:9")
    assert data.observations.to_dense().tolist() == [[0, 1], [1, 1]]
    np.testing.assert_allclose(data.frequency, [0.895, np.nan, 0.5])


def test_real(real_annotations):
    data = real_annotations
    observations = data.observations
    assert (observations.n_rows, observations.n_visible) == (12_680, 11_272)
    assert observations.n_active == len(data.frequency) == 253_328
    assert data.version == "2025-01-16"
    assert np.nanmin(data.frequency) == 0
    assert np.nanmax(data.frequency) == 1
    # Marfan syndrome, ectopia lentis
    marfan = data.disease_ids.index("OMIM:154700")
    assert data.disease_names[marfan] == "Marfan syndrome"
    findings = observations.columns[observations.ptr[marfan] : observations.ptr[marfan + 1]]
    assert "HP:0001083" in {observations.column_names[c] for c in findings}


@pytest.mark.parametrize("frequency", ["3/2", "1/0", "often", "120%", "1/x", "HP:0000001"])
def test_frequencies_that_are_none(tmp_path, frequency):
    file = written(tmp_path, row("OMIM:1", "HP:1"), row("OMIM:1", "HP:2", frequency))
    with pytest.raises(InvalidDataError, match=r"hpoa, line 5: .* is no frequency"):
        read_annotations(file)


def test_other_files(tmp_path):
    file = written(tmp_path)
    with pytest.raises(InvalidDataError, match="holds no finding"):
        read_annotations(file)
    file.write_text("")
    with pytest.raises(InvalidDataError, match="line 1: no column 'database_id'"):
        read_annotations(file)
    file.write_text("#version: 1\nhpo_id\tfrequency\n")
    with pytest.raises(InvalidDataError, match="line 2: no column 'database_id'"):
        read_annotations(file)
    file.write_text(HEADER + row("OMIM:1", "HP:1") + "cut sh")
    with pytest.raises(InvalidDataError, match="line 5: 1 fields, expected 12"):
        read_annotations(file)


SETTINGS = DiseaseSettings(prior_present=0.5, prior_absent=2.0, unknown_frequency=0.4)


def frequency_of(ontology, *statements):
    found = frequencies_of(statements, {"OMIM:1": 0}, ontology, SETTINGS)
    return found.term.tolist(), found.mean


def test_counts_leave_a_posterior(ontology):
    terms, mean = frequency_of(ontology, statement("OMIM:1", "HP:5", 3 / 7, present=3, examined=7))
    assert terms == [5]
    assert mean == pytest.approx([(0.5 + 3) / (2.5 + 7)])


def test_counts_of_several_papers_add_up(ontology):
    first = statement("OMIM:1", "HP:5", 1.0, present=1, examined=1)
    second = statement("OMIM:1", "HP:5", 0.5, present=20, examined=40)
    mean = frequency_of(ontology, first, second)[1]
    assert mean == pytest.approx([21.5 / (21.5 + 22)])
    assert mean > frequency_of(ontology, second)[1]


def test_ranges_and_silence(ontology):
    often = Statement("OMIM:1", "HP:5", 0.3, 0.79)
    found = frequencies_of([often], {"OMIM:1": 0}, ontology, SETTINGS)
    assert found.mean == pytest.approx([0.545])
    variance = (
        found.alpha
        * found.beta
        / ((found.alpha + found.beta) ** 2 * (found.alpha + found.beta + 1))
    )
    assert variance == pytest.approx([0.49**2 / 12])  # that of any frequency of the range
    assert frequency_of(ontology, statement("OMIM:1", "HP:5"))[1] == pytest.approx([0.4])


def test_what_leaves_no_edge(ontology):
    excluded = Statement("OMIM:1", "HP:5", 0.0, 0.0)
    unknown = statement("OMIM:1", "HP:77", 0.5)
    other = statement("OMIM:2", "HP:5", 0.5)
    assert frequency_of(ontology, excluded, unknown, other)[0] == []
    # nobody of three had it: rare, but no more than that
    counted = statement("OMIM:1", "HP:5", 0.0, present=0, examined=3)
    assert frequency_of(ontology, counted)[1] == pytest.approx([0.5 / 5.5])


def test_own_papers_go():
    mine, theirs = ("PMID:1",), ("PMID:1", "PMID:2")
    lines = [
        statement("D", "HP:1", 1.0, present=1, examined=1, references=mine),
        statement("D", "HP:2", 0.5, present=4, examined=8, references=theirs),
        statement("D", "HP:3", 1.0, present=2, examined=2, references=theirs),
        statement("D", "HP:4", 0.5, references=theirs),
        statement("D", "HP:5", references=("OMIM:1",)),
    ]
    left = without_papers(lines, mine, {"HP:2": 1, "HP:3": 2}, {"HP:2": 3, "HP:3": 2})
    assert [(line.finding, line.present, line.examined) for line in left] == [
        ("HP:2", 3, 5),
        ("HP:4", 0, 0),
        ("HP:5", 0, 0),
    ]
    assert left[0].share == pytest.approx(0.6)


def test_annotations_without_lines(annotations):
    lines = statements_of(annotations)
    assert [(line.disease, line.finding) for line in lines][:2] == [
        ("D:1", "HP:1"),
        ("D:1", "HP:2"),
    ]
    assert lines[0].share == 0.8
    assert np.isnan(lines[1].share)


def test_settings_are_checked():
    with pytest.raises(InvalidSettingError, match="kin must be a number from 0 to 1, got 2"):
        DiseaseSettings(kin=2)
