"""Files of archives and folders."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import tarfile
import zipfile

import pytest

from noisyor._util.files import reading
from noisyor.errors import DatasetNotFoundError, InvalidDataError
from reproduction.datasets.archives import members

FILES = {f"top/{k}.txt": random.Random(k).randbytes(3_000) for k in range(20)}


def tar_bytes(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def zip_bytes() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return buffer.getvalue()


ARCHIVES = {
    "a.tar": tar_bytes("w"),
    "a.tar.gz": tar_bytes("w:gz"),
    "a.tar.xz": tar_bytes("w:xz"),
    "a.tar.bz2": tar_bytes("w:bz2"),
    "a.zip": zip_bytes(),
}


def content_of(path) -> dict[str, bytes]:
    with reading(path):
        return {name: stream.read() for name, stream in members(path, lambda name: True)}


@pytest.mark.parametrize("name", ARCHIVES)
class TestArchives:
    def test_all_files(self, tmp_path, name):
        (tmp_path / name).write_bytes(ARCHIVES[name])
        assert content_of(tmp_path / name) == FILES

    def test_some_files(self, tmp_path, name):
        (tmp_path / name).write_bytes(ARCHIVES[name])
        wanted = [name for name, _ in members(tmp_path / name, lambda name: "/1" in name)]
        assert wanted == [name for name in FILES if "/1" in name]

    def test_any_cut_is_noticed(self, tmp_path, name):
        whole = ARCHIVES[name]
        file = tmp_path / name
        for share in (0.02, 0.3, 0.5, 0.77, 0.85):
            file.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(InvalidDataError, match="damaged or incomplete") as caught:
                content_of(file)
            assert str(file) in str(caught.value)
            assert "\n" not in str(caught.value)


class TestDamage:
    @pytest.mark.parametrize("packed", [bytes, gzip.compress, lzma.compress])
    def test_a_cut_between_two_files_is_noticed(self, tmp_path, packed):
        (tmp_path / "a.tar").write_bytes(packed(ARCHIVES["a.tar"][: 4 * (512 + 3_072)]))
        with pytest.raises(InvalidDataError, match="no end"):
            content_of(tmp_path / "a.tar")

    @pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.xz", "a.tar.bz2", "a.zip"])
    def test_changed_bytes_are_noticed(self, tmp_path, name):
        whole = bytearray(ARCHIVES[name])
        middle = len(whole) // 2
        whole[middle : middle + 40] = bytes(40)
        (tmp_path / name).write_bytes(whole)
        with pytest.raises(InvalidDataError, match="damaged or incomplete"):
            content_of(tmp_path / name)


class TestOther:
    def test_folder_in_the_order_of_names(self, tmp_path):
        for name in ("b/1.txt", "a.txt", "b/0.txt"):
            file = tmp_path / "top" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
        found = content_of(tmp_path / "top")
        assert list(found) == ["top/a.txt", "top/b/0.txt", "top/b/1.txt"]

    def test_no_archive(self, tmp_path):
        (tmp_path / "a.tar.gz").write_text("hello " * 200)
        with pytest.raises(InvalidDataError, match=r"a\.tar\.gz"):
            content_of(tmp_path / "a.tar.gz")

    def test_empty_file(self, tmp_path):
        (tmp_path / "a.tar.gz").write_bytes(b"")
        with pytest.raises(InvalidDataError, match=r"a\.tar\.gz"):
            content_of(tmp_path / "a.tar.gz")

    def test_nothing_there(self, tmp_path):
        with pytest.raises(DatasetNotFoundError):
            content_of(tmp_path / "a.tar.gz")
