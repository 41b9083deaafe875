"""The skeletons of the developer pages: they have every member of the protocol they implement.

That they run, and that the checks on the pages hold, is tested with all other pages.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from noisyor.engines.contract import FUNCTIONS, Engine
from noisyor.inference.method import Method

PAGES = Path(__file__).resolve().parents[1] / "docs" / "developer"


def first_block(page: str) -> dict:
    text = (PAGES / page).read_text("utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    names: dict = {}
    exec(compile(block, page, "exec", dont_inherit=True), names)
    return names


def parameters(owner: type, name: str) -> list[tuple[str, object, object]]:
    found = inspect.signature(getattr(owner, name)).parameters.values()
    return [(p.name, p.kind, p.default) for p in found]


@pytest.mark.parametrize("name", sorted(Method.__abstractmethods__))
def test_the_method_has_the_abstract_methods_with_the_same_parameters(name):
    skeleton = first_block("add_a_method.md")["ConditionalModes"]
    assert issubclass(skeleton, Method)
    assert name in vars(skeleton)
    assert parameters(skeleton, name) == parameters(Method, name)


def test_the_engine_has_what_it_says_with_the_same_parameters():
    skeleton = first_block("add_an_engine.md")["DenseEngine"]
    assert skeleton.supports < FUNCTIONS
    for name in skeleton.supports | {"prepare"}:
        assert name in vars(skeleton)
        assert parameters(skeleton, name) == parameters(Engine, name)
    assert isinstance(skeleton(), Engine)


def test_the_page_lists_every_function_of_the_contract():
    text = (PAGES / "add_an_engine.md").read_text("utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == FUNCTIONS
