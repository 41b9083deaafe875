"""Benchmarks and examples are not run here, but what they import from the package exists."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

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


def modules_of(tree: ast.Module) -> dict[str, ModuleType]:
    """Modules of the package by the name that a script has for them."""
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "noisyor":
                    found[alias.asname or "noisyor"] = import_module(
                        alias.name if alias.asname else "noisyor"
                    )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "noisyor":
            for alias in node.names:
                value = getattr(import_module(node.module), alias.name, None)
                found[alias.asname or alias.name] = value
    return {name: module for name, module in found.items() if isinstance(module, ModuleType)}


def unknown_names(tree: ast.Module) -> list[str]:
    """Attributes of the package's modules that a script asks for and that do not exist."""
    modules = modules_of(tree)

    def resolve(node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            return modules.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = resolve(node.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, node.attr, KeyError)
        return None

    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and resolve(node) is KeyError
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_script_asks_of_a_module_exists(script):
    assert unknown_names(ast.parse(script.read_text("utf-8"))) == []


def test_a_name_that_has_moved_is_found():
    tree = ast.parse("import noisyor as nor\nfrom noisyor.learning import updates\n")
    assert unknown_names(tree) == []
    tree = ast.parse(
        "import noisyor as nor\nfrom noisyor.learning import updates as u\n"
        "u.step(1).moved\nu.steps_gone()\nnor.learning.learned\nnor.Network.gone"
    )
    assert sorted(unknown_names(tree)) == ["nor.learning.learned", "u.steps_gone"]
