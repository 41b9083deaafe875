"""Imports follow the layers, and the architecture page shows the packages as they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "noisyor"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``lint-imports`` on the sources and the contracts of a folder."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def layers_of_contract() -> list[list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def layers_of_page() -> list[list[str]]:
    section = PAGE.split("## Layers")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\| (`[^|]+`) \|", section, flags=re.MULTILINE)
    return [re.findall(r"`([^`]+)`", cell) for cell in first_cells]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_imports_follow_the_order():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_import_against_the_order_is_found(copy):
    module = copy / "src" / "noisyor" / "model" / "network.py"
    module.write_text(module.read_text() + "\nimport noisyor.learning.state\n")
    result = lint_imports(copy)
    assert result.returncode == 1
    assert "noisyor.model is not allowed to import noisyor.learning" in result.stdout
    assert "noisyor.model.network -> noisyor.learning.state" in result.stdout


def test_a_package_outside_the_order_is_found(copy):
    package = copy / "src" / "noisyor" / "attic"
    package.mkdir()
    (package / "__init__.py").write_text('"""Belongs to no layer."""\n')
    result = lint_imports(copy)
    assert result.returncode == 1
    assert "attic" in result.stdout


def test_the_page_lists_the_layers_of_the_contract_in_order():
    assert layers_of_page() == layers_of_contract()


def test_every_package_is_on_the_page():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    listed = {name for layer in layers_of_page() for name in layer}
    assert listed == packages | modules


def test_every_module_in_the_tree_exists():
    section = PAGE.split("## The tree")[1].split("\n## ")[0]
    tree = section.split("    src/noisyor/\n")[1].split("\n\n")[0]
    folder, found = SOURCE, 0
    for line in tree.splitlines():
        if name := re.match(r" {6}(\w+)/ ", line):
            folder = SOURCE / name[1]
        elif name := re.match(r" {8}(\w+)/ ", line):
            folder = SOURCE / "engines" / name[1]
        elif re.match(r" {6}\w", line):
            folder = SOURCE
        for module in re.findall(r"\w+\.py\b", line):
            assert (folder / module).is_file(), f"{folder.name} has no {module}"
            found += 1
        for package in re.findall(r"\w+(?=/)", line):
            assert any(SOURCE.rglob(f"{package}/__init__.py")), package
    assert found > 50


def test_the_path_of_a_row_is_the_recorded_one():
    recorded = json.loads((ROOT / "results" / "path_of_a_row.json").read_text())
    told = re.search(r"`noisyor fit` enters (\d+) modules and\s+`noisyor explain` (\d+)", PAGE)
    assert int(told[1]) == recorded["fit"]["modules_entered"]
    assert int(told[2]) == recorded["explain"]["modules_entered"]
