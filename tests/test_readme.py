"""The README's Python examples run as they stand."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def test_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict = {}
        exec(compile(block, str(README), "exec"), names)
        posterior = names.get("posterior")
        if posterior is not None:
            assert posterior.states.shape == (5, 16)


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text())
    assert links
    for link in links:
        if not (README.parent / link).exists():
            pytest.fail(f"README.md points to {link}, which does not exist")
