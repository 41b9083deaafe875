"""The examples of the README run, links lead somewhere, benchmarks start."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
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


@pytest.mark.parametrize("name", ["patients", "diagnosis"])
def test_benchmarks_start(name):
    script = ROOT / "benchmarks" / f"{name}.py"
    if not (ROOT.parents[1] / "benchmarks" / "_measure.py").exists():
        pytest.skip("benchmarks run in a clone of the repository only")
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout


def test_the_page_of_patients_is_that_of_the_results(tmp_path):
    spec = importlib.util.spec_from_file_location("page", ROOT / "benchmarks" / "patients_page.py")
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    page.PAGE = tmp_path / "patients.md"
    page.main()
    assert page.PAGE.read_text("utf-8") == (ROOT / "docs" / "patients.md").read_text("utf-8")
