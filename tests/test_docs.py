"""Every example of the README and of the pages in docs runs, and every link has a target."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from noisyor.cli.main import _cli, main
from noisyor.tables import FORMATS

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
COMMAND_LINE = ROOT / "docs" / "command_line.md"
EXAMPLE_FILES = {"tests/tables/test_dots.py"}
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Language and text of the blocks of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def has_python(page: Path) -> bool:
    return any(language == "python" for language, _ in blocks_of(page))


# Pages for developers define modules: they have a test of their own.
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if has_python(page) and page.parent.name != "developer"],
    ids=lambda page: page.stem,
)
def test_python_examples_run(page, tmp_path, monkeypatch, capsys):
    """Run the blocks of a page one after another, and compare what they print with the page."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, Any] = {}
    for language, text in blocks_of(page):
        if language == "python":
            capsys.readouterr()
            exec(compile(text, str(page), "exec"), names)
        elif language == "text":
            assert capsys.readouterr().out == text


def test_commands_print_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    n_commands = 0
    for language, text in blocks_of(COMMAND_LINE):
        if language == "python":
            exec(compile(text, str(COMMAND_LINE), "exec"), {})
            continue
        assert language == "console"
        for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "noisyor"
            code = main(arguments)
            captured = capsys.readouterr()
            if expected:
                assert captured.out + captured.err == expected
                assert code == (2 if expected.startswith("noisyor: error") else 0)
            else:
                assert code in (0, 1), captured.err
                assert captured.out
            n_commands += 1
    assert n_commands >= 10


def test_every_command_and_format_is_on_the_page():
    text = COMMAND_LINE.read_text("utf-8")
    others = {"demo"}
    for command in set(_cli.commands) - others:
        assert f"| `{command} " in text
    endings = {"text": ".txt", "folder": "folder of `.txt`", "images": "folder of `.png`"}
    for name in FORMATS:
        assert endings.get(name, f".{name}") in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        if not (page.parent / link).exists():
            pytest.fail(f"{page.name} points to {link}, which does not exist")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page):
    """Paths such as `engines/contract.py` lie in the repository or in the package."""
    bases = (ROOT, ROOT / "src", ROOT / "src" / "noisyor")
    for name in set(
        re.findall(r"`([\w-]+/[\w./-]+\.(?:py|jsonl?|csv|md))`", page.read_text("utf-8"))
    ):
        if name not in EXAMPLE_FILES:
            assert any((base / name).exists() for base in bases), f"{page.name} names {name}"
