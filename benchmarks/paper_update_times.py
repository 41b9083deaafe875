"""Time one training update on the paper's problems, with the paper's settings and with defaults.

    python benchmarks/paper_update_times.py [--data DIR] [--json results/paper_update_times.json]

The paper times fifteen problems: nine factorizations, blind deconvolution and five text data sets.
Patent and Yelp are not measured; AG News has 77,006 of its 120,000 items, and other arXiv abstracts
of the same years replace scientific_papers. An update is inference on a batch, the gradient, Adam
and the clip, on two threads. The variant ``paper`` has the paper's settings: 100 iterations of
max-product over all nodes in the authors' order of messages; 10 x (10 + 10) rounds of variational
inference, local on text. The variant ``defaults`` has noisyor's settings: the collapsed order, rows
stop when they have converged, on text only ancestors of a document's words take part, and
variational inference stops at 1e-4. Networks are trained for some updates first. Times are the
fastest of all rounds. On IMDB the script also measures the effect of ``ancestors_only`` on the mean
Elbo^MP of test documents after 1,000 updates. With ``--only``, other cases in the file are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import noisyor as nor
from _measure import Machine, arguments, earlier, interleaved, significant, write
from _problems import (
    Problem,
    _datasets,
    _imdb_of,
    blind_deconvolution,
    bmf,
    data_directory,
    use_data,
)

WARM_UP = 50
TOLERANCE = 1e-4
ANCESTOR_STEPS = 1000
ROWS_OF_TEST = 512
SIZES = [(n, n * tenths // 10) for n in (100, 200, 400) for tenths in (2, 4, 6)]
TEXTS = {
    "IMDB": "load_imdb",
    "Agnews-77006": "load_ag_news_union",
    "Abstract-years": "load_arxiv_years",
}
PAPER_NAMES = {"Agnews-77006": "Agnews", "Abstract-years": "Abstract"}


def builders(data: Path | None) -> dict[str, Callable[[], Problem]]:
    """Return the problems by the paper's names of the cases."""
    found: dict[str, Callable[[], Problem]] = {f"{n},{r}": partial(bmf, n, r) for n, r in SIZES}
    if data is not None:
        found["BD"] = partial(blind_deconvolution, data)
    found |= {name: partial(_text, loader) for name, loader in TEXTS.items()}
    return found


def _text(loader: str) -> Problem:
    return _imdb_of(getattr(_datasets(), loader)().train)


def methods_of(problem: Problem, is_text: bool) -> dict[str, nor.MaxProduct | nor.MeanField]:
    """Return the four variants to time."""
    mp = problem.method
    forced = replace(mp, tolerance=0.0, ancestors_only=False, schedule="two-stage")
    vi = nor.MeanField(local=is_text)
    return {
        "mp, paper": forced,
        "mp, defaults": mp,
        "vi, paper": vi,
        "vi, defaults": replace(vi, tolerance=TOLERANCE),
    }


def measure(problem: Problem, is_text: bool, rounds: int, quiet: float | None) -> dict[str, Any]:
    """Measure the milliseconds of an update by all variants, in interleaved rounds."""
    trained = problem.trained(WARM_UP)
    network, start, batches = trained.network, trained.state, problem.batches()
    batch = batches[start.step % len(batches)]

    def update(method: nor.MaxProduct | nor.MeanField) -> None:
        nor.learning.step(
            start, network, batch, method, learning_rate=problem.learning_rate, seed=0
        )

    methods = methods_of(problem, is_text)
    cases: dict[str, Callable[[], object]] = {
        name: partial(update, method) for name, method in methods.items()
    }
    times = interleaved(cases, rounds, quiet=quiet)
    result: dict[str, Any] = {"mp": {}, "vi": {}, "cpu_ms": {}}
    for name in cases:
        kind, variant = name.split(", ")
        result[kind][variant] = times[name]["fastest_wall_ms"]
        result["cpu_ms"][name] = times[name]["cpu_ms"]
    result["share_of_cpu_used_by_others"] = times["mp, paper"]["share_of_cpu_used_by_others"]
    return result


def ancestors(problem: Problem) -> dict[str, Any]:
    """Return the mean test Elbo^MP of IMDB with ancestors of words only, and with all nodes."""
    network = problem.trained(ANCESTOR_STEPS).network
    rows = _datasets().load_imdb().test.shuffled(0).take(slice(0, ROWS_OF_TEST))
    both = [
        float(replace(problem.method, ancestors_only=only).bounds(network, rows).elbo.mean())
        for only in (True, False)
    ]
    return {
        "rows": ROWS_OF_TEST,
        "steps": ANCESTOR_STEPS,
        "elbo_mp_ancestors": significant(both[0], 7),
        "elbo_mp_all": significant(both[1], 7),
    }


def paper_seconds(name: str, is_text: bool) -> dict[str, float]:
    """Return the paper's seconds of an update, by method."""
    import _root  # noqa: F401
    from reproduction.paper import paper_cells

    experiment = "text" if is_text else "deconvolution" if name == "BD" else "bmf"
    case = PAPER_NAMES.get(name, name)
    return {
        cell.method.removeprefix("local-"): cell.mean
        for cell in paper_cells(experiment)
        if (cell.case, cell.metric) == (case, "update_median")
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="directory of the data files")
    parser.add_argument("--only", nargs="*", help="names of the cases to run")
    given = parser.parse_args()
    use_data(given.data)
    machine, content = Machine(), earlier(given.json, {"cases": {}, "ancestors_only": None})
    for name, build in builders(data_directory(given.data)).items():
        if given.only and name not in given.only:
            continue
        is_text = name in TEXTS
        problem = build()
        row = measure(problem, is_text, given.rounds, given.quiet)
        row["paper_seconds"] = paper_seconds(name, is_text)
        content["cases"][name] = row
        print(name, {kind: row[kind] for kind in ("mp", "vi", "paper_seconds")}, flush=True)
        if name == "IMDB":
            content["ancestors_only"] = ancestors(problem)
            print(content["ancestors_only"], flush=True)
        content["machine"], content["warm_up_steps"] = machine.describe(), WARM_UP
        write(given.json, content)


if __name__ == "__main__":
    main()
