"""Measure how the time of inference grows with the number of active edges.

    python benchmarks/scaling.py [--json results/scaling.json] [--plot results/scaling.svg]

The script times 50 iterations of max-product on one thread, on three families of networks: two
layers of growing size with a quarter of ones, two layers of fixed size with a growing share of
ones, and sparse random layers (five parents per node, each layer a third of the one below) with one
word in fifty active. An active edge leads into an active visible or a hidden node. The script
prints the exponent of a power law fitted to the time of a row against its active edges; 1 means
proportional. Sizes are measured alternately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import noisyor as nor
from _inference import BatchInference
from _measure import Machine, arguments, interleaved, significant, write
from _problems import active_edges
from noisyor.data.observations import Observations
from noisyor.model.network import Network

ITERATIONS = 50
EDGES_A_CALL = 200_000  # small rows come in numbers, so that the call itself costs nothing


class Point(NamedTuple):
    """A network, its rows and a description."""

    network: Network
    rows: Observations
    text: str


def _point(network: Network, density: float, text: str) -> Point:
    generator = np.random.default_rng(0)
    n_visible = network.n_visible
    n_ones = max(1, round(density * n_visible))

    def rows(number: int) -> Observations:
        ones = [generator.choice(n_visible, n_ones, replace=False) for _ in range(number)]
        return Observations.from_indices(ones, n_visible=n_visible)

    edges = active_edges(network, rows(1), ancestors_only=False)
    return Point(network, rows(int(np.clip(EDGES_A_CALL / edges, 2, 500))), text)


def _bipartite(n_visible: int, n_hidden: int) -> Network:
    generator = np.random.default_rng(0)
    failure = generator.uniform(0.3, 0.95, (n_hidden, n_visible))
    return nor.bipartite(n_visible, n_hidden, failure_probability=failure)


def _layers(n_visible: int, n_parents: int = 5) -> Network:
    """Draw random layers; every hidden node gets at least one child."""
    generator = np.random.default_rng(0)
    sizes = [n_visible]
    while len(sizes) < 4 and sizes[-1] >= 3 * n_parents:
        sizes.append(sizes[-1] // 3)
    first = np.cumsum([0, *sizes[1:]])
    edges: list[list[tuple[int, int]]] = [[], []]
    for layer, (below, above) in enumerate(pairwise(sizes)):
        for child in range(below):
            others = generator.choice(above, min(n_parents, above), replace=False)
            parents = {child % above, *others[: n_parents - 1].tolist()}
            into = child if layer == 0 else int(first[layer - 1]) + child
            edges[layer > 0] += [(int(first[layer]) + k, into) for k in sorted(parents)]
    n_edges = len(edges[0]) + len(edges[1])
    failure = generator.uniform(0.3, 0.95, n_edges)
    return nor.from_edges(
        n_visible, int(first[-1]), edges[0], edges[1], failure_probability=failure
    )


def growing_two_layers() -> Iterator[Point]:
    for n in (80, 120, 180, 280, 420, 640, 960, 1400):
        yield _point(_bipartite(n, n // 2), 0.25, f"n={n} r={n // 2}")


def denser_rows() -> Iterator[Point]:
    network = _bipartite(4000, 64)
    for density in (0.003, 0.006, 0.013, 0.027, 0.055, 0.11, 0.22, 0.45, 0.9):
        yield _point(network, density, f"{density:.1%} ones")


def sparse_layers() -> Iterator[Point]:
    for n in (100, 230, 500, 1100, 2500, 5500, 12000, 27000):
        yield _point(_layers(n), 0.02, f"n={n}")


FAMILIES: dict[str, Callable[[], Iterator[Point]]] = {
    "two layers, growing": growing_two_layers,
    "two layers, denser rows": denser_rows,
    "sparse layers, growing": sparse_layers,
}


def measure(points: list[Point], rounds: int, quiet: float | None) -> list[dict[str, Any]]:
    method = nor.MaxProduct(tolerance=0.0, max_iterations=ITERATIONS)
    cases = {point.text: BatchInference(point.network, point.rows, method) for point in points}
    times = interleaved(cases, rounds, quiet=quiet)
    result = []
    for point in points:
        edges = active_edges(point.network, point.rows, ancestors_only=False)
        row_ms = times[point.text]["cpu_ms"] / point.rows.n_rows
        result.append(
            {
                "network": point.text,
                "active_edges_per_row": edges,
                "cpu_ms_per_row": significant(row_ms),
                "wall_ms_per_row": significant(times[point.text]["wall_ms"] / point.rows.n_rows),
                "ns_per_edge_update": significant(row_ms * 1e6 / (edges * ITERATIONS), 3),
            }
        )
    return result


def exponent(points: list[dict[str, Any]]) -> float:
    edges = np.log([point["active_edges_per_row"] for point in points])
    times = np.log([point["cpu_ms_per_row"] for point in points])
    return float(np.polyfit(edges, times, 1)[0])


def draw(path: Path, families: dict[str, dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "noisyor"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
    for (name, family), marker in zip(families.items(), "os^", strict=True):
        edges = [point["active_edges_per_row"] for point in family["points"]]
        times = [point["cpu_ms_per_row"] for point in family["points"]]
        axes.loglog(edges, times, marker, label=f"{name}: exponent {family['exponent']:.2f}")
    low, high = axes.get_xlim()
    guide = np.geomspace(low, high, 2)
    axes.loglog(guide, guide * ITERATIONS * 1e-6, "--", color="0.6", label="1 ns an edge")
    axes.set_xlim(low, high)
    axes.set_xlabel("active edges of a row")
    axes.set_ylabel(f"CPU time of a row, {ITERATIONS} iterations (ms)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--plot", type=Path, help="write a plot to this file, .svg or .png")
    given = parser.parse_args()
    machine = Machine()
    families: dict[str, dict[str, Any]] = {}
    for name, points in FAMILIES.items():
        measured = measure(list(points()), given.rounds, given.quiet)
        edges = [point["active_edges_per_row"] for point in measured]
        families[name] = {
            "exponent": round(exponent(measured), 3),
            "decades": round(float(np.log10(max(edges) / min(edges))), 2),
            "points": measured,
        }
        print(
            f"exponent {families[name]['exponent']:.2f} over {families[name]['decades']} decades   "
            f"{name}: {min(edges):.0f} to {max(edges):.0f} active edges a row, "
            f"{measured[0]['ns_per_edge_update']} to {measured[-1]['ns_per_edge_update']} ns "
            "an edge and iteration"
        )
    if given.plot:
        draw(given.plot, families)
    write(
        given.json,
        {"machine": machine.describe("matplotlib"), "iterations": ITERATIONS, "families": families},
    )


if __name__ == "__main__":
    main()
