"""The table of formats, and the contract that every one of them keeps."""

from __future__ import annotations

import inspect
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from format_contract import EXAMPLES, check_damage, check_rows
from table_examples import written

from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables import FORMATS
from noisyor.tables.options import format_of


def test_every_format_has_an_example():
    assert set(EXAMPLES) == set(FORMATS)


@pytest.mark.parametrize("name", EXAMPLES)
class TestContract:
    def test_rows(self, name, tmp_path):
        check_rows(name, tmp_path)

    def test_damage(self, name, tmp_path):
        # Formats with first bytes of their own are read by libraries, which see to damage.
        if not FORMATS[name].magic and not FORMATS[name].members:
            assert check_damage(name, tmp_path) > 0

    def test_readers_have_one_signature(self, name):
        read = FORMATS[name].load()
        assert list(inspect.signature(read).parameters) == ["path", "options", "columns"]


def test_no_two_formats_look_alike():
    for one, other in combinations(FORMATS.values(), 2):
        assert not set(one.endings) & set(other.endings)
        assert not any(a.startswith(b) or b.startswith(a) for a in one.magic for b in other.magic)
        assert not one.members or one.members != other.members


def test_content_counts_more_than_the_name():
    np.save("d.npy", np.eye(2))
    Path("d.npy").rename("d.csv")
    assert format_of(Path("d.csv")) == "npy"
    with pytest.raises(InvalidDataError, match=r"csv.*npy"):
        format_of(Path("d.csv"), "csv")
    with pytest.raises(InvalidDataError, match=r"npy.*text"):
        format_of(written("d.npy", "a,b\n1,0\n"))


def test_files_and_folders():
    Path("d").mkdir()
    with pytest.raises(InvalidDataError, match=r"without \.png or \.txt files"):
        format_of(Path("d"))
    with pytest.raises(InvalidSettingError, match="folder"):
        format_of(Path("d"), "csv")
    with pytest.raises(InvalidSettingError, match="file"):
        format_of(written("d.csv", "1\n"), "images")
    written("d/a.TXT.gz", "")
    assert format_of(Path("d")) == "folder"
    written("d/a.png", "")
    assert format_of(Path("d")) == "images"


def test_the_table_is_imported_at_once():
    code = "import sys, noisyor.tables.options; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
