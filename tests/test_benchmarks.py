"""Benchmarks and examples are not run here, but what they import from the package exists."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "examples").glob("*.py")])


def imported(script: Path) -> list[tuple[str, str | None]]:
    """Modules that a script imports at its top level, and names that it takes from them."""
    found: list[tuple[str, str | None]] = []
    for node in ast.parse(script.read_text("utf-8")).body:
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "noisyor"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_script_imports_exists(script):
    for module, name in imported(script):
        package = import_module(module)
        if name is not None and not hasattr(package, name):
            import_module(f"{module}.{name}")
