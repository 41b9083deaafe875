"""How fast are the engines beside each other, on the same rows?

    python benchmarks/engines.py [--device cpu|cuda] [--data DIR] [--json results/engines.json]

Every function that the engine Warp has, against numba on one thread: networks of the paper, all
rows of a problem in one call, after a call that compiles. States are held to those of numba. On the
CPU both engines have one thread, and the medians of CPU time count. On a GPU, of which none has
been measured so far, wall time does, copies to the device and back included.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from _measure import Machine, arguments, interleaved, significant, write
from _problems import (
    Problem,
    blind_deconvolution,
    bmf_near_truth,
    data_directory,
    imdb,
    tiny20,
)
from noisyor.engines.contract import Engine, Evidence, MaxProductOptions, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.engines.warp.engine import WarpEngine

KEY = NoiseKey(0)
MOST_ROWS = 1000


def problems(data: Path | None) -> dict[str, Problem]:
    """Dense networks, and those of the data files that are there."""
    found = {f"matrix of {n}, rank {r}": bmf_near_truth(n, r) for n, r in [(100, 20), (400, 80)]}
    loaders: dict[str, Callable[[Path], Problem]] = {
        "blind deconvolution": blind_deconvolution,
        "tiny20": tiny20,
        "imdb": imdb,
    }
    for name, load in loaders.items():
        try:
            found[name] = load(data if data is not None else Path("data"))
        except OSError:
            print(f"{name}: no data file")
    return found


def cases(engines: dict[str, Engine], problem: Problem) -> dict[str, dict[str, Callable[[], Any]]]:
    """Calls by function and engine; all engines get the states that numba found."""
    rows = problem.rows.take(slice(0, MOST_ROWS))
    evidence = Evidence.of(problem.network, rows)
    options = problem.method._options()
    prepared = {name: engine.prepare(problem.network) for name, engine in engines.items()}
    states = engines["numba"].max_product(prepared["numba"], evidence, options, KEY).states

    def max_product(name: str, how: MaxProductOptions) -> Callable[[], Any]:
        return lambda: engines[name].max_product(prepared[name], evidence, how, KEY)

    def of_states(name: str, function: str) -> Callable[[], Any]:
        return lambda: getattr(engines[name], function)(prepared[name], evidence, states)

    found = {"max_product": {name: max_product(name, options) for name in engines}}
    for function in ("log_joint", "log_joint_gradient"):
        if function in engines["warp"].supports:
            found[function] = {name: of_states(name, function) for name in engines}
    return found


def agreement(function: str, mine: Any, theirs: Any) -> float:
    """Share of lines that agree, or the largest difference of sums, relative to the largest."""
    if function.startswith("max_product"):
        return float((mine.states == theirs.states).all(axis=1).mean())
    one, other = (
        (found if function == "log_joint" else found.gradient) for found in (mine, theirs)
    )
    return significant(float(np.abs(one - other).max() / np.abs(other).max()))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data files, else NOISYOR_DATA")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    given = parser.parse_args()
    machine = Machine()
    engines: dict[str, Engine] = {
        "numba": get_engine("numba", n_threads=1),
        "warp": WarpEngine(n_threads=1, device=given.device),  # type: ignore[abstract]
    }
    clock = "cpu_ms" if given.device == "cpu" else "wall_ms"
    results: dict[str, Any] = {}
    for name, problem in problems(data_directory(given.data)).items():
        rows = min(problem.rows.n_rows, MOST_ROWS)
        found: dict[str, Any] = {"network": repr(problem.network), "rows": rows}
        for function, by_engine in cases(engines, problem).items():
            same = agreement(function, by_engine["warp"](), by_engine["numba"]())
            times = interleaved(by_engine, given.rounds, quiet=given.quiet)
            ratio = significant(times["warp"][clock] / times["numba"][clock], 3)
            key = "same_states" if function.startswith("max_product") else "largest_difference"
            found[function] = {**times, key: same, "warp_over_numba": ratio}
            print(
                f"{name:22} {function:24} numba {times['numba'][clock]:9.3f} ms   "
                f"warp {times['warp'][clock]:9.3f} ms   ratio {ratio:5.2f}   {key} {same}",
                flush=True,
            )
        results[name] = found
        content = {
            "device": given.device,
            "ratio_of": clock,
            "machine": machine.describe("warp-lang"),
            "problems": results,
        }
        write(given.json, content)  # after every problem: a run may take long


if __name__ == "__main__":
    main()
