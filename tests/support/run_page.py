"""Run the Python code of a page of documentation: ``python run_page.py PAGE``.

The blocks marked ``python`` run one after another in one namespace and in the current folder. A
block whose first line is ``# src/noisyor/.../name.py`` becomes that module, as if the file existed.
Code that is only shown, not run, is indented or marked otherwise.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# src/(noisyor/[\w/]+)\.py\n")


def run_page(page: Path) -> int:
    """Run all blocks; returns how many there were."""
    text = page.read_text("utf-8")
    page_module = sys.modules["page"] = ModuleType("page")  # dataclasses look their module up
    namespace = vars(page_module)
    blocks = list(_BLOCK.finditer(text))
    for block in blocks:
        # Blank lines in front, so that errors name the line of the page.
        code = compile("\n" * text.count("\n", 0, block.start(1)) + block[1], str(page), "exec")
        file = _FILE.match(block[1])
        exec(code, vars(_new_module(file[1].replace("/", "."))) if file else namespace)
    return len(blocks)


def _new_module(name: str) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    parent, _, child = name.rpartition(".")
    setattr(import_module(parent), child, module)
    return module


if __name__ == "__main__":
    if not run_page(Path(sys.argv[1])):
        sys.exit(f"{sys.argv[1]} has no Python code")
