"""Objects and tags in JSON lines."""

from __future__ import annotations

import json

import numpy as np
import pytest
from table_examples import COLUMNS, NAMES, X, rows_of, tags, written

from noisyor.errors import InvalidDataError
from noisyor.tables.documents import read_json_texts
from noisyor.tables.options import ReadOptions
from noisyor.tables.read import read_table


@pytest.mark.parametrize("named", [False, True])
def test_json_tags(named):
    lines = (
        json.dumps({"animal": name, "has": row} if named else row)
        for name, row in zip(NAMES, tags(), strict=True)
    )
    found = rows_of(written("d.jsonl", "\n".join(lines)), id_column="animal" if named else None)
    order = [found.observations.column_names.index(name) for name in COLUMNS]
    np.testing.assert_array_equal(found.observations.to_dense()[:, order], X)
    assert found.row_names == (NAMES if named else None)


def test_json_objects():
    records = [dict(zip(COLUMNS, map(int, row), strict=True)) for row in X]
    records[1]["milk"] = None
    del records[2]["legs, four"]
    found = rows_of(written("d.jsonl", "\n".join(map(json.dumps, records))))
    expected = X.astype(float)
    expected[1, 2] = expected[2, 3] = np.nan
    np.testing.assert_array_equal(found.observations.to_dense(), expected)


def test_json_objects_that_list_only_what_is_there():
    found = rows_of(written("d.jsonl", '{"a": 1}\n{"b": true, "a": 1}\n{}\n'))
    np.testing.assert_array_equal(found.observations.to_dense(), [[1, 0], [1, 1], [0, 0]])


def test_null_is_missing_also_where_nothing_is_zero(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "b": null}\n{"b": 1}\n')
    rows = read_table(path).observations
    np.testing.assert_array_equal(rows.to_dense(), [[1, np.nan], [0, 1]])


class TestAbstracts:
    """Records with a title, tags and one long text, as catalogues of papers have them."""

    LONG = "we measure how often rain falls on hills " * 5

    def test_the_long_text_is_what_a_file_is_about(self, tmp_path):
        path = tmp_path / "papers.jsonl"
        records = [
            {"tags": ["a", "b"], "title": f"Paper {n}", "abstract": f"{self.LONG} {word} {word}"}
            for n, word in enumerate(["storm", "storm", "flood", "flood"])
        ]
        path.write_text("\n".join(map(json.dumps, records)))
        table = read_table(path, ReadOptions(max_share=1.0))
        assert table.documents
        assert "storm" in table.observations.column_names
        assert table.row_names == ("Paper 0", "Paper 1", "Paper 2", "Paper 3")
        assert [text[:10] for _, text in read_json_texts(path, ReadOptions())] == ["we measure"] * 4

    def test_short_texts_beside_tags_leave_the_tags(self, tmp_path):
        path = tmp_path / "papers.jsonl"
        path.write_text('{"tags": ["a", "b"], "title": "One"}\n{"tags": ["a"], "title": "Two"}\n')
        table = read_table(path)
        assert table.observations.column_names == ("a", "b")


def test_objects_in_one_array_are_rows():
    found = rows_of(written("d.json", '[{"a": 1, "b": 0}, {"a": 0, "b": 1}]')).observations
    np.testing.assert_array_equal(found.to_dense(), [[1, 0], [0, 1]])


def test_all_fields_that_are_not_binary_are_named_at_once():
    path = written("d.jsonl", '{"a": "x", "b": 1, "c": "y", "d": 7}\n{"b": 0}\n')
    with pytest.raises(InvalidDataError, match=r"field 'a'.*drop=\('a', 'c', 'd'\)"):
        rows_of(path)
    assert rows_of(path, drop=("a,c,d",)).observations.column_names == ("b",)
