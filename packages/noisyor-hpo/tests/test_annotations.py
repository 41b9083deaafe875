from __future__ import annotations

import numpy as np
import pytest

from noisyor.errors import InvalidDataError
from noisyor_hpo import read_annotations

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


@pytest.mark.long
def test_real(data_dir):
    data = read_annotations(data_dir / "hpo_phenotype.hpoa.xz")
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
