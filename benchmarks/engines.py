"""Compare the speed of the engines on the same rows.

    python benchmarks/engines.py [--device cpu|cuda] [--data DIR] [--json results/engines.json]

The script times max-product by Warp and by numba on networks of the paper, with all rows of a
problem in one call, after a call that compiles the kernels. ``same_states`` is the share of rows
with equal states. On the CPU both engines use one thread, and medians of CPU time are compared. On
a GPU (not measured so far), wall time is compared, with copies to the device and back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import Machine, arguments, interleaved, significant, write
from _problems import (
    Problem,
    blind_deconvolution,
    bmf_near_truth,
    data_directory,
    imdb,
    tiny20,
)
from noisyor.engines.contract import Engine, Evidence, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.engines.warp.engine import WarpEngine

KEY = NoiseKey(0)
MOST_ROWS = 1000


def problems(data: Path | None) -> dict[str, Problem]:
    """Return dense networks, and networks of the data files that are present."""
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


def calls(engines: dict[str, Engine], problem: Problem) -> dict[str, Callable[[], Any]]:
    """Return a call of max-product for each engine."""
    rows = problem.rows.take(slice(0, MOST_ROWS))
    evidence, options = Evidence.of(problem.network, rows), problem.method._options()

    def max_product(engine: Engine) -> Callable[[], Any]:
        prepared = engine.prepare(problem.network)
        return lambda: engine.max_product(prepared, evidence, options, KEY)

    return {name: max_product(engine) for name, engine in engines.items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--data", type=Path, help="folder of the data files (default: NOISYOR_DATA)"
    )
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
        by_engine = calls(engines, problem)
        mine, theirs = (by_engine[engine]().states for engine in ("warp", "numba"))
        same = float((mine == theirs).all(axis=1).mean())
        times = interleaved(by_engine, given.rounds, quiet=given.quiet)
        ratio = significant(times["warp"][clock] / times["numba"][clock], 3)
        found["max_product"] = {**times, "same_states": same, "warp_over_numba": ratio}
        print(
            f"{name:22} numba {times['numba'][clock]:9.3f} ms   "
            f"warp {times['warp'][clock]:9.3f} ms   ratio {ratio:5.2f}   same states {same}",
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
