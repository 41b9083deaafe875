from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from itertools import islice

import numpy as np
import pytest

from noisyor.data import vectorize
from noisyor.errors import DatasetNotFoundError, InvalidDataError, InvalidSettingError
from reproduction import datasets
from reproduction.datasets import text
from reproduction.datasets.download import FILES, DataFile
from reproduction.datasets.text import clean_description


def tar(path, files: dict[str, bytes], mode: str = "w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def unpacked(folder, files: dict[str, bytes]):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / next(iter(files)).partition("/")[0]


def csv_bytes(rows: list[list[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def words(observations) -> list[set[str]]:
    rows = np.split(observations.columns, observations.ptr[1:-1])
    return [{observations.column_names[c] for c in row} for row in rows]


REVIEWS = {
    "aclImdb/README": b"read me",
    "aclImdb/train/pos/10_9.txt": b"good tenth",
    "aclImdb/train/pos/9_8.txt": b"good ninth",
    "aclImdb/train/neg/11_1.txt": b"bad<br />eleventh",
    "aclImdb/train/unsup/0_0.txt": b"unknown",
    "aclImdb/train/urls_pos.txt": b"http://example.org",
    "aclImdb/test/neg/0_2.txt": b"bad film, good cast",
    "aclImdb/test/pos/0_10.txt": b"tenth",
}


class TestImdb:
    @pytest.mark.parametrize("make", [tar, unpacked])
    def test_layout(self, tmp_path, make):
        source = make(tmp_path if make is unpacked else tmp_path / "aclImdb_v1.tar.gz", REVIEWS)
        data = datasets.load_imdb(source)
        assert data.name == "imdb_reviews"
        assert words(data.train) == [{"badbr", "eleventh"}, {"good", "ninth"}, {"good", "tenth"}]
        assert words(data.test) == [{"good"}, {"tenth"}]

    def test_a_part_is_missing(self, tmp_path):
        files = {name: text for name, text in REVIEWS.items() if "/test/" not in name}
        with pytest.raises(InvalidDataError, match="no review in test/neg or test/pos"):
            datasets.load_imdb(tar(tmp_path / "a.tar.gz", files))

    def test_cut_short(self, tmp_path, data_dir):
        whole = (data_dir / "aclImdb_layout_sample.tar.gz").read_bytes()
        file = tmp_path / "aclImdb_v1.tar.gz"
        file.write_bytes(whole[: len(whole) // 3])
        with pytest.raises(InvalidDataError, match="damaged or incomplete"):
            datasets.load_imdb(file)
        assert file.stat().st_size == len(whole) // 3

    def test_bytes_that_are_not_utf8(self, tmp_path):
        files = REVIEWS | {"aclImdb/test/pos/1_7.txt": b"fine\ncaf\xe9"}
        with pytest.raises(InvalidDataError, match=r"pos/1_7\.txt, line 2: byte 0xe9"):
            datasets.load_imdb(tar(tmp_path / "a.tar.gz", files))

    def test_original_layout_and_local_copy_are_the_same(self, tmp_path, real_data):
        """The first fifty of each folder, from the sample archive and from the JSON lines."""
        parts = []
        for part in ("train", "test"):
            with lzma.open(real_data / f"imdb_reviews_{part}.jsonl.xz", "rt") as lines:
                # negative ones first: these have the first fifty of both
                records = [json.loads(line) for line in islice(lines, 12_550)]
            parts.append([r["text"] for y in (0, 1) for r in records if r["label"] == y][:50])
            parts[-1] += [r["text"] for r in records if r["label"] == 1][:50]
        expected = vectorize(*parts)
        data = datasets.load_imdb(real_data / "aclImdb_layout_sample.tar.gz")
        assert data.vocabulary == expected.vocabulary
        assert data.train.fingerprint() == expected.train.fingerprint()
        assert data.test.fingerprint() == expected.test.fingerprint()

    def test_real(self, real_data, tmp_path, monkeypatch):
        """The first thousand reviews of each part, words counted by a few lines without noisyor."""
        for part in ("train", "test"):
            name = f"imdb_reviews_{part}.jsonl.xz"
            with lzma.open(real_data / name) as lines:
                start = b"".join(islice(lines, 1_000))
            (tmp_path / name).write_bytes(lzma.compress(start, preset=0))
            file = DataFile(name, None, None, "https://example.org")  # another checksum
            monkeypatch.setitem(FILES, name, file)
        monkeypatch.setenv("NOISYOR_DATA", str(tmp_path))
        data = datasets.load_imdb()
        assert data.train.n_rows == data.test.n_rows == 1_000
        assert data.train.n_visible == len(data.vocabulary) == 10_000
        assert data.vocabulary[:7] == ("", "[UNK]", "the", "a", "and", "to", "of")
        assert data.train.column_counts()[:2].tolist() == [0, 0]
        assert (data.train.n_active, data.test.n_active) == (125_677, 117_863)

    def test_nowhere(self, monkeypatch):
        file = FILES["aclImdb_v1.tar.gz"]
        url = "http://127.0.0.1:9/aclImdb_v1.tar.gz"
        monkeypatch.setitem(FILES, file.name, DataFile(file.name, file.sha256, url, file.origin))
        with pytest.raises(DatasetNotFoundError, match=url):
            datasets.load_imdb()


class TestLimits:
    """A small archive can unpack to more text than memory holds, in one line or in many."""

    @pytest.mark.parametrize("line", [b"a\n", b"word " * 1000], ids=["lines", "one line"])
    def test_a_review_that_never_ends(self, tmp_path, line):
        endless = line * (20 * 2**20 // len(line))
        files = REVIEWS | {"aclImdb/test/pos/1_7.txt": endless}
        with pytest.raises(InvalidDataError, match=r"pos/1_7\.txt.* 1 MB"):
            datasets.load_imdb(tar(tmp_path / "a.tar", files, "w"))

    def test_too_many_reviews(self, tmp_path, monkeypatch):
        monkeypatch.setattr(text, "MAX_REVIEWS", 2**20)
        review = b"line\n" * 1_400  # 98 kB with what a line counts
        files = {f"aclImdb/train/pos/{number}_9.txt": review for number in range(12)}
        with pytest.raises(InvalidDataError, match=r"pos/10_9\.txt.* 1 MB"):
            datasets.load_imdb(tar(tmp_path / "a.tar.gz", files))

    @pytest.mark.parametrize("record", ['"1","title","bears"\n', '{"abstract_text": ["a"]}\n'])
    def test_lines_that_never_end(self, tmp_path, monkeypatch, record):
        monkeypatch.setattr(text, "MAX_TABLE", 2**20)
        monkeypatch.setattr(text, "MAX_ARTICLES", 2**20)
        content = record.encode() * (2**21 // len(record))
        name, load = (
            ("csv", datasets.load_ag_news)
            if record.startswith('"')
            else ("txt", datasets.load_scientific_papers)
        )
        files = {f"d/{part}.{name}": content for part in ("train", "test")}
        with pytest.raises(InvalidDataError, match=rf"train\.{name}.* 1 MB"):
            load(tar(tmp_path / "a.tar.gz", files))


class TestAgNews:
    TRAIN = csv_bytes([["3", "Title", "Wall St. bears"], ["1", "Other", 'A "quoted" bear']])
    TEST = csv_bytes([["4", "Space", "bears in space"]])

    @pytest.mark.parametrize("make", [tar, unpacked])
    def test_layout(self, tmp_path, make):
        files = {"ag_news_csv/train.csv": self.TRAIN, "ag_news_csv/test.csv": self.TEST}
        source = make(tmp_path if make is unpacked else tmp_path / "ag_news_csv.tgz", files)
        data = datasets.load_ag_news(source)
        assert data.name == "ag_news_subset"
        assert words(data.train) == [{"wall", "st", "bears"}, {"a", "quoted", "bear"}]
        assert words(data.test) == [{"bears"}]

    def test_a_bad_row(self, tmp_path):
        files = {"d/train.csv": self.TRAIN + b'"2","no description"\n', "d/test.csv": self.TEST}
        with pytest.raises(InvalidDataError, match=r"train\.csv, line 3: 2 fields, expected 3"):
            datasets.load_ag_news(unpacked(tmp_path, files))

    def test_a_part_is_missing(self, tmp_path):
        with pytest.raises(InvalidDataError, match=r"no document in a file test\.csv"):
            datasets.load_ag_news(unpacked(tmp_path, {"d/train.csv": self.TRAIN}))

    def test_union(self, real_data):
        data = datasets.load_ag_news_union()
        assert "77,006 of 120,000" in data.name
        assert (data.train.n_rows, data.test.n_rows) == (77_006, 7_600)
        first = words(data.test)[0]
        assert "representing" in first
        assert "fears" not in first  # of the title


class TestYelp:
    @pytest.mark.parametrize("make", [tar, unpacked])
    def test_layout(self, tmp_path, make):
        folder = "yelp_review_polarity_csv"
        files = {
            f"{folder}/readme.txt": b"train.csv",
            f"{folder}/test.csv": csv_bytes([["1", "Bad food"]]),
            f"{folder}/train.csv": csv_bytes([["2", 'Good food.\\nReally "good"'], ["1", "bad"]]),
        }
        source = make(tmp_path if make is unpacked else tmp_path / f"{folder}.tgz", files)
        data = datasets.load_yelp(source)
        assert data.name == "yelp_polarity_reviews"
        assert words(data.train) == [{"good", "foodnreally"}, {"bad"}]
        assert words(data.test) == [{"bad"}]


class TestScientificPapers:
    def zipped(self, path, train: list[dict], test: list[dict]):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, records in (("train", train), ("val", train), ("test", test)):
                lines = "".join(json.dumps(record) + "\n" for record in records)
                archive.writestr(f"arxiv-dataset/{part}.txt", lines)
                archive.writestr(f"__MACOSX/arxiv-dataset/._{part}.txt", b"\x00")
        return path

    def test_layout(self, tmp_path):
        papers = [
            {"article_id": "1", "abstract_text": ["<S> we study s . </S>", "<S> a result </S>"]},
            {"article_id": "2", "abstract_text": []},
        ]
        data = datasets.load_scientific_papers(
            self.zipped(tmp_path / "arxiv-dataset.zip", papers, papers[:1])
        )
        assert data.name == "scientific_papers"
        assert words(data.train) == [{"we", "study", "s", "a", "result"}, set()]
        assert data.train.column_counts()[2:].tolist() == [1] * 5
        assert words(data.test) == [{"we", "study", "s", "a", "result"}]

    def test_no_abstract(self, tmp_path):
        file = self.zipped(tmp_path / "a.zip", [{"abstract_text": ["a"]}, {"article_id": "2"}], [])
        with pytest.raises(InvalidDataError, match=r"train\.txt, line 2: .*abstract_text"):
            datasets.load_scientific_papers(file)

    def test_substitute(self, tmp_path, monkeypatch):
        name = "arxiv_abstracts_1991_2017.jsonl.xz"
        parts = ["train", "validation", "test", "train"]
        lines = "".join(
            json.dumps({"split": part, "abstract": f"w{k} w0"}) + "\n"
            for k, part in enumerate(parts)
        )
        (tmp_path / name).write_bytes(lzma.compress(lines.encode()))
        monkeypatch.setenv("NOISYOR_DATA", str(tmp_path))
        monkeypatch.setitem(FILES, name, DataFile(name, None, None, "https://example.org"))
        data = datasets.load_arxiv_years()
        assert "in place of scientific_papers" in data.name
        assert words(data.train) == [{"w0"}, {"w0", "w3"}]
        assert words(data.test) == [{"w0"}]


def patents(*texts: str) -> bytes:
    lines = (json.dumps({"publication_number": "US-1", "description": text}) for text in texts)
    return gzip.compress(("\n".join(lines) + "\n").encode())


LONG = "the valve of this engine opens when a spring is pressed against it"
PATENTS = {
    "train/a/data_0.gz": patents("chemistry " + LONG),
    "train/f/data_0.gz": patents(LONG, "too short"),
    "train/f/data_1.gz": patents("a wheel turns in " + LONG),
    "test/f/data_0.gz": patents("no spring in " + LONG),
}


class TestBigPatent:
    def archive(self, folder, form: str):
        parts = {}
        for part in ("train", "val", "test"):
            files = {name: text for name, text in PATENTS.items() if name.startswith(part)}
            if form == "zip":
                with zipfile.ZipFile(folder / f"{part}.zip", "w") as archive:
                    for name, content in files.items():
                        archive.writestr(name, content)
            else:
                inner = tar(folder / f"{part}.tar.gz", files)
                parts[f"bigPatentDataNonTokenized/{part}.tar.gz"] = inner.read_bytes()
        if form == "nested":
            return tar(folder / "bigPatentDataNonTokenized.tar.gz", parts)
        return folder

    @pytest.mark.parametrize("form", ["nested", "tar", "zip", "folder"])
    def test_layouts(self, tmp_path, form):
        if form == "folder":
            unpacked(tmp_path, PATENTS)
            source = tmp_path
        else:
            source = self.archive(tmp_path, form)
        data = datasets.load_big_patent(source)
        assert data.name == "big_patent/f"
        long = set(LONG.split())
        assert words(data.train) == [long, set(), long | {"wheel", "turns", "in"}]
        assert words(data.test) == [long | {"in"}]

    def test_other_class(self, tmp_path):
        with pytest.raises(InvalidDataError, match="no patent in test/a"):
            datasets.load_big_patent(self.archive(tmp_path, "tar"), code="a")
        with pytest.raises(InvalidSettingError, match="code"):
            datasets.load_big_patent(tmp_path, code="x")

    @pytest.mark.parametrize("form", ["nested", "tar"])
    def test_cut_short(self, tmp_path, form):
        source = self.archive(tmp_path, form)
        file = source if form == "nested" else tmp_path / "train.tar.gz"
        file.write_bytes(file.read_bytes()[:-30])
        with pytest.raises(InvalidDataError, match="damaged or incomplete"):
            datasets.load_big_patent(source)


WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda"
MANY_WORDS = " ".join("word" + chr(97 + k) for k in range(21))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (WORDS, WORDS),
        ("ten different words are not enough for a line here\n" + WORDS, WORDS),
        (f"[0001] {WORDS}\n\n  [0002]{WORDS}  ", f"{WORDS}\n{WORDS}"),
        (f"{WORDS}\nTABLE 1\n{WORDS}\n1 2 3", WORDS),
        (
            f"{WORDS}\nTABLE 12 values of {WORDS}\n{MANY_WORDS}\n{WORDS}",
            f"{WORDS}\n{MANY_WORDS}\n{WORDS}",
        ),
        (f"TABLE 1a {WORDS}", f"TABLE 1a {WORDS}"),
        (f"see FIG. 3 and FIGS. 4, 5 of {WORDS}", f"see FIG3 and FIG4 of {WORDS}"),
        (f"FIGURE 7 shows  {WORDS}", f"FIG7 shows {WORDS}"),
        ("", ""),
    ],
)
def test_descriptions_of_patents_are_cleaned(text, cleaned):
    assert clean_description(text) == cleaned
