"""Files, compressed or not, and their damage."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest

from noisyor._util.files import open_binary, reading
from noisyor.errors import InvalidDataError


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_content_decides_not_the_name(tmp_path, pack):
    (tmp_path / "a.txt").write_bytes(pack(b"two\nlines"))
    with open_binary(tmp_path / "a.txt") as stream:
        assert stream.readlines() == [b"two\n", b"lines"]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InvalidDataError, match="is a folder"), open_binary(tmp_path):
        pass


def test_errors_of_the_system_stay_what_they_are():
    with pytest.raises(PermissionError), reading("file"):
        raise PermissionError(13, "Permission denied")
