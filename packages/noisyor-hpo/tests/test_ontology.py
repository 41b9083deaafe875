"""Ontologies in OBO format: terms, old identifiers, the hierarchy, and files that are none."""

import gzip
import lzma
import resource
import time

import numpy as np
import pytest

from helpers import ontology_of
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
    for matrix, search in (
        (np.array(above), ontology.ancestors),
        (np.transpose(above), ontology.descendants),
    ):
        assert [search(term).tolist() for term in range(4)] == [
            np.flatnonzero(row).tolist() for row in matrix
        ]
    assert ontology.parents == ((), (0,), (0,), (1, 2))
    assert ontology.depth.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_sums_over_the_hierarchy_agree_with_searches(seed):
    random = np.random.default_rng(seed)
    n_terms = int(random.integers(1, 30))
    names = [f"HP:{k:02}" for k in random.permutation(n_terms)]  # numbers are not in order
    ontology = ontology_of(
        {
            names[k]: sorted({names[random.integers(k)] for _ in range(random.integers(3))})
            if k
            else []
            for k in range(n_terms)
        }
    )
    values = random.integers(-1, 9, n_terms)
    expected = [values[ontology.ancestors(term)].max() for term in range(n_terms)]
    assert ontology.largest_above(values).tolist() == expected
    group, term = random.integers(0, 5, 40), random.integers(0, n_terms, 40)
    counts = [len(set(group[np.isin(term, ontology.descendants(t))])) for t in range(n_terms)]
    assert ontology.count_with_kinds(group, term).tolist() == counts
    assert ontology.count_with_kinds(group[:0], term[:0]).tolist() == [0] * n_terms


def test_a_long_chain_takes_linear_time_and_memory(tmp_path):
    n_terms = 20_000
    text = "".join(
        f"[Term]\nid: HP:{k:05}\n" + (f"is_a: HP:{k - 1:05}\n" if k else "") for k in range(n_terms)
    )
    file = written(tmp_path, text)
    began, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ontology = read_ontology(file)
    assert len(ontology.ancestors(n_terms - 1)) == n_terms
    assert len(ontology.descendants(0)) == n_terms
    assert ontology.largest_above(np.arange(n_terms))[-1] == n_terms - 1
    pairs = np.arange(4), n_terms - 1 - np.arange(4)
    assert ontology.count_with_kinds(*pairs)[0] == 4
    assert time.process_time() - began < 2  # a table of all ancestors takes many times as long
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown < 200 * 2**10  # kilobytes; the table would take gigabytes


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
    above = {ontology.names[k] for k in ontology.ancestors(arachnodactyly)}
    assert {"Arachnodactyly", "Abnormal finger morphology", "All"} <= above
