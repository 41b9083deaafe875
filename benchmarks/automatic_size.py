"""Compare the number of causes that ``"auto"`` chooses with fits of fixed numbers.

    python benchmarks/automatic_size.py [--data DIR] [--only SET ...]
        [--json results/automatic_size.json]
    python benchmarks/automatic_size.py --table results/automatic_size.json

``learn_factors`` learns from the same training rows with ``n_components="auto"`` and with K = 5,
10, 20, 40 and 80 causes, all with seed 0 and the objective that ``"auto"`` takes; their mean log p
of the test rows is compared. The standard error is that of the difference between the best fixed
number and ``"auto"`` over test rows. At most 4,000 rows are for training and 2,000 for the test.
CPU seconds are process time on one thread, after compilation. Two tables are sampled: 41 causes of
8 of 150 columns each, and baskets of 169 items from 30 causes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, earlier, write
from _problems import use_data
from noisyor.engines.registry import get_engine
from noisyor.inference.evaluate import Score
from noisyor.inference.sampling import log_probability
from readable import Rows, commit, load, timed, warm_up
from reproduction import datasets

SIZES = (5, 10, 20, 40, 80)
MAX_TRAIN, MAX_TEST = 4000, 2000
SETS = ("nltcs", "plants", "jester", "baudio", "bnetflix", "tiny20", "41 causes", "baskets")


def rows_of(name: str, folder: Path) -> Rows:
    """Return at most 4,000 training rows and 2,000 test rows of a set."""
    if name in ("41 causes", "baskets"):
        return sampled(name)
    whole, generator = load(name, 0, folder), np.random.default_rng(0)
    parts = zip(whole, (MAX_TRAIN, MAX_TEST), strict=True)
    return Rows(
        *(rows.take(np.sort(generator.permutation(rows.n_rows)[:most])) for rows, most in parts)
    )


def sampled(name: str) -> Rows:
    """Sample training rows and test rows from a noisy-OR network."""
    generator = np.random.default_rng(1)
    if name == "41 causes":
        n_causes, n_columns, n_edges, prior = 41, 150, 8, np.full(41, 0.04)
        popularity = np.full(n_columns, 1.0 / n_columns)
    else:  # a few items are in many baskets, most are rare
        n_causes, n_columns, n_edges = 30, 169, 12
        prior = generator.uniform(0.02, 0.1, n_causes)
        popularity = generator.pareto(1.2, n_columns) + 0.2
        popularity /= popularity.sum()
    failure = np.ones((n_causes, n_columns))
    for cause in failure:
        chosen = generator.choice(n_columns, n_edges, replace=False, p=popularity)
        cause[chosen] = 1.0 - generator.uniform(0.2, 0.8, n_edges)
    network = nor.bipartite(
        n_columns,
        n_causes,
        failure_probability=failure,
        prior_probability=prior,
        noise="per_visible",
        noise_probability=np.clip(popularity, 1e-3, 0.2),
    )
    train, test = (nor.sample(network, n, seed=n).visible for n in (MAX_TRAIN, MAX_TEST))
    return Rows(nor.Observations.of(train), nor.Observations.of(test))


def run(rows: Rows) -> dict[str, Any]:
    """Learn and score all sizes of one set."""
    engine = get_engine(n_threads=1)

    def fit(size: Any, objective: Any) -> Any:
        return timed(
            lambda: nor.learn_factors(
                rows.train, size, objective=objective, seed=0, engine=engine, progress=False
            )
        )

    chosen, seconds = fit("auto", "auto")
    objective = chosen.settings["objective"]
    ours = log_probability(chosen.network, rows.test, engine=engine)
    fixed, times = {}, {}
    for size in SIZES:
        if size <= max(rows.train.n_rows, rows.train.n_visible):
            found, times[size] = fit(size, objective)
            fixed[size] = log_probability(found.network, rows.test, engine=engine)
    best = max(fixed, key=lambda size: fixed[size].mean)
    lost = Score(fixed[best].per_row - ours.per_row, weights=rows.test.weights)
    return {
        "rows": [rows.train.n_rows, rows.test.n_rows],
        "columns": rows.train.n_visible,
        "objective": objective,
        "auto": {"n_components": chosen.network.n_hidden, "log_p": round(ours.mean, 3)},
        "fixed": {str(size): round(found.mean, 3) for size, found in fixed.items()},
        "best": best,
        "lost": round(lost.mean, 3),
        "lost_standard_error": round(lost.standard_error, 3),
        "curve": chosen.settings.get("n_components_curve"),
        "cpu_seconds": {"auto": seconds, **{str(size): value for size, value in times.items()}},
    }


def table(content: dict[str, Any]) -> str:
    """Write the results as a Markdown table."""
    lines = [
        "| data | rows, columns | "
        + " | ".join(f"K={size}" for size in SIZES)
        + " | auto | best − auto | CPU s |",
        "|---|---|" + "---:|" * (len(SIZES) + 3),
    ]
    for name, case in content["cases"].items():
        values = [case["fixed"].get(str(size)) for size in SIZES]
        cells = [
            "" if value is None else f"**{value:.3f}**" if size == case["best"] else f"{value:.3f}"
            for size, value in zip(SIZES, values, strict=True)
        ]
        auto = case["auto"]
        lines.append(
            f"| {name} | {case['rows'][0]:,}, {case['columns']} | {' | '.join(cells)} "
            f"| {auto['log_p']:.3f} (K={auto['n_components']}) "
            f"| {case['lost']:+.3f} ± {case['lost_standard_error']:.3f} "
            f"| {case['cpu_seconds']['auto']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of the data files")
    parser.add_argument("--only", nargs="*", choices=SETS, help="sets to run")
    parser.add_argument("--table", type=Path, metavar="JSON", help="print the table and stop")
    given = parser.parse_args()
    if given.table is not None:
        print(table(earlier(given.table, {"cases": {}})))
        return
    use_data(given.data)
    folder = datasets.data_folder()
    if folder is None:
        parser.error("give --data, or set NOISYOR_DATA to the folder of the data files")
    machine, content = Machine(), earlier(given.json, {"cases": {}})
    with threadpool_limits(limits=1):
        warm_up()
        for name in given.only or SETS:
            if name not in content["cases"]:
                case = {"commit": commit(), **run(rows_of(name, folder))}
                content["cases"][name] = case
                content["machine"] = machine.describe("scikit-learn")
                write(given.json, content)
                print(name, case, flush=True)
    print(table(content))


if __name__ == "__main__":
    main()
