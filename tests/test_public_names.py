"""What ``import noisyor`` and its namespaces offer: once, documented, taught, and cheap."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import noisyor

PACKAGE = Path(noisyor.__file__).parent
ROOT = PACKAGE.parents[1] if (PACKAGE.parents[1] / "docs").is_dir() else Path(__file__).parents[1]
PAGES = [
    Path(__file__).parents[1] / "README.md",
    *(Path(__file__).parents[1] / "docs").rglob("*.md"),
]
REFERENCE = {
    page.stem: page.read_text(encoding="utf-8")
    for page in (Path(__file__).parents[1] / "docs" / "reference").glob("*.md")
}
"""Pages of the reference, one for each namespace."""


def listed(stub: Path, space: str) -> dict[str, str]:
    """Names of a stub, submodules left out, and the module that each is from."""
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    return {
        alias.asname or alias.name: f"{space}.{node.module}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if alias.name != "__version__"
    }


def namespaces() -> dict[str, dict[str, str]]:
    """Dotted package name -> its public names and their modules."""
    found = {"noisyor": listed(PACKAGE / "__init__.pyi", "noisyor")}
    for stub in sorted(PACKAGE.glob("*/__init__.pyi")):
        space = f"noisyor.{stub.parent.name}"
        found[space] = listed(stub, space)
    for space in ("noisyor.baselines", "noisyor.errors", "noisyor.metrics"):
        found[space] = dict.fromkeys(importlib.import_module(space).__all__, space)
    return found


PUBLIC = [(space, name) for space, names in namespaces().items() for name in names]


def needs_example(thing: object) -> bool:
    """Functions and classes do; errors and records of results do not: functions show them."""
    if not isinstance(thing, type):
        return callable(thing)
    is_record = dataclasses.is_dataclass(thing) or issubclass(thing, tuple)
    return not (is_record or issubclass(thing, Exception))


NEEDS_EXAMPLE = [
    (space, name)
    for space, name in PUBLIC
    if needs_example(getattr(importlib.import_module(space), name))
]


def test_the_root_has_about_thirty_names():
    assert 25 <= len(namespaces()["noisyor"]) <= 32


@pytest.mark.parametrize(("space", "name"), PUBLIC)
def test_a_name_exists_is_no_module_and_is_documented(space, name):
    thing = getattr(importlib.import_module(space), name)
    assert not isinstance(thing, ModuleType)
    if callable(thing):
        assert (thing.__doc__ or "").strip()


@pytest.mark.parametrize("space", namespaces())
def test_the_reference_of_a_namespace_has_its_names_and_no_other(space):
    page = REFERENCE[space.removeprefix("noisyor.")]
    names, _, results = page.partition("\n## Results\n")
    shown = re.findall(r"^::: (\S+)$", names, re.MULTILINE)
    assert page.startswith(f"# {space.replace('noisyor.', 'nor.')}\n")
    assert len(shown) == len(set(shown))
    expected = {f"{home}.{name}" for name, home in namespaces()[space].items()}
    if space != "noisyor":  # what the root has is shown there alone
        expected -= {f"{home}.{name}" for name, home in namespaces()["noisyor"].items()}
    assert set(shown) == expected
    for record in re.findall(r"^::: (\S+)$", results, re.MULTILINE):
        module, _, name = record.rpartition(".")
        assert name not in namespaces()[space]
        assert isinstance(getattr(importlib.import_module(module), name), type)


def test_every_page_of_the_reference_is_of_a_namespace():
    assert set(REFERENCE) == {space.removeprefix("noisyor.") for space in namespaces()}


def test_no_name_is_hidden_by_a_module_beside_it():
    for space, names in namespaces().items():
        folder = PACKAGE.joinpath(*space.split(".")[1:])
        beside = {path.stem for path in folder.iterdir()} if folder.is_dir() else set()
        assert not beside & set(names), space


@pytest.mark.parametrize(("space", "name"), NEEDS_EXAMPLE)
def test_the_example_of_a_name_runs(space, name, tmp_path, monkeypatch):
    thing = getattr(importlib.import_module(space), name)
    monkeypatch.chdir(tmp_path)
    finder = doctest.DocTestFinder(recurse=False)
    cases = finder.find(thing, name, module=False, globs={})  # an example imports what it needs
    examples = sum(len(case.examples) for case in cases)
    assert examples, f"{space}.{name} has no example in its docstring"
    headed = "Examples\n--------\n>>>" in inspect.getdoc(thing)
    assert headed, f"{space}.{name}: without the heading the reference shows its example as prose"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for case in cases:
        runner.run(case)
    assert runner.failures == 0


def test_every_name_is_taught():
    """On a page that is no reference, in a notebook, or in the README: as code, not as a word."""
    root = Path(__file__).parents[1]
    guides = [
        page for page in PAGES if page.parent.name != "reference" and page.stem != "upgrading"
    ]
    notebooks = (root / "examples" / "notebooks").glob("*.ipynb")
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*guides, *notebooks))

    def is_taught(space: str, name: str) -> bool:
        dotted = re.escape(f"{space.replace('noisyor', 'nor', 1)}.{name}")
        imported = rf"^from {re.escape(space)} import [^\n]*\b{name}\b"
        return any(
            re.search(pattern, text, re.MULTILINE)
            for pattern in (rf"\b{dotted}\b", imported, rf"`[^`\n]*\b{name}\b[^`\n]*`")
        )

    assert not [f"{space}.{name}" for space, name in PUBLIC if not is_taught(space, name)]


# The page about upgrading lists names that are gone.
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem != "upgrading"], ids=lambda page: page.name
)
def test_what_a_page_teaches_can_be_imported(page):
    for dotted in set(re.findall(r"\bnor((?:\.[A-Za-z_]\w*)+)", page.read_text(encoding="utf-8"))):
        thing = noisyor
        for part in dotted.strip(".").split("."):
            if not isinstance(thing, ModuleType):
                break  # an attribute of an object, which only an instance may have
            thing = getattr(thing, part)


def test_importing_costs_next_to_nothing():
    code = "import sys, noisyor; print('numpy' in sys.modules, 'numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["False", "False"]
