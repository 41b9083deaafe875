"""Every notebook of examples runs from top to bottom, and was saved with its pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    return [
        cell
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


def test_there_is_a_notebook_for_each_tutorial():
    names = ["animals", "digits", "docstrings", "own_network"]
    assert [notebook.stem for notebook in NOTEBOOKS] == names


@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(notebook, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    backend = matplotlib.get_backend()
    matplotlib.use("agg")
    monkeypatch.chdir(FOLDER)
    names: dict[str, Any] = {}
    try:
        for number, cell in enumerate(cells_of(notebook)):
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")
        matplotlib.use(backend)
    assert capsys.readouterr().out


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_was_saved_as_it_ran(notebook):
    cells = cells_of(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert [output for output in outputs if "image/png" in output.get("data", {})]
