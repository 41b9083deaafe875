"""Options of reading: checks, and what a model remembers of how its data were read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.tables import ReadOptions
from noisyor.tables.options import options_like
from noisyor.tables.table import read_table

MATRIX = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])


def text(separator: str = ",", *, header: str = "", extra: bool = False) -> str:
    lines = [separator.join([*map(str, row), *(["9"] if extra else [])]) for row in MATRIX.tolist()]
    return "\n".join([*([header] if header else []), *lines]) + "\n"


def arrays(name: str, **content: object) -> None:
    np.savez(name, **content)  # type: ignore[arg-type]


def metadata(source: str, **reading: object) -> dict[str, object]:
    return {"reading": ReadOptions(**reading).to_json(), "data": {"source": source}}  # type: ignore[arg-type]


def model(table: nor.tables.Table) -> nor.Network:
    data = table.observations
    return nor.bipartite(data.n_visible, 2, visible_names=data.column_names)


@pytest.mark.parametrize(
    ("name", "content", "reading"),
    [
        ("a.data", text(), {"format": "csv"}),
        ("a.csv", "bread,milk\nmilk\nbread,jam\n", {"format": "baskets"}),
        ("a.csv", text(header="1,0,2"), {"header": True}),
        ("a.csv", text(header="a,b,c,d", extra=True), {"drop": ("d",)}),
        ("a.csv", text(extra=True), {"drop": ("3",)}),
        ("a.csv", text(extra=True), {"id_column": "3", "header": False}),
        ("a.csv", text(header="a,b,c,d", extra=True), {"id_column": "3"}),
        ("a.csv", text(extra=True), {"weights": "3"}),
        ("a.csv", text().replace("1", "7"), {"above": 3.0}),
        ("a.txt", "größe oben\nunten größe\n", {"encoding": "latin-1"}),
    ],
)
def test_the_file_of_the_model_is_read_again_without_options(name, content, reading):
    Path(name).write_text(content, encoding=str(reading.get("encoding", "utf-8")))
    table = read_table(name, ReadOptions(**reading))
    again = read_table(name, options_like(metadata(name, **reading), name), model(table))
    assert again.observations.fingerprint() == table.observations.fingerprint()
    assert again.row_names == table.row_names


def test_arrays_are_chosen_and_turned_again():
    arrays("a.npz", one=MATRIX, other=1 - MATRIX.T)
    reading = {"variable": "other", "transpose": True}
    table = read_table("a.npz", ReadOptions(**reading))
    stored = metadata("folder/A.NPZ", **reading)
    again = read_table("a.npz", options_like(stored, "a.npz"), model(table))
    assert again.observations.fingerprint() == table.observations.fingerprint()
    assert not options_like(stored, "a.npz", {"transpose": False}).transpose


def test_what_is_given_counts():
    stored = metadata("a.csv", header=True, above=2.0, drop=("x",), id_column="name")
    options = options_like(stored, "b.csv", {"header": False, "drop": ("y",)})
    assert (options.header, options.drop, options.above) == (False, ("y",), 2.0)
    assert not options.id_required
    assert options_like(stored, "b.csv", {"id_column": "row"}).id_required


def test_a_file_of_another_kind_has_a_layout_of_its_own():
    stored = metadata("a.csv", format="baskets", header=True, id_column="0", above=2.0)
    assert options_like(stored, "b.csv.gz").format == "baskets"
    other = options_like(stored, "b.jsonl")
    assert (other.format, other.header, other.above) == (None, None, 2.0)
    assert options_like(stored, "b.csv", {"format": "csv"}).header is None
    named = metadata("a.csv", id_column="patient")
    assert options_like(named, "b.jsonl").id_column == "patient"


@pytest.mark.parametrize(
    "reading",
    [
        {"colour": 1},
        {"format": "../../etc/passwd"},
        {"format": ["csv"]},
        {"truth": {}},
        {"header": "yes"},
        {"drop": [[1]]},
        {"encoding": "\0"},
        {"weights": 3},
        {"above": "high"},
        {"transpose": 1},
        {"text_field": ["a"]},
        {"vocabulary": 0},
    ],
)
def test_a_crafted_model_is_one_error(reading):
    stored = {"reading": reading, "data": {"source": "a.csv"}}
    with pytest.raises(ModelFileError, match="reading options of the model are invalid"):
        options_like(stored, "a.csv")


def test_metadata_of_any_form():
    for stored in ({}, {"reading": 3}, {"reading": [1]}, {"data": 4}, {"data": {"source": 7}}):
        assert options_like(stored, "a.csv").to_json() == {
            "id_required": False,
            "weights_required": False,
        }
    # what is wrong in the model does not matter where an option is given
    broken = {"reading": {"header": 5}, "data": {"source": "a.csv"}}
    assert options_like(broken, "a.csv", {"header": True}).header
    with pytest.raises(InvalidSettingError, match="truth"):
        options_like({}, "a.csv", {"truth": "ab"})
    old = {"reading": {"delimiter": ";", "max_tokens": 7}, "data": {"source": "a.csv"}}
    assert options_like(old, "a.csv") == options_like({}, "a.csv")


def test_json():
    options = ReadOptions(format="csv", drop=("a", "b"), above=0.5)
    assert ReadOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
    assert ReadOptions().to_json() == {}
    for record in ({"colour": 1}, {"format": "pdf"}, {"vocabulary": "x"}, []):
        with pytest.raises(InvalidSettingError):
            ReadOptions.from_json(record)


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "pdf"},
        {"encoding": "utf-16"},
        {"above": float("nan")},
        {"vocabulary": 0},
    ],
)
def test_wrong_values(wrong):
    with pytest.raises(InvalidSettingError, match=next(iter(wrong))):
        ReadOptions(**wrong)
