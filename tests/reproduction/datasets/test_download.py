from __future__ import annotations

import hashlib
import lzma
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noisyor.errors import (
    DatasetNotFoundError,
    InvalidDataError,
    InvalidSettingError,
    MissingExtraError,
    NoisyOrError,
)
from reproduction.datasets import fetch
from reproduction.datasets.download import FILES, DataFile, cache_folder, find

CONTENT = b"some bytes of data\n" * 50
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CLOSED = "http://127.0.0.1:9/notes.bin"


@pytest.fixture
def known(monkeypatch):
    """Declare a file ``notes.bin``."""

    def declare(url: str | None = CLOSED, sha256: str | None = SHA256, name: str = "notes.bin"):
        monkeypatch.setitem(FILES, name, DataFile(name, sha256, url, "https://example.org/notes"))

    return declare


@pytest.fixture
def local(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "local"
    folder.mkdir()
    monkeypatch.setenv("NOISYOR_DATA", str(folder))
    return folder


def one_line(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestPlaces:
    def test_own_folder_before_cache_before_network(self, known, local, cache, server):
        served, address = server
        (served / "notes.bin").write_bytes(CONTENT)
        known(address + "notes.bin")
        assert fetch("notes.bin") == cache / "notes.bin"
        (served / "notes.bin").unlink()
        assert fetch("notes.bin") == cache / "notes.bin"
        (local / "notes.bin").write_bytes(CONTENT)
        assert fetch("notes.bin") == local / "notes.bin"

    def test_a_copy_may_be_compressed(self, known, local):
        known()
        (local / "notes.bin.xz").write_bytes(lzma.compress(CONTENT))
        assert fetch("notes.bin") == local / "notes.bin.xz"

    def test_a_compressed_copy_of_something_else(self, known, local):
        known()
        (local / "notes.bin.xz").write_bytes(lzma.compress(b"other"))
        with pytest.raises(InvalidDataError, match="another file than expected"):
            fetch("notes.bin")

    def test_names_with_folders(self, known, cache, server):
        served, address = server
        (served / "deep").mkdir()
        (served / "deep" / "notes.bin").write_bytes(CONTENT)
        known(address + "deep/notes.bin", name="deep/notes.bin")
        assert fetch("deep/notes.bin") == cache / "deep" / "notes.bin"

    def test_folder_that_is_none(self, monkeypatch, tmp_path, known):
        known()
        monkeypatch.setenv("NOISYOR_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(InvalidSettingError, match="nowhere"):
            fetch("notes.bin")

    def test_unknown_name(self):
        with pytest.raises(InvalidSettingError, match=r"20news_w100\.mat"):
            fetch("no such file")

    def test_find_downloads_nothing(self, known):
        known()
        assert find("notes.bin") is None


class TestDownload:
    def test_content_and_nothing_else_in_the_cache(self, known, cache, server):
        served, address = server
        (served / "notes.bin").write_bytes(CONTENT)
        known(address + "notes.bin")
        assert fetch("notes.bin").read_bytes() == CONTENT
        assert [path.name for path in cache.iterdir()] == ["notes.bin"]

    def test_progress(self, known, server, capsys):
        served, address = server
        (served / "notes.bin").write_bytes(CONTENT)
        known(address + "notes.bin")
        fetch("notes.bin", progress=True)
        assert "100%" in capsys.readouterr().err

    def test_quiet_where_there_is_no_terminal(self, known, server, capsys):
        served, address = server
        (served / "notes.bin").write_bytes(CONTENT)
        known(address + "notes.bin")
        fetch("notes.bin")
        assert capsys.readouterr() == ("", "")

    def test_wrong_checksum_is_not_kept(self, known, cache, server):
        served, address = server
        (served / "notes.bin").write_bytes(CONTENT[:-1])
        known(address + "notes.bin")
        with pytest.raises(InvalidDataError, match=SHA256) as caught:
            fetch("notes.bin")
        assert address in one_line(caught)
        assert list(cache.iterdir()) == []

    def test_a_connection_that_breaks_off(self, known, cache, server):
        served, address = server
        (served / "broken.bin").write_bytes(CONTENT)
        known(address + "broken.bin", sha256=None)
        with pytest.raises(DatasetNotFoundError, match="could not be downloaded"):
            fetch("notes.bin")
        assert list(cache.iterdir()) == []

    def test_the_next_download_removes_what_a_killed_one_left(self, known, cache, server):
        served, address = server
        (served / "notes.bin").write_bytes(CONTENT)
        known(address + "notes.bin")
        worker = """
import os, pooch, signal, sys
from reproduction.datasets import download
file = download.DataFile("notes.bin", None, sys.argv[1], "")
download.cache_folder = lambda: download.Path(sys.argv[2])
download._check_download = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
download._download(file, sys.argv[1], False)
"""
        cache.mkdir(exist_ok=True)
        command = [sys.executable, "-c", worker, address + "notes.bin", str(cache)]
        assert subprocess.run(command, timeout=60).returncode == -signal.SIGKILL
        assert len(list(cache.iterdir())) == 1
        assert fetch("notes.bin").read_bytes() == CONTENT
        assert [path.name for path in cache.iterdir()] == ["notes.bin"]

    def test_offline_names_address_and_place(self, known, cache):
        known()
        with pytest.raises(DatasetNotFoundError, match=r"notes\.bin is not on this") as caught:
            fetch("notes.bin")
        text = one_line(caught)
        assert CLOSED in text
        assert str(cache) in text
        assert isinstance(caught.value, FileNotFoundError)
        assert isinstance(caught.value, NoisyOrError)
        assert list(cache.iterdir()) == []

    def test_offline_with_a_folder_of_ones_own(self, known, local):
        known()
        with pytest.raises(DatasetNotFoundError, match=str(local)):
            fetch("notes.bin")

    def test_gone_from_the_server(self, known, server):
        known(server[1] + "notes.bin")
        with pytest.raises(DatasetNotFoundError, match="the server answered 404"):
            fetch("notes.bin")

    def test_no_address(self, known, cache):
        known(url=None)
        with pytest.raises(DatasetNotFoundError, match=r"https://example\.org/notes") as caught:
            fetch("notes.bin")
        assert str(cache) in one_line(caught)

    def test_without_the_extra(self, known, monkeypatch):
        known()
        monkeypatch.setitem(sys.modules, "pooch", None)
        with pytest.raises(MissingExtraError, match=r'pip install "\.\[reproduction\]"') as caught:
            fetch("notes.bin")
        assert CLOSED in one_line(caught)

    def test_without_the_extra_local_copies_are_read(self, known, local, monkeypatch):
        known()
        monkeypatch.setitem(sys.modules, "pooch", None)
        monkeypatch.setattr("reproduction.datasets.download.cache_folder", cache_folder)
        (local / "notes.bin").write_bytes(CONTENT)
        assert fetch("notes.bin") == local / "notes.bin"


class TestChecksums:
    def test_own_file_with_another_content_is_kept_and_reported(self, known, local):
        known()
        (local / "notes.bin").write_bytes(b"my own notes")
        with pytest.raises(InvalidDataError, match="another file than expected") as caught:
            fetch("notes.bin")
        assert str(local / "notes.bin") in one_line(caught)
        assert (local / "notes.bin").read_bytes() == b"my own notes"

    def test_unknown_checksum_is_noted_at_first_and_held_to(self, known, cache, server):
        served, address = server
        (served / "notes.bin").write_bytes(CONTENT)
        known(address + "notes.bin", sha256=None)
        path = fetch("notes.bin")
        assert (cache / "notes.bin.sha256").read_text() == f"{SHA256}  notes.bin\n"
        assert fetch("notes.bin") == path
        path.write_bytes(CONTENT + b"more")
        with pytest.raises(InvalidDataError, match=r"noted in notes\.bin\.sha256"):
            fetch("notes.bin")

    def test_unknown_checksum_of_ones_own_file(self, known, local):
        known(sha256=None)
        (local / "notes.bin").write_bytes(b"anything")
        assert fetch("notes.bin") == local / "notes.bin"

    @pytest.mark.parametrize("page", [b"<!DOCTYPE html><p>Too large to scan", b"\n <html>", b""])
    def test_a_web_page_is_no_data(self, known, cache, server, page):
        served, address = server
        (served / "notes.bin").write_bytes(page)
        known(address + "notes.bin", sha256=None)
        with pytest.raises(InvalidDataError, match="not kept"):
            fetch("notes.bin")
        assert list(cache.iterdir()) == []


class TestRegistry:
    def test_entries_are_whole(self):
        for name, file in FILES.items():
            assert file.name == name
            assert not Path(name).is_absolute()
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
            assert file.sha256 is not None or file.url is not None
            assert file.origin.startswith("https://")
            assert file.url is None or file.url.startswith("https://")

    def test_only_two_checksums_are_unknown(self):
        unknown = {name for name, file in FILES.items() if file.sha256 is None}
        assert unknown == {"big_patent_train.zip", "big_patent_test.zip"}

    def test_real_files_have_the_checksums(self, real_data):
        found = [name for name in FILES if "/" not in name and find(name) is not None]
        if not found:
            pytest.skip(f"none of the files is in {real_data}")
        for name in found:
            assert FILES[name].sha256 is not None
