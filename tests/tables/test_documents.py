"""Texts from files and the words in them; objects and tags in JSON lines."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from table_examples import COLUMNS, DOCUMENTS, NAMES, X, rows_of, tags, written

from noisyor.errors import DatasetNotFoundError, InvalidDataError, InvalidSettingError
from noisyor.tables.table import read_table

TEXTS = ["one", "two, with a comma", 'three "quoted"', "four\nlines", "été 漢\u2028字", ""]
PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def texts_of(path, **options) -> list[str]:
    """Return the documents of a file as a table keeps them: in one line, shortened."""
    if not Path(path).is_dir() and Path(path).suffixes[0] != ".txt":
        options = {"text_field": "text", **options}
    return list(read_table(path, stop_words="none", **options).excerpts)


def one_line(texts: list[str]) -> list[str]:
    return [" ".join(text.split()) for text in texts]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def reported(caught, *words: str) -> None:
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("packed", PACK)
class TestForms:
    def write(self, path, content: str, packed: str):
        file = path.with_name(path.name + packed)
        file.write_bytes(PACK[packed](content.encode()))
        return file

    def test_json_lines(self, tmp_path, packed):
        content = "".join(json.dumps({"id": k, "text": t}) + "\n" for k, t in enumerate(TEXTS))
        assert texts_of(self.write(tmp_path / "d.jsonl", content + "\n", packed)) == one_line(TEXTS)

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_csv(self, tmp_path, packed, end):
        content = f"id,text{end}" + "".join(f"1,{quoted(t)}{end}" for t in TEXTS)
        assert texts_of(self.write(tmp_path / "d.csv", content, packed)) == one_line(TEXTS)

    def test_tsv(self, tmp_path, packed):
        texts = ['"not a quote', "plain"]
        content = "text\tid\n" + "".join(f"{t}\t7\n" for t in texts)
        assert texts_of(self.write(tmp_path / "d.tsv", content, packed)) == texts

    @pytest.mark.parametrize("last", ["", "\n"])
    def test_a_document_per_line(self, tmp_path, packed, last):
        file = self.write(tmp_path / "d.txt", "one\n\nthree" + last, packed)
        assert texts_of(file) == ["one", "", "three"]

    def test_folder(self, tmp_path, packed):
        folder = tmp_path / "d"
        (folder / "sub").mkdir(parents=True)
        self.write(folder / "b.txt", "second\nline\n", packed)
        self.write(folder / "a.txt", "first", packed)
        self.write(folder / "sub" / "c.txt", "third", packed)
        (folder / "notes.md").write_text("no document")
        assert texts_of(folder) == ["first", "second line", "third"]


class TestOptions:
    def test_fields_by_name_and_number(self, tmp_path):
        file = tmp_path / "d.csv"
        file.write_text("title,body\na,b\n")
        assert texts_of(file, text_field="body") == ["b"]
        assert texts_of(file, text_field="1") == ["body", "b"]
        assert texts_of(file, text_field="1", header=True) == ["b"]
        assert texts_of(file, text_field="-2", header=True) == ["a"]

    def test_format_given(self, tmp_path):
        file = tmp_path / "d.dat"
        file.write_text('{"text": "a"}\n')
        with pytest.raises(InvalidSettingError, match="give the format"):
            texts_of(file)
        assert texts_of(file, format="jsonl") == ["a"]
        assert texts_of(file, format="text") == ['{"text": "a"}']

    def test_byte_order_mark(self, tmp_path):
        file = tmp_path / "d.csv"
        file.write_bytes(b"\xef\xbb\xbftext\na\n")
        assert texts_of(file) == ["a"]

    def test_long_fields(self, tmp_path):
        file = tmp_path / "d.csv"
        file.write_text("text\n" + "word " * 60_000 + "\n")
        (text,) = texts_of(file)
        assert text == " ".join(["word"] * 84) + " …"

    @pytest.mark.parametrize(
        "options",
        [{"format": "xml"}, {"format": "folder"}],
    )
    def test_settings(self, tmp_path, options):
        file = tmp_path / "d.txt"
        file.write_text("a\n")
        with pytest.raises(InvalidSettingError):
            texts_of(file, **options)


FAULTS = {
    "header only": ("d.csv", "id,text\n", "no rows"),
    "other fields": ("d.csv", 'id,text\n1,"two\nlines"\n2,a,b\n3,c\n', "line 4: 3 fields"),
    "text after a quote": ("d.csv", 'id,text\n0,fine\n1,"a"b\n', "line 3"),
    "open quote": ("d.csv", 'id,text\n0,fine\n1,"never closed\n2,c\n', "line 3"),
    "no such column": ("d.csv", "id,body\n1,a\n", "'text'.*'body'"),
    "not JSON": ("d.jsonl", '{"text": "a"}\n{"text": \n', "line 2: not JSON"),
    "no such field": ("d.jsonl", '{"text": "a"}\n\n{"body": "b"}\n', "line 3: .*'text'.*'body'"),
    "null": ("d.jsonl", '{"text": null}\n', "line 1: .*expected text"),
    "not compressed": ("d.txt.bz2", "BZh9" + "nothing of the kind" * 10, "damaged"),
    **{f"empty {end}": (f"d.{end}", "", "is empty") for end in ("jsonl", "csv", "tsv", "txt")},
}


class TestFaults:
    def fails(self, path, *words: str, **options):
        with pytest.raises(InvalidDataError) as caught:
            texts_of(path, **options)
        reported(caught, str(path), *words)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_the_error_names_file_and_line(self, tmp_path, fault):
        name, content, message = FAULTS[fault]
        (tmp_path / name).write_text(content)
        with pytest.raises(InvalidDataError, match=message) as caught:
            texts_of(tmp_path / name)
        reported(caught, str(tmp_path / name))

    def test_no_file(self, tmp_path):
        with pytest.raises(DatasetNotFoundError, match=r"none\.csv does not exist"):
            texts_of(tmp_path / "none.csv")

    def test_folder_without_texts(self, tmp_path):
        self.fails(tmp_path, "without .png or .txt files")

    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.txt"])
    def test_bytes_that_are_not_utf8(self, tmp_path, name):
        lines = {"d.jsonl": b'{"text": "%s"}', "d.csv": b"%s", "d.txt": b"%s"}[name]
        first = b"" if name != "d.csv" else b"text\n"
        file = tmp_path / name
        file.write_bytes(first + lines % b"fine" + b"\n" + lines % b"caf\xe9" + b"\n")
        line = 3 if name == "d.csv" else 2
        self.fails(file, f"line {line}", "0xe9", 'encoding="latin-1"')
        assert texts_of(file, encoding="latin-1") == ["fine", "café"]

    def test_bytes_that_are_not_utf8_in_a_folder(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"fine\n\xff\n")
        self.fails(tmp_path, "a.txt, line 2", "0xff")

    def test_half_a_surrogate_pair(self, tmp_path):
        file = tmp_path / "d.jsonl"
        file.write_text('{"text": "a \\ud83d b"}\n')
        with pytest.raises(InvalidDataError) as caught:
            read_table(file)
        reported(caught, str(file), "document 0", "surrogate")

    @pytest.mark.parametrize("packed", [".gz", ".xz", ".bz2"])
    def test_cut_short(self, tmp_path, packed):
        import random

        noise = random.Random(0).randbytes(200_000).hex()
        lines = "\n".join(noise[k : k + 100] for k in range(0, len(noise), 100))
        file = tmp_path / f"d.txt{packed}"
        content = PACK[packed](lines.encode())
        file.write_bytes(content[: len(content) // 2])
        self.fails(file, "damaged or incomplete")
        assert file.stat().st_size == len(content) // 2

    @pytest.mark.parametrize(
        "text",
        ["a,b,c\n1,0,1\n0,1,1\n", "a\tb\n1\t0\n", "whole milk,rolls\nsoda\nsoda,rolls\nbeer\n"],
    )
    def test_fields_in_a_text_file_are_no_documents(self, tmp_path, text):
        path = tmp_path / "rows.txt"
        path.write_text(text)
        with pytest.raises(InvalidDataError) as caught:
            read_table(path)
        reported(caught, str(path), "format='csv'", "format='baskets'", "format='text'")
        n_lines, is_table = text.count("\n"), "0" in text
        found = read_table(path, format="csv" if is_table else "baskets").observations
        assert found.n_rows == n_lines - is_table

    def test_sentences_with_commas_are_documents(self, tmp_path):
        path = tmp_path / "rows.txt"
        path.write_text("one, two\n10,000 things, or more\nthree,four, five\nno comma\n")
        assert read_table(path).documents


class TestBagsOfWords:
    def expect(self, found):
        assert found.documents
        assert found.observations.column_names is not None
        words = sorted(found.observations.column_names)
        assert words == ["bird", "cat", "dog", "sat"]
        number = {name: k for k, name in enumerate(found.observations.column_names)}
        rows = [{"cat", "sat"}, {"dog", "cat"}, {"bird"}, {"dog", "bird"}]
        expected = np.zeros((4, 4))
        for k, row in enumerate(rows):
            expected[k, [number[word] for word in row]] = 1
        np.testing.assert_array_equal(found.observations.to_dense(), expected)

    def test_a_line_each(self):
        self.expect(rows_of(written("d.txt", "\n".join(DOCUMENTS))))

    def test_json(self):
        lines = "\n".join(json.dumps({"text": text, "id": k}) for k, text in enumerate(DOCUMENTS))
        found = rows_of(written("d.jsonl", lines), id_column="id")
        self.expect(found)
        assert found.row_names == ("0", "1", "2", "3")
        self.expect(rows_of(written("d.jsonl", "\n".join(map(json.dumps, DOCUMENTS)))))

    def test_csv(self):
        lines = "\n".join(f'{k},"{text}"' for k, text in enumerate(DOCUMENTS))
        self.expect(rows_of(written("d.csv", "no,body\n" + lines), text_field="body"))
        found = rows_of(written("d.csv", lines), text_field="1", id_column="0")
        self.expect(found)
        assert found.row_names == ("0", "1", "2", "3")

    def test_a_folder(self):
        for number, text in enumerate(DOCUMENTS):
            path = Path(f"d/{'ab'[number // 2]}/{number}.txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = rows_of("d")
        self.expect(found)
        assert found.row_names == ("a/0.txt", "a/1.txt", "b/2.txt", "b/3.txt")

    def test_the_vocabulary(self):
        path = written("d.txt", "\n".join(DOCUMENTS))
        assert rows_of(path, vocabulary=2).observations.n_visible == 2
        everything = rows_of(path, stop_words="none").observations.column_names
        assert {"the", "dont", "42", "a"} <= set(everything)
        assert "" not in everything
        assert (
            "the"
            not in rows_of(
                written("d.txt", "the cat\nthe dog\nthe bird\nthe cow"), stop_words="none"
            ).observations.column_names
        )
        with pytest.raises(InvalidDataError, match=r"d\.txt: no word is left"):
            rows_of(written("d.txt", "the\nand\n"))


# ---- JSON lines


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
        table = read_table(path, vocabulary=50)
        assert table.documents
        assert "storm" in table.observations.column_names
        assert table.row_names == ("Paper 0", "Paper 1", "Paper 2", "Paper 3")
        assert [text[:10] for text in table.excerpts] == ["we measure"] * 4

    def test_short_texts_beside_tags_leave_the_tags(self, tmp_path):
        path = tmp_path / "papers.jsonl"
        path.write_text('{"tags": ["a", "b"], "title": "One"}\n{"tags": ["a"], "title": "Two"}\n')
        table = read_table(path)
        assert table.observations.column_names == ("a", "b")


def test_objects_of_numbers_are_refused():
    path = written("d.jsonl", '{"a": 1, "b": 0}\n')
    with pytest.raises(InvalidDataError, match=r"line 1.*'a', 'b'.*CSV"):
        rows_of(path)
