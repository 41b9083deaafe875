"""Every format of a user's file gives the same rows, and damaged files one line."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import noisyor as nor
from noisyor.cli.options import FORMAT_NAMES
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError, MissingExtraError, NoisyOrError
from noisyor.tables import FORMATS, ReadOptions, read_table

COLUMNS = ("hair", "eggs", "milk", "legs, four")
NAMES = ("bear", "bee", "carp")
X = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=np.uint8)
EXPECTED = Observations.of(X)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(name: str, text: str | bytes) -> Path:
    path = Path(name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(delimiter: str = ",", quote: str = '"') -> str:
    header = delimiter.join(["animal", *(f"{quote}{name}{quote}" for name in COLUMNS)])
    rows = (delimiter.join([name, *map(str, row)]) for name, row in zip(NAMES, X, strict=True))
    return "\n".join([header, *rows]) + "\n"


def rows_of(path, **options):
    return read_table(path, ReadOptions(**options))


def tags() -> list[list[str]]:
    return [[COLUMNS[k] for k in np.flatnonzero(row)] for row in X]


class TestTables:
    @pytest.mark.parametrize(
        ("name", "delimiter"), [("d.csv", ","), ("d.csv", ";"), ("d.csv", "|")]
    )
    def test_csv_with_names(self, name, delimiter):
        found = rows_of(written(name, table(delimiter)), id_column="animal")
        assert found.observations.fingerprint() == EXPECTED.fingerprint()
        assert found.observations.column_names == COLUMNS
        assert found.row_names == NAMES
        assert found.format == "csv"

    def test_tsv(self):
        found = rows_of(written("d.tsv", table("\t", quote="")), id_column="0")
        assert found.observations.column_names == COLUMNS
        assert found.row_names == NAMES

    def test_without_a_header(self):
        text = "\n".join(",".join(map(str, row)) for row in X)
        found = rows_of(written("d.csv", text))
        assert found.observations.fingerprint() == EXPECTED.fingerprint()
        assert found.observations.column_names is None
        text = "0,1\n1,1\n0,1\n"  # names that look like values
        assert rows_of(written("d.csv", text)).observations.n_rows == 3
        assert rows_of(written("d.csv", text), header=True).observations.column_names == ("0", "1")

    def test_a_frame_written_with_its_labels(self):
        import pandas

        pandas.DataFrame(X, columns=list(COLUMNS), index=list(NAMES)).to_csv("d.csv")
        found = rows_of("d.csv")
        assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)
        pandas.DataFrame(X).to_csv("d.csv", index=False)  # names 0, 1, 2, 3
        assert rows_of("d.csv").observations.fingerprint() == EXPECTED.fingerprint()

    def test_missing_entries_and_other_spellings(self):
        found = rows_of(written("d.csv", "a,b,c\n1, NA,?\n,0.0,True\nno,YES,nan\n"))
        dense = found.observations.to_dense()
        expected = [[1, np.nan, np.nan], [np.nan, 0, 1], [0, 1, np.nan]]
        np.testing.assert_array_equal(dense, expected)

    def test_columns_can_be_dropped(self):
        found = rows_of(written("d.csv", table()), drop=("animal", "eggs"))
        assert found.observations.column_names == ("hair", "milk", "legs, four")

    def test_a_threshold(self):
        found = rows_of(written("d.csv", "a,b\n0.2,3\n,-1\n"), above=0.5)
        np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1], [np.nan, 0]])

    @pytest.mark.parametrize("packer", [gzip.compress, lzma.compress])
    def test_compressed(self, packer):
        found = rows_of(
            written("d.csv.packed", packer(table().encode())), format="csv", drop=("0",)
        )
        assert found.observations.fingerprint() == EXPECTED.fingerprint()

    def test_large_files_come_in_blocks(self, monkeypatch):
        monkeypatch.setattr("noisyor.tables.delimited._BLOCK_CELLS", 5)
        found = rows_of(written("d.csv", table()), id_column="animal")
        assert found.observations.fingerprint() == EXPECTED.fingerprint()
        assert found.observations.row_ids.tolist() == [0, 1, 2]

    def test_parquet(self):
        import pandas

        frame = pandas.DataFrame(X, columns=list(COLUMNS))
        frame["milk"] = pandas.array([True, None, False], dtype="boolean")
        frame.insert(0, "animal", NAMES)
        frame.to_parquet("d.parquet")
        found = rows_of("d.parquet", id_column="animal")
        assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)
        assert np.isnan(found.observations.to_dense()[1, 2])
        with pytest.raises(InvalidDataError, match=r"column 'animal'.*--id-column animal"):
            rows_of("d.parquet")

    def test_parquet_without_its_library(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        with pytest.raises(MissingExtraError, match=r"noisyor\[parquet\]"):
            rows_of(written("d.parquet", "PAR1"))


class TestLists:
    def test_baskets(self):
        text = "\n".join(",".join(f'"{tag}"' for tag in row) for row in tags())
        found = rows_of(written("d.csv", text), format="baskets")
        order = [found.observations.column_names.index(name) for name in COLUMNS]
        np.testing.assert_array_equal(found.observations.to_dense()[:, order], X)
        assert found.observations.column_names[:2] == ("eggs", "hair")  # the most frequent

    def test_the_most_frequent_items(self):
        found = rows_of(written("d.baskets", "a,b\na\na,b,c\n"), vocabulary=2)
        assert found.observations.column_names == ("a", "b")
        assert found.observations.n_active == 5

    @pytest.mark.parametrize("named", [False, True])
    def test_json_tags(self, named):
        lines = (
            json.dumps({"animal": name, "has": row} if named else row)
            for name, row in zip(NAMES, tags(), strict=True)
        )
        found = rows_of(written("d.jsonl", "\n".join(lines)), id_column="animal" if named else None)
        order = [found.observations.column_names.index(name) for name in COLUMNS]
        np.testing.assert_array_equal(found.observations.to_dense()[:, order], X)
        assert found.row_names == (NAMES if named else None)

    def test_json_objects(self):
        records = [dict(zip(COLUMNS, map(int, row), strict=True)) for row in X]
        records[1]["milk"] = None
        del records[2]["legs, four"]
        found = rows_of(written("d.jsonl", "\n".join(map(json.dumps, records))))
        expected = X.astype(float)
        expected[1, 2] = expected[2, 3] = np.nan
        np.testing.assert_array_equal(found.observations.to_dense(), expected)

    def test_json_objects_that_list_only_what_is_there(self):
        found = rows_of(written("d.jsonl", '{"a": 1}\n{"b": true, "a": 1}\n{}\n'))
        np.testing.assert_array_equal(found.observations.to_dense(), [[1, 0], [1, 1], [0, 0]])


class TestArrays:
    @pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.float32, ">f8", np.int64])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_npy(self, dtype, order):
        np.save("d.npy", np.asarray(X, dtype=dtype, order=order))
        assert rows_of("d.npy").observations.fingerprint() == EXPECTED.fingerprint()

    def test_npz_with_names(self):
        np.savez("d.npz", X=X, columns=COLUMNS, names=NAMES, weights=np.eye(2))
        found = rows_of("d.npz")
        assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)

    def test_npz_is_read_in_blocks(self, monkeypatch):
        monkeypatch.setattr("noisyor.tables.arrays._BLOCK_BYTES", 8)
        np.savez_compressed("d.npz", X)
        assert rows_of("d.npz").observations.fingerprint() == EXPECTED.fingerprint()
        np.savez_compressed("d.npz", X * np.array([[1], [1], [2]]))
        with pytest.raises(InvalidDataError, match=r"row 2, column 1.*got 2"):
            rows_of("d.npz")

    def test_one_of_several(self):
        np.savez("d.npz", a=X, b=X[:2])
        with pytest.raises(InvalidDataError, match=r"several matrices: a \(3, 4\), b"):
            rows_of("d.npz")
        assert rows_of("d.npz", variable="b").observations.n_rows == 2
        with pytest.raises(InvalidDataError, match="no array 'c'; there are a, b"):
            rows_of("d.npz", variable="c")

    @pytest.mark.parametrize("build", [sp.csr_array, sp.csc_array, sp.csr_matrix])
    def test_sparse(self, build):
        sp.save_npz("d.npz", build(X))
        assert rows_of("d.npz").observations.fingerprint() == EXPECTED.fingerprint()
        found = rows_of("d.npz", transpose=True)
        np.testing.assert_array_equal(found.observations.to_dense(), X.T)

    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize(
        "value", [X, X.astype(float), X.astype(bool), sp.csc_matrix(X.astype(float))]
    )
    def test_matlab(self, value, packed):
        words = np.empty((1, 4), dtype=object)
        words[0] = ["hair", "eggs", "milk", "grün"]
        scipy.io.savemat("d.mat", {"X": value, "words": words, "n": 3}, do_compression=packed)
        found = rows_of("d.mat")
        assert found.observations.fingerprint() == EXPECTED.fingerprint()
        assert found.observations.column_names == ("hair", "eggs", "milk", "grün")

    def test_matlab_images_and_the_transpose(self):
        images = np.random.default_rng(0).integers(0, 2, (5, 3, 2)).astype(np.uint8)
        scipy.io.savemat("d.mat", {"images": images})
        found = rows_of("d.mat").observations
        assert found.shape == (3, 2)
        np.testing.assert_array_equal(found.to_dense(), images.reshape(5, -1))
        scipy.io.savemat("d.mat", {"documents": X.T.astype(float)})
        found = rows_of("d.mat", transpose=True)
        assert found.observations.fingerprint() == EXPECTED.fingerprint()

    def test_the_file_of_tiny20(self, data_dir):
        from noisyor.datasets import load_tiny20

        found = rows_of(data_dir / "20news_w100.mat", transpose=True).observations
        known = load_tiny20(data_dir / "20news_w100.mat").observations
        assert found.fingerprint() == known.fingerprint()
        assert found.column_names == known.column_names

    def test_objects_are_not_unpickled(self):
        np.save("d.npy", np.array([{"a": 1}], dtype=object))
        with pytest.raises(InvalidDataError, match="Python objects"):
            rows_of("d.npy")


class TestImages:
    def test_a_stack(self):
        images = np.random.default_rng(0).integers(0, 2, (5, 3, 2))
        np.save("d.npy", images)
        found = rows_of("d.npy").observations
        assert found.shape == (3, 2)
        np.testing.assert_array_equal(found.to_dense(), images.reshape(5, -1))

    @pytest.mark.parametrize("mode", ["L", "1", "RGB", "I;16"])
    def test_a_folder(self, mode):
        from PIL import Image

        images = np.random.default_rng(0).integers(0, 2, (4, 3, 5))
        Path("d").mkdir()
        for number, pixels in enumerate(images):
            if mode == "I;16":
                picture = Image.fromarray((pixels * 65535).astype(np.uint16))
            else:
                picture = Image.fromarray((pixels * 255).astype(np.uint8)).convert(mode)
            picture.save(f"d/{number}.png")
        found = rows_of("d")
        assert (found.format, found.row_names) == ("images", ("0.png", "1.png", "2.png", "3.png"))
        assert found.observations.shape == (3, 5)
        np.testing.assert_array_equal(found.observations.to_dense(), images.reshape(4, -1))
        inverted = rows_of("d", invert=True).observations
        np.testing.assert_array_equal(inverted.to_dense(), 1 - images.reshape(4, -1))


DOCUMENTS = ["The cat sat.", "the dog, the cat", "A bird! don't 42", "dog and bird"]


class TestDocuments:
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


class TestModels:
    """Data are brought into the columns of a model."""

    NETWORK = nor.bipartite(2, 1, visible_names=["milk", "hair"])

    def test_by_name(self):
        found = read_table(written("d.csv", table()), ReadOptions(id_column="animal"), self.NETWORK)
        np.testing.assert_array_equal(found.observations.to_dense(), X[:, [2, 0]])
        # A column that the model does not have may hold anything.
        found = read_table(written("d.csv", table()), ReadOptions(), self.NETWORK)
        np.testing.assert_array_equal(found.observations.to_dense(), X[:, [2, 0]])

    def test_items_and_words_that_are_not_known(self):
        found = read_table(written("d.baskets", "hair,horns\nmilk\n"), None, self.NETWORK)
        np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1], [1, 0]])
        assert found.ignored == 1
        found = read_table(written("d.txt", "Hair everywhere\n"), None, self.NETWORK)
        np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1]])

    def test_by_position(self):
        np.save("d.npy", X[:, :2])
        assert read_table("d.npy", None, self.NETWORK).observations.n_visible == 2
        np.save("d.npy", X)
        with pytest.raises(InvalidDataError, match=r"d\.npy has 4 columns.*learned from 2"):
            read_table("d.npy", None, self.NETWORK)

    def test_images_of_another_shape(self):
        network = nor.convolutional((2, 3), 1, (1, 1))
        np.save("d.npy", np.zeros((2, 3, 2)))
        with pytest.raises(InvalidDataError, match=r"images of 3 x 2.*2 x 3"):
            read_table("d.npy", None, network)


class TestOptions:
    def test_the_command_line_offers_every_format(self):
        assert tuple(FORMATS) == FORMAT_NAMES

    def test_json(self):
        options = ReadOptions(format="csv", drop=("a", "b"), above=0.5)
        assert ReadOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
        assert ReadOptions().to_json() == {}
        for record in ({"colour": 1}, {"format": "pdf"}, {"max_share": "x"}, []):
            with pytest.raises(InvalidSettingError):
                ReadOptions.from_json(record)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"format": "pdf"},
            {"delimiter": ",,"},
            {"encoding": "utf-16"},
            {"max_share": 0.0},
            {"above": float("nan")},
            {"vocabulary": 0},
        ],
    )
    def test_wrong_values(self, wrong):
        with pytest.raises(InvalidSettingError, match=next(iter(wrong))):
            ReadOptions(**wrong)


def test_fuzzed_files():
    """Damage of any kind is an error of our family in one line that names the file."""
    import pandas

    random = np.random.default_rng(7)
    big = random.integers(0, 2, (40, 6))
    np.save("a.npy", big)
    np.savez_compressed("a.npz", X=big)
    sp.save_npz("s.npz", sp.csr_array(big))
    scipy.io.savemat("a.mat", {"X": sp.csc_matrix(big.astype(float))})
    scipy.io.savemat("b.mat", {"X": big.astype(float)}, do_compression=True)
    pandas.DataFrame(big, columns=list("abcdef")).to_parquet("a.parquet")
    pandas.DataFrame(big, columns=list("abcdef")).to_csv("a.csv")
    written("a.jsonl", "\n".join(json.dumps(dict(enumerate(row.tolist()))) for row in big))
    refused = 0
    for source in sorted(Path().iterdir()):
        content = source.read_bytes()
        path = Path(f"fuzzed{source.suffix}")
        for _ in range(60):
            raw = bytearray(content)
            place = int(random.integers(len(raw)))
            if random.random() < 0.3:
                raw = raw[:place]
            elif random.random() < 0.5:
                raw[place : place + 8] = random.bytes(8)
            else:
                for where in random.integers(min(len(raw), 400), size=3):
                    raw[where] = int(random.choice([0, 1, 127, 128, 255]))
            path.write_bytes(raw)
            try:
                read_table(path)
            except NoisyOrError as error:
                refused += 1
                message = str(error)
            else:
                continue
            assert str(path) in message
            assert "\n" not in message
    assert refused > 300
