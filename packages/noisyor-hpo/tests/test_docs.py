"""The examples of the README run, and links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from noisyor_hpo.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text("utf-8")
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, "README.md", "exec"), {})
            continue
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "noisyor-hpo"
            code = main(arguments)
            printed = capsys.readouterr()
            assert code == (2 if "error" in expected else 0), printed.err
            assert printed.out or printed.err == expected
    assert Path("patient.html").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / link).exists(), link
