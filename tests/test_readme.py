"""The Python examples of the README and of the pages in docs run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def run(page: Path) -> dict:
    """Execute the blocks of a page one after another, as a reader would; the names they made."""
    names: dict = {}
    for block in blocks_of(page):
        exec(compile(block, str(page), "exec"), names)
    return names


# Pages for developers define modules: tests/test_developer_docs.py runs them.
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks_of(page) and page.parent.name != "developer"],
    ids=lambda page: page.stem,
)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(page)
    if page == README:
        assert names["posterior"].states.shape == (3, 5)  # the number of causes was found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        if not (page.parent / link).exists():
            pytest.fail(f"{page.name} points to {link}, which does not exist")
