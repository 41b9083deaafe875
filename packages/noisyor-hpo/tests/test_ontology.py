"""Ontologies in OBO format: terms, old identifiers, the hierarchy, and files that are none."""

import gzip
import lzma

import numpy as np
import pytest

from noisyor.errors import InvalidDataError
from noisyor_hpo.ontology import read_ontology

SMALL = """format-version: 1.2
data-version: hp/releases/2025-01-16

[Term]
id: HP:1
name: All

[Term]
id: HP:3
name: Fever
alt_id: HP:30
synonym: "Pyrexia" EXACT []
synonym: "A \\"hot\\" head" EXACT layperson []
synonym: "Warmth" BROAD []
is_a: HP:1 ! All

[Term]
id: HP:2
name: Cough
is_a: HP:1 {source="x"} ! All

[Term]
id: HP:4
name: Fever with cough
is_a: HP:2 ! Cough
is_a: HP:3 ! Fever

[Term]
id: HP:5
name: obsolete Heat
is_obsolete: true
replaced_by: HP:50

[Term]
id: HP:50
name: obsolete Hotness
is_obsolete: true
replaced_by: HP:30

[Term]
id: HP:6
name: obsolete Humours
is_obsolete: true
consider: HP:3

[Typedef]
id: part_of
name: part of
"""


def written(tmp_path, text=SMALL):
    file = tmp_path / "hp.obo"
    file.write_text(text)
    return file


def test_terms_names_and_synonyms(tmp_path):
    ontology = read_ontology(written(tmp_path))
    assert ontology.version == "hp/releases/2025-01-16"
    assert ontology.terms == ("HP:1", "HP:2", "HP:3", "HP:4")
    assert ontology.names == ("All", "Cough", "Fever", "Fever with cough")
    assert ontology.synonyms == ((), (), ("Pyrexia", 'A "hot" head'), ())


def test_the_hierarchy(tmp_path):
    ontology = read_ontology(written(tmp_path))
    above = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]]
    assert ontology.ancestors.toarray().astype(int).tolist() == above
    assert ontology.descendants.toarray().astype(int).tolist() == np.transpose(above).tolist()
    assert ontology.parents.columns.tolist() == [0, 0, 1, 2]
    assert ontology.parents.ptr.tolist() == [0, 0, 1, 2, 4]


def test_old_identifiers_are_followed_to_the_term_in_use(tmp_path):
    ontology = read_ontology(written(tmp_path))
    assert ontology.current == {"HP:30": "HP:3", "HP:5": "HP:3", "HP:50": "HP:3"}
    assert ontology.retired == {"HP:6": "obsolete Humours"}
    assert [ontology.resolve(term) for term in ("HP:2", "HP:5", "HP:6", "HP:7")] == [
        "HP:2",
        "HP:3",
        None,
        None,
    ]


def test_terms_by_name(tmp_path):
    ontology = read_ontology(written(tmp_path))
    for text in ("Fever", " fever", "PYREXIA", "HP:3", "hp:3", "HP:30", 'a "hot" head'):
        assert ontology.find(text) == "HP:3", text
    with pytest.raises(InvalidDataError, match=r"no term 'Feaver'.*did you mean 'Fever'"):
        ontology.find("Feaver")
    with pytest.raises(InvalidDataError, match=r"no term 'Pyrexya'.*did you mean 'Pyrexia'"):
        ontology.find("Pyrexya")
    with pytest.raises(InvalidDataError, match=r"obsolete Humours.*nothing replaces it"):
        ontology.find("HP:6")


def test_a_cycle_is_named(tmp_path):
    text = "".join(
        f"[Term]\nid: HP:{k}\nname: term {k}\nis_a: HP:{parent}\n\n"
        for k, parent in [(1, 2), (2, 3), (3, 4), (4, 2)]
    )
    with pytest.raises(
        InvalidDataError, match=r"hp.obo.*cycle: HP:2 is a HP:3 is a HP:4 is a HP:2$"
    ):
        read_ontology(written(tmp_path, text))


def test_a_long_cycle_is_named_in_short(tmp_path):
    text = "".join(f"[Term]\nid: HP:{k}\nis_a: HP:{(k + 1) % 5000}\n" for k in range(5000))
    with pytest.raises(InvalidDataError, match=r"HP:0 is a HP:1 is a HP:2 is a … is a"):
        read_ontology(written(tmp_path, text))


def test_compressed_and_cut_files(tmp_path):
    whole = read_ontology(written(tmp_path)).names
    for ending, compress in ((".xz", lzma.compress), (".gz", gzip.compress)):
        file = tmp_path / f"small.obo{ending}"
        file.write_bytes(compress(SMALL.encode()))
        assert read_ontology(file).names == whole
        file.write_bytes(compress(SMALL.encode())[:-20])
        with pytest.raises(InvalidDataError, match=r"small.obo\.\w+: damaged or incomplete"):
            read_ontology(file)
    cut = SMALL[: SMALL.index("P:3 ! Fever")]
    with pytest.raises(InvalidDataError, match=r"line 26: HP:4 is a kind of H,.*complete"):
        read_ontology(written(tmp_path, cut))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("no ontology\n", "no term; is it an ontology"),
        ("", "no term; is it an ontology"),
        ("[Term]\nid: HP:1\n\n[Term]\nid: HP:1\n", "line 5: a second term HP:1"),
    ],
)
def test_other_files_are_refused(tmp_path, text, fault):
    with pytest.raises(InvalidDataError, match=fault):
        read_ontology(written(tmp_path, text))


def test_the_real_one(data_dir):
    file = data_dir / "hp.obo.xz"
    if not file.exists():
        pytest.skip(f"{file.name} is not among the data")
    ontology = read_ontology(file)
    assert ontology.n_terms == 19_034
    arachnodactyly = ontology.number[ontology.find("Arachnodactyly")]
    above = {ontology.names[k] for k in ontology.ancestors[[arachnodactyly]].indices}
    assert {"Arachnodactyly", "Abnormal finger morphology", "All"} <= above
