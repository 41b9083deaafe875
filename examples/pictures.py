"""Draw the pictures of the documentation from the examples on its pages.

    python examples/pictures.py [--only NAME ...]

Needs Chromium and the extras ``report`` and ``serve``. Pictures go to ``docs/images``.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import Browser, find_chromium  # noqa: E402

import noisyor as nor  # noqa: E402

DOCS, IMAGES = ROOT / "docs", ROOT / "docs" / "images"
ANIMALS = ROOT / "examples" / "animals.csv"
SHOWN = 26
CELL, LEFT, TOP = 17, 100, 100


def main() -> None:
    """Draw the requested pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=list(PICTURES))
    options = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        parser.error("Chromium is needed for pictures of pages")
    browser = Browser(executable, offline=False)
    try:
        for name in options.only:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                PICTURES[name](browser)
                os.chdir(ROOT)
            print(name, flush=True)
    finally:
        browser.close()


def photograph(browser: Browser, page: Path | str, name: str, ready: str = "", **size: int) -> None:
    """Save the first screen of a page as a picture."""
    browser.open(page, **{"width": 1180, "height": 800, **size})
    if ready:
        browser.wait_for(ready)
        browser.settle()
    browser.screenshot(IMAGES / f"{name}.png", full=False)


def run_page(name: str) -> None:
    """Run the Python examples of a page in the current folder."""
    text = (DOCS / f"{name}.md").read_text("utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, name, "exec"), names)


def run(*arguments: str) -> None:
    """Run a command of noisyor."""
    script = "import sys; from noisyor.cli.main import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", script, *arguments, "--quiet"], check=True)


def animals(browser: Browser) -> None:
    """Draw the map of the README: causes of the shipped table."""
    options = [
        "--id-column",
        "animal",
        "--drop",
        "class",
        "--components",
        "8",
        "--objective",
        "mdl",
        "--held-out",  # all rows, as in the README's example in Python
        "0",
    ]
    run("fit", str(ANIMALS), *options, "--out", "animals.safetensors")
    run("report", "animals.safetensors", str(ANIMALS), "--labels", "class", "--out", "animals.html")
    photograph(browser, Path("animals.html"), "map", height=900)


def baskets(browser: Browser) -> None:
    """Draw the habits of the page on baskets."""
    run_page("baskets")
    photograph(browser, Path("shop.html"), "baskets", height=860)


def documents(browser: Browser) -> None:
    """Draw the topics of the page on documents."""
    run_page("documents")
    photograph(browser, Path("functions.html"), "documents", height=900)


def symptoms(browser: Browser) -> None:
    """Draw the interactive explorer with the clinic of the page on symptoms."""
    run_page("symptoms")
    script = "import sys; from noisyor.cli.main import main; sys.exit(main())"
    server = subprocess.Popen(
        [sys.executable, "-u", "-c", script, "serve", "clinic.safetensors", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[0] + "#present=0,1&absent=4"
        ready = "document.getElementById('answers').getAttribute('aria-busy') !== 'true'"
        photograph(browser, address, "symptoms", ready, height=1000)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def images(browser: Browser) -> None:
    """Draw the result of the demo."""
    run("demo", "--out", "demo")
    photograph(browser, Path("demo/index.html"), "images", height=1130)


def gaps(browser: Browser) -> None:
    """Draw a table of animals with a tenth of the traits hidden and filled in."""
    table = nor.read_table(ANIMALS, id_column="animal", drop="class")
    X = table.observations.to_dense().astype(float)
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    imputer = nor.estimators.NoisyOrImputer(output="probability")
    chance = imputer.fit_transform(np.where(hidden, np.nan, X))
    wrong = hidden & ((chance >= 0.5) != X)
    print(f"{wrong.sum()} of {hidden.sum()} gaps filled in wrongly")
    rows = np.linspace(0, len(X) - 1, SHOWN).round().astype(int)
    assert table.row_names is not None
    assert table.observations.column_names is not None
    names = [table.row_names[row] for row in rows]
    drawing = drawn(chance[rows], hidden[rows], X[rows], names, table.observations.column_names)
    (IMAGES / "gaps.svg").write_text(drawing, "utf-8")


def drawn(
    chance: npt.NDArray[np.float64],
    hidden: npt.NDArray[np.bool_],
    truth: npt.NDArray[np.float64],
    rows: list[str],
    columns: tuple[str, ...],
) -> str:
    """Return a table as SVG: squares are known entries, discs filled-in ones, red if wrong."""
    parts = []
    for j, column in enumerate(columns):
        x = LEFT + j * CELL + CELL / 2
        place = f"translate({x + 3:.0f} {TOP - 6}) rotate(-60)"
        parts.append(f'<text transform="{place}">{escape(column)}</text>')
    for i, row in enumerate(rows):
        y = TOP + i * CELL
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(row)}</text>')
        for j in range(len(columns)):
            x, value = LEFT + j * CELL, chance[i, j]
            if not hidden[i, j]:
                kind = "on" if value else "off"
                parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="15" height="15"/>')
                continue
            kind = "right" if (value >= 0.5) == truth[i, j] else "wrong"
            centre = f'cx="{x + 7.5}" cy="{y + 7.5}"'
            parts.append(f'<circle class="gap" {centre} r="7.5"/>')
            parts.append(f'<circle class="{kind}" {centre} r="{7 * value**0.5:.1f}"/>')
            if kind == "wrong":
                parts.append(f'<circle class="ring" {centre} r="7"/>')
    width, height = LEFT + len(columns) * CELL + 110, TOP + len(rows) * CELL + 40
    y = height - 20
    for x, kind, said in (
        (LEFT, '<rect class="on" x="{x}" y="{y}" width="15" height="15"/>', "known: yes"),
        (LEFT + 120, '<rect class="off" x="{x}" y="{y}" width="15" height="15"/>', "known: no"),
        (
            LEFT + 230,
            '<circle class="gap" cx="{c}" cy="{m}" r="7.5"/><circle class="right" cx="{c}" '
            'cy="{m}" r="5"/>',
            "gap: area is the probability of yes",
        ),
        (LEFT + 470, '<circle class="ring" cx="{c}" cy="{m}" r="7"/>', "filled in wrongly"),
    ):
        parts.append(kind.format(x=x, y=y, c=x + 7.5, m=y + 7.5))
        parts.append(f'<text x="{x + 22}" y="{y + 12}">{said}</text>')
    style = (
        "text{font:12px sans-serif;fill:#1b2530}.on{fill:#35495c}.off{fill:#e9ebe6}"
        ".gap{fill:#fff;stroke:#b9bfb5}.right{fill:#0b5c94}.wrong{fill:#b34700}"
        ".ring{fill:none;stroke:#b34700;stroke-width:2.5}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


PICTURES: dict[str, Callable[[Browser], None]] = {
    "animals": animals,
    "baskets": baskets,
    "documents": documents,
    "symptoms": symptoms,
    "images": images,
    "gaps": gaps,
}

if __name__ == "__main__":
    main()
