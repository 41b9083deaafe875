"""Compare the log-likelihood of noisy-OR causes and of a mixture with as many components.

    python benchmarks/readable.py [--data DIR] [--only SET ...] [--sizes K ...]
        [--json results/readable.json]
    python benchmarks/readable.py --table results/readable.json

Each cell is a data set and a number of components K. Causes (``learn_factors`` with
``objective="likelihood"``) and the mixture (``learn_mixture``) learn from the training rows alone,
both with their defaults and seed 0; their mean log p of the test rows is compared. Independent
columns and a Chow-Liu tree are further baselines. CPU seconds are process time on one thread, after
compilation; scikit-learn's NMF and, for K = 20, LDA with K components are timed in the same run.
tiny20 has ten random splits, 70 percent of the rows for training. On IMDB, 2,000 randomly chosen
test rows are scored. Finished cells are written to the JSON file at once and are skipped later.
"""

from __future__ import annotations

import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, earlier, write
from _problems import use_data
from noisyor.baselines import chow_liu, independent_columns, learn_mixture
from noisyor.engines.registry import get_engine
from noisyor.inference.evaluate import Score
from noisyor.inference.sampling import log_probability
from reproduction import datasets

SIZES = (10, 20, 50)
MORE_SIZES = {"jester": (100,), "baudio": (100,), "bnetflix": (100,)}
"""Sets on which one hundred causes are compared with the record of 4,096 averaged classes."""

RECORD = {"jester": -52.306, "baudio": -39.286, "bnetflix": -55.752}
"""Test log p of the average of mixtures with 4,096 classes together (reproduction/archive)."""

LDA_SIZE = 20
"""Number of components for which LDA is timed: it takes longer than everything else."""

TINY20_SPLITS, TINY20_SHARE = 10, 0.7
IMDB_TEST_ROWS = 2000
MAX_TREE_COLUMNS = 2000
"""With more columns, a Chow-Liu tree needs the mutual information of too many pairs."""

DENSITY = (
    "nltcs",
    "amzn_gifts",
    "amzn_furniture",
    "amzn_media",
    "plants",
    "jester",
    "baudio",
    "bnetflix",
)
SETS = (*DENSITY, "tiny20", "IMDB")
UNIONS = ("nltcs", "plants", "jester", "baudio", "bnetflix", "tiny20", "IMDB")
"""Sets whose rows may be unions of causes; items of the registries (amzn_*) are alternatives."""


class Rows(NamedTuple):
    """Training rows and test rows."""

    train: nor.Observations
    test: nor.Observations


@cache
def load(name: str, split: int, folder: Path) -> Rows:
    """Load one split of a data set."""
    if name == "tiny20":
        parts = datasets.load_tiny20().observations.split(TINY20_SHARE, split)
        return Rows(*parts)
    if name == "IMDB":
        text = datasets.load_imdb()
        assert text.test is not None
        order = np.random.default_rng(0).permutation(text.test.n_rows)
        return Rows(text.train, text.test.take(np.sort(order[:IMDB_TEST_ROWS])))
    packed = np.load(folder / "density" / f"{name}.npz")
    width = int(packed["n_columns"])
    train, test = (
        nor.Observations.of(np.unpackbits(packed[part], axis=1, count=width))
        for part in ("train", "test")
    )
    return Rows(train, test)


def cells(names: list[str], sizes: list[int] | None) -> Iterator[tuple[str, int, int]]:
    """Yield set, split and number of components, in the order in which they run."""
    first = [(name, split) for name in names for split in range(_n_splits(name)) if split == 0]
    later = [(name, split) for name in names for split in range(1, _n_splits(name))]
    for name, split in [*first, *later]:
        for size in sizes or (*SIZES, *(MORE_SIZES.get(name, ()) if split == 0 else ())):
            yield name, split, size


def _n_splits(name: str) -> int:
    return TINY20_SPLITS if name == "tiny20" else 1


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and its CPU seconds."""
    began = time.process_time()
    result = work()
    return result, round(time.process_time() - began, 2)


def run(rows: Rows, size: int, reference: dict[str, float]) -> dict[str, Any]:
    """Compute the numbers of one cell."""
    engine = get_engine(n_threads=1)
    fitted, seconds = timed(
        lambda: nor.learn_factors(
            rows.train, size, objective="likelihood", seed=0, engine=engine, progress=False
        )
    )
    mixture, mixture_seconds = timed(lambda: learn_mixture(rows.train, size))
    ours = log_probability(fitted.network, rows.test, engine=engine)
    theirs = mixture.log_probability(rows.test)
    gain = Score(ours.per_row - theirs, weights=rows.test.weights)
    cpu_seconds = {
        "causes": seconds,
        "mixture": mixture_seconds,
        "NMF": timed(lambda: _decompose("NMF", rows.train, size))[1],
    }
    if size == LDA_SIZE:
        cpu_seconds["LDA"] = timed(lambda: _decompose("LDA", rows.train, size))[1]
    return {
        "rows": [rows.train.n_rows, rows.test.n_rows],
        "columns": rows.train.n_visible,
        "causes": round(ours.mean, 3),
        "estimation_error": round(ours.mean_error, 4),
        "mixture": round(rows.test.mean(theirs), 3),
        "gain": round(gain.mean, 3),
        "gain_standard_error": round(gain.standard_error, 3),
        **reference,
        "unused_causes": int(fitted.settings.get("n_unused", 0)),
        "cpu_seconds": cpu_seconds,
    }


def _decompose(name: str, rows: nor.Observations, size: int) -> None:
    """Fit a model of scikit-learn with its defaults."""
    from sklearn.decomposition import NMF, LatentDirichletAllocation

    matrix = rows.to_csr().astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "NMF":
            NMF(min(size, *matrix.shape), random_state=0).fit(matrix)
        else:
            LatentDirichletAllocation(size, random_state=0).fit(matrix)


def references(rows: Rows) -> dict[str, float]:
    """Compute the mean test log p of independent columns and of a Chow-Liu tree."""
    found: dict[str, Any] = {"independent": independent_columns(rows.train)}
    if rows.train.n_visible <= MAX_TREE_COLUMNS:
        found["chow_liu"] = chow_liu(rows.train)
    return {
        name: round(rows.test.mean(model.log_probability(rows.test)), 3)
        for name, model in found.items()
    }


def warm_up() -> None:
    """Compile the kernels that a fit and its score need."""
    rows = nor.Observations.of(np.random.default_rng(0).random((200, 30)) < 0.3)
    run(Rows(rows, rows), 16, {})


def commit() -> str:
    """Return the commit of the code, with a mark if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    folder = Path(__file__).resolve().parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def table(content: dict[str, Any]) -> str:
    """Write the cells as a Markdown table, splits averaged, and count wins and losses."""
    lines = [
        "| data | K | causes | mixture | gain | Chow-Liu | independent "
        "| CPU s: causes | mixture | NMF | LDA |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for cell in content["cells"]:
        groups.setdefault((cell["set"], cell["n_components"]), []).append(cell)
    won = lost = 0
    for (name, size), found in sorted(
        groups.items(), key=lambda item: (SETS.index(item[0][0]), item[0][1])
    ):
        mean = {
            key: np.mean([cell[key] for cell in found])
            for key in ("causes", "mixture", "gain", "independent", "chow_liu")
            if key in found[0]
        }
        times = found[0]["cpu_seconds"]
        cpu = [
            np.mean([cell["cpu_seconds"][key] for cell in found]) if key in times else None
            for key in ("causes", "mixture", "NMF", "LDA")
        ]
        best = "causes" if mean["gain"] > 0 else "mixture"
        marked = {
            key: f"**{mean[key]:.3f}**" if key == best else f"{mean[key]:.3f}"
            for key in ("causes", "mixture")
        }
        title = f"{name} ({len(found)} splits)" if len(found) > 1 else name
        tree = f"{mean['chow_liu']:.2f}" if "chow_liu" in mean else ""
        lines.append(
            f"| {title} | {size} | {marked['causes']} | {marked['mixture']} | {mean['gain']:+.3f} "
            f"| {tree} | {mean['independent']:.2f} | "
            + " | ".join("" if value is None else f"{value:.1f}" for value in cpu)
            + " |"
        )
        if name in UNIONS and size in SIZES:
            won, lost = won + (mean["gain"] > 0), lost + (mean["gain"] <= 0)
    lines.append("")
    lines.append(
        f"Of {won + lost} cells of sets whose rows may be unions of causes (all but amzn_*, "
        f"K = 10, 20, 50), causes are ahead of the mixture in {won} and behind in {lost}."
    )
    for name, record in RECORD.items():
        own = [c for c in content["cells"] if c["set"] == name and c["n_components"] <= 100]
        if own:
            best_cell = max(own, key=lambda cell: cell["causes"])
            verdict = "ahead of" if best_cell["causes"] > record else "behind"
            lines.append(
                f"{name}: {best_cell['n_components']} causes have {best_cell['causes']:.3f}, "
                f"{verdict} 4,096 averaged classes ({record:.3f})."
            )
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of the data files")
    parser.add_argument("--only", nargs="*", choices=SETS, help="sets to run")
    parser.add_argument("--sizes", nargs="*", type=int, help="numbers of components")
    parser.add_argument("--table", type=Path, metavar="JSON", help="print the table and stop")
    given = parser.parse_args()
    if given.table is not None:
        print(table(earlier(given.table, {"cells": []})))
        return
    use_data(given.data)
    folder = datasets.data_folder()
    if folder is None:
        parser.error("give --data, or set NOISYOR_DATA to the folder of the data files")
    machine, content = Machine(), earlier(given.json, {"cells": []})
    done = {(cell["set"], cell["split"], cell["n_components"]) for cell in content["cells"]}
    found: dict[tuple[str, int], dict[str, float]] = {}
    with threadpool_limits(limits=1):
        warm_up()
    for name, split, size in cells(given.only or list(SETS), given.sizes):
        if (name, split, size) in done:
            continue
        rows = load(name, split, folder)
        with threadpool_limits(limits=1):
            if (name, split) not in found:
                found[name, split] = references(rows)
            cell = run(rows, size, found[name, split])
        cell = {"set": name, "split": split, "n_components": size, "commit": commit(), **cell}
        content["cells"].append(cell)
        content["machine"] = machine.describe("scikit-learn")
        write(given.json, content)
        print(cell, flush=True)
    print(table(content))


if __name__ == "__main__":
    main()
