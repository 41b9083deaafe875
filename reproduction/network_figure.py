"""The learned network of a text experiment, drawn layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reproduction.arrays import unpack
from reproduction.drawing import COLOURS, Run, blank_figure, median_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["network_picture"]

_COLOUR = COLOURS["two-stage, gaussian"]


def network_picture(runs: Sequence[Run]) -> Figure | None:
    """The learned network of the median run: layers from the top, edges as strong as their theta.

    Of the edges the strongest into every node is drawn full, the others faint.
    """
    own = [run for run in runs if "child_ptr" in run["arrays"]]
    if not own:
        return None
    run = median_run(own, "test_elbo")
    arrays = run["arrays"]
    ptr, parent = unpack(arrays["child_ptr"]), unpack(arrays["parent"])
    theta, levels = unpack(arrays["theta"]), unpack(arrays["levels"])
    names = arrays["names"]
    n_hidden, n_visible = len(levels), len(ptr) - 1 - len(levels)
    x, y = _layout(ptr, parent, theta, levels, n_visible)
    figure = blank_figure(max(8.0, 0.16 * n_visible), 5.0)
    axes = figure.subplots()
    strength = 1 - np.exp(-theta)
    for child in range(n_visible + n_hidden):
        edges = range(int(ptr[child]), int(ptr[child + 1]))
        main = max(edges, key=lambda e: theta[e], default=-1)
        for e in edges:
            top = n_visible + int(parent[e])
            faint = 0.25 if e != main else 1.0
            axes.plot(
                [x[child], x[top]],
                [y[child], y[top]],
                color=_COLOUR,
                alpha=float(faint * strength[e]),
                linewidth=0.4 + 1.4 * float(strength[e]),
                zorder=1,
            )
    axes.scatter(
        x, y, s=[10] * n_visible + [36] * n_hidden, color="white", edgecolor="black", zorder=2
    )
    for node, name in enumerate(names[:n_visible]):
        axes.text(x[node], y[node] - 0.06, name, rotation=90, fontsize=6, ha="center", va="top")
    axes.set_ylim(y.min() - 0.75, y.max() + 0.2)
    axes.set_axis_off()
    axes.set_title(
        f"{run['case']}: {n_visible} words, {n_hidden} causes; {run['method']}, {run['init']}, "
        f"seed {run['seed']}, test Elbo {run['metrics']['test_elbo']:.2f}",
        fontsize=9,
    )
    return figure


def _layout(
    ptr: npt.NDArray[Any],
    parent: npt.NDArray[Any],
    theta: npt.NDArray[Any],
    levels: npt.NDArray[Any],
    n_visible: int,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Places of all nodes: visibles at the bottom, each layer ordered by its strongest parent."""
    n_nodes = len(ptr) - 1
    level = np.concatenate([np.full(n_visible, int(levels.max()) + 1), levels])
    x, y = np.zeros(n_nodes), -level.astype(np.float64)
    for depth in range(int(level.max()) + 1):
        nodes = np.flatnonzero(level == depth)
        wish = []
        for node in nodes:
            edges = np.arange(ptr[node], ptr[node + 1])
            if len(edges):
                wish.append(x[n_visible + parent[edges[np.argmax(theta[edges])]]])
            else:
                wish.append(float(node))
        order = np.argsort(wish, kind="stable")
        x[nodes[order]] = (np.arange(len(nodes)) + 0.5) / len(nodes)
    return x, y
