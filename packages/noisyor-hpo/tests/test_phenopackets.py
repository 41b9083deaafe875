"""Phenopackets: versions, containers, old and unknown terms, and files that are none."""

import gzip
import json
import lzma
import warnings
import zipfile

import pytest

from noisyor.errors import DatasetNotFoundError, InvalidDataError
from noisyor_hpo.ontology import read_ontology
from noisyor_hpo.phenopackets import MAX_TERMS, Patient, read_phenopackets

VERSION_2 = {
    "id": "case 1",
    "phenotypicFeatures": [
        {
            "type": {"id": "HP:1", "label": "Fever"},
            "onset": {"age": {"iso8601duration": "P3Y"}},
            "evidence": [{"reference": {"id": "PMID:7"}}],
        },
        {"type": {"id": "HP:2", "label": "Cough"}, "excluded": True},
        {"type": {"id": "HP:3"}, "excluded": None, "onset": {"ontologyClass": {"label": "Adult"}}},
        {"type": {"id": "HP:1"}, "excluded": True},
    ],
    "interpretations": [{"diagnosis": {"disease": {"id": "OMIM:1", "label": "flu"}}}],
    "diseases": [
        {"term": {"id": "OMIM:1"}},
        {"term": {"id": "OMIM:2"}},
        {"term": {"id": "OMIM:3"}, "excluded": True},
    ],
    "metaData": {
        "externalReferences": [
            {"id": "PMID:12", "reference": "https://pubmed.ncbi.nlm.nih.gov/12"},
            {"reference": "https://doi.org/10.1/x"},
        ]
    },
}
VERSION_1 = {
    "id": "PMID_99_II-1",
    "phenotypicFeatures": [
        {"type": {"id": "HP:1"}, "ageOfOnset": {"age": "P1D"}},
        {"type": {"id": "HP:2"}, "negated": True},
        {"type": {"id": "HP:3"}, "classOfOnset": {"id": "HP:0003577"}},
        {"type": {"id": "HP:4"}, "ageRangeOfOnset": {"start": {"age": "P1D"}}},
    ],
    "diseases": [{"term": {"id": "OMIM:5"}}],
    "metaData": {"phenopacketSchemaVersion": "1.0.0"},
}


def written(folder, value, name="patient.json"):
    file = folder / name
    file.write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    return file


def packet(*terms, **more):
    return {"phenotypicFeatures": [{"type": {"id": term}} for term in terms], **more}


@pytest.fixture
def ontology(tmp_path):
    file = tmp_path / "small.obo"
    file.write_text("data-version: 7\n[Term]\nid: HP:1\nalt_id: HP:10\n\n[Term]\nid: HP:2\n")
    return read_ontology(file)


def test_version_2(tmp_path):
    file = written(tmp_path, VERSION_2)
    assert read_phenopackets(file) == (
        Patient(
            id="case 1",
            present=("HP:1", "HP:3"),
            absent=("HP:2",),
            onsets=(("HP:1", "P3Y"), ("HP:3", "Adult")),
            diseases=("OMIM:1", "OMIM:2"),
            references=("PMID:12", "https://doi.org/10.1/x", "PMID:7"),
            source=f"{file}, line 1",
        ),
    )


def test_version_1(tmp_path):
    (patient,) = read_phenopackets(written(tmp_path, VERSION_1))
    assert patient.present == ("HP:1", "HP:3", "HP:4")
    assert patient.absent == ("HP:2",)
    assert dict(patient.onsets) == {
        "HP:1": "P1D",
        "HP:3": "HP:0003577",
        "HP:4": '{"start": {"age": "P1D"}}',
    }
    assert patient.diseases == ("OMIM:5",)
    assert patient.references == ("PMID:99",)


def test_containers(tmp_path):
    one, two = packet("HP:1"), packet("HP:2", id="second")
    lines = json.dumps({"path": "a/b.json", "phenopacket": one}) + "\n\n" + json.dumps(two) + "\n"
    expected = [("a/b.json", ("HP:1",)), ("second", ("HP:2",))]

    def read(path):
        return [(patient.id, patient.present) for patient in read_phenopackets(path)]

    assert read(written(tmp_path, lines, "cases.jsonl")) == expected
    assert read(written(tmp_path, lines, "cases.json")) == expected
    (tmp_path / "cases.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    assert read(tmp_path / "cases.jsonl.xz") == expected
    assert read(written(tmp_path, [two, two], "list.json")) == [expected[1]] * 2

    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    written(folder, one, "1.json")
    (folder / "deep" / "2.json.gz").write_bytes(gzip.compress(json.dumps(two).encode()))
    written(folder, "about these", "README.md")
    assert read(folder) == [("1.json", ("HP:1",)), expected[1]]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("x/1.json", json.dumps(one))
        archive.writestr("x/2.json", json.dumps(two))
    assert read(tmp_path / "all.zip") == [("1.json", ("HP:1",)), expected[1]]


def test_wrong_bytes_in_labels_do_not_stop_the_rest(tmp_path):
    file = tmp_path / "latin.json"
    file.write_bytes(
        '{"phenotypicFeatures": [{"type": {"id": "HP:1", "label": "Fieber über"}}]}'.encode(
            "latin-1"
        )
    )
    assert read_phenopackets(file)[0].present == ("HP:1",)


def test_names_cannot_break_a_line_or_a_file(tmp_path, ontology):
    strange = packet("HP:1", id="a\n\x1b[31m\ud800b")
    strange["phenotypicFeatures"].append({"type": {"id": "HP:77", "label": "x\ty"}})
    with pytest.warns(UserWarning, match="HP:77"):
        (patient,) = read_phenopackets(written(tmp_path, strange), ontology)
    assert patient.id == "a\ufffd\ufffd[31m\ufffdb"
    assert patient.unknown == ("HP:77 (x\ufffdy)",)


def test_old_terms_are_mapped_and_unknown_ones_told_once(tmp_path, ontology):
    strange = {"type": {"id": "HP:77", "label": "Strange"}}
    values = [packet("HP:10", "HP:1"), packet("HP:2"), packet("HP:88")]
    values[1]["phenotypicFeatures"].append(strange)
    file = written(tmp_path, values)
    with pytest.warns(UserWarning, match=r"2 terms are not in .*: HP:77 \(Strange\), HP:88$") as w:
        patients = read_phenopackets(file, ontology)
    assert len(w) == 1
    assert [patient.present for patient in patients] == [("HP:1",), ("HP:2",), ()]
    assert [patient.unknown for patient in patients] == [(), ("HP:77 (Strange)",), ("HP:88",)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_phenopackets(file)[2].present == ("HP:88",)
    with pytest.raises(InvalidDataError, match=r"none of the terms is in the ontology 7: HP:88"):
        read_phenopackets(written(tmp_path, packet("HP:88")), ontology)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("this is prose", "line 1: not JSON"),
        ('{\n "id": "x",\n "phenotypicFeatures": [\n', "line 4: not JSON"),
        ('\n\n{\n "id": x\n}', "line 4: not JSON"),
        ('{"phenotypicFeatures": [{"type": {"id": "HP:1"}}]}\n{"id', "line 2: not JSON"),
        ("[" * 100_000, "not JSON"),
        ("7", "line 1: a phenopacket is a JSON object, got int"),
        ("[]", "holds no phenopacket"),
        ("{}", "no terms; expected the field 'phenotypicFeatures'"),
        ('{"phenotypicFeatures": []}', "no terms"),
        ('{"phenotypicFeatures": {}}', "'phenotypicFeatures' is a list, got dict"),
        ('{"phenotypicFeatures": ["HP:1"]}', "entry of 'phenotypicFeatures' is a JSON object"),
        ('{"phenotypicFeatures": [{}]}', "'type' is a JSON object, got NoneType"),
        ('{"phenotypicFeatures": [{"type": {"label": "x"}}]}', "'type' has no identifier"),
        (
            '{"phenotypicFeatures": [{"type": {"id": "HP:1"}, "excluded": "no"}]}',
            "expected true or false, got 'no'",
        ),
        ('{"phenopacket": 3}', "'phenopacket' is a JSON object, got int"),
    ],
)
def test_files_that_are_none_are_one_line(tmp_path, text, fault):
    file = written(tmp_path, text)
    with pytest.raises(InvalidDataError, match=fault) as caught:
        read_phenopackets(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_too_many_terms(tmp_path):
    file = written(tmp_path, packet(*(f"HP:{k}" for k in range(10_000))))
    with pytest.raises(InvalidDataError, match=r"line 1: 10,000 terms, at most 1,000"):
        read_phenopackets(file)
    file = written(tmp_path, packet(*(f"HP:{k}" for k in range(MAX_TERMS))))
    assert len(read_phenopackets(file)[0].present) == MAX_TERMS


def test_cut_and_missing_files(tmp_path):
    packed = lzma.compress("\n".join(json.dumps(packet("HP:1")) for _ in range(99)).encode())
    for folder in (tmp_path, tmp_path / "inside"):
        folder.mkdir(exist_ok=True)
        file = folder / "cases.jsonl.xz"
        file.write_bytes(packed[:-20])
        with pytest.raises(InvalidDataError, match=r"cases.jsonl.xz: damaged or incomplete"):
            read_phenopackets(file)
    with pytest.raises(InvalidDataError, match=r"inside/cases.jsonl.xz: damaged or incomplete"):
        read_phenopackets(tmp_path / "inside")
    with pytest.raises(DatasetNotFoundError, match="does not exist"):
        read_phenopackets(tmp_path / "nowhere.json")


def test_the_real_ones(data_dir):
    file = data_dir / "patients" / "lirical_part.jsonl.xz"
    if not file.exists():
        pytest.skip(f"{file.name} is not among the data")
    patients = read_phenopackets(file)
    assert len(patients) == 193
    assert sum(len(patient.present) for patient in patients) == 2_207
    assert all(patient.diseases and patient.references for patient in patients)
