"""The page of equations: what is cited exists, and the noise is the function that it gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import noisyor as nor

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "theory.md"
TEXT = PAGE.read_text("utf-8")


def equations() -> list[int]:
    return [int(number) for number in re.findall(r'<a id="t(\d+)"></a>\*\*\(T\1\)\*\*', TEXT)]


def cited(text: str) -> set[int]:
    """Numbers that follow the word "equation" or "equations": T3, T3 and T4, T3 to T7."""
    numbers: set[int] = set()
    number = r"T\d+(?:\s+to\s+T\d+)?"
    for run in re.findall(
        rf"\bequations?\s+({number}(?:(?:,\s+|\s+and\s+){number})*)", text, re.IGNORECASE
    ):
        for first, last in re.findall(r"T(\d+)(?:\s+to\s+T(\d+))?", run):
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_citations_are_found():
    assert cited("Equations T3, T5 and T7 to\n T9; equation T12.") == {3, 5, 7, 8, 9, 12}
    assert not cited("T3, without the word")


def test_equations_are_numbered_in_order():
    assert equations() == list(range(1, len(equations()) + 1))
    assert len(equations()) > 40


def test_what_sources_and_pages_cite_exists():
    known, from_kernels = set(equations()), set()
    for source in (ROOT / "src").rglob("*.py"):
        numbers = cited(source.read_text("utf-8"))
        assert numbers <= known, f"{source.name} cites {sorted(numbers - known)}"
        if "engines" in source.parts:
            from_kernels |= numbers
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text("utf-8")
        pattern = r"\(#t(\d+)\)" if page == PAGE else r"theory\.md#t(\d+)\)"
        numbers = {int(number) for number in re.findall(pattern, text)}
        assert numbers <= known, f"{page.name} links to {sorted(numbers - known)}"
    # The mathematics of every kernel is on the page; a few equations belong to other packages.
    assert len(from_kernels) > 30


def test_references_are_all_cited():
    body, references = TEXT.split("## References")
    entries = re.findall(r"^\* ([^,]+),[^*]*?\((\d{4})\)", references, flags=re.MULTILINE)
    assert len(entries) > 10
    for author, year in entries:
        assert re.search(rf"{author}[^\]]*{year}", body), f"{author} {year} is not cited"


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 3])
def test_the_noise_of_max_product_is_the_documented_function(seed):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    network = nor.bipartite(n_visible=2, n_hidden=3)
    # Nothing is observed, so a belief is the prior log-odds and the noise, and nothing else.
    rows = nor.Observations.of(np.full((4, 2), np.nan))
    method = nor.MaxProduct(temperature=1.0, n_samples=2, keep_beliefs=True)
    beliefs = nor.explain(network, rows, method, seed=seed).beliefs
    quiet = nor.MaxProduct(temperature=0.0, n_samples=2, keep_beliefs=True)
    noise = beliefs - nor.explain(network, rows, quiet, seed=seed).beliefs
    expected = [
        [names["logistic_noise"](seed, 0, row_id, sample, node) for node in range(3)]
        for row_id in rows.row_ids.tolist()
        for sample in range(2)
    ]
    np.testing.assert_allclose(noise.reshape(8, 3), expected, atol=1e-5)
