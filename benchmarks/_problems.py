"""Problems for benchmarks: the paper's data, networks and settings.

Only public names of the package are used at the top of this module: ``against_commit.py``
builds the same problems with the package of another commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import noisyor as nor
from noisyor import Network, Observations
from noisyor.learning.state import TrainingResult

BMF_SIZES = [(100, 20), (200, 120), (400, 80), (400, 240)]
BMF_BATCH = 20


class Problem(NamedTuple):
    """A network before training, its training rows, and the paper's training settings."""

    network: Network
    rows: Observations
    method: nor.MaxProduct
    batch_size: int
    learning_rate: float

    def trained(self, steps: int) -> TrainingResult:
        """Return the network after some updates, so that messages carry information."""
        return nor.train(
            self.network,
            self.rows,
            self.method,
            steps=steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=0,
            progress=False,
        )

    def batches(self) -> list[Observations]:
        """Yield the minibatches in the order of training."""
        shuffled = self.rows.shuffled(0)
        size = self.batch_size
        return [shuffled.take(slice(k, k + size)) for k in range(0, shuffled.n_rows, size)]


def active_edges(network: Network, rows: Observations, ancestors_only: bool) -> float:
    """Return the mean number of edges into active visibles and hidden nodes of a row."""
    counts = np.diff(network.child_ptr)
    first = network.n_visible
    into_visibles = sum(int(counts[_ones(rows, r)].sum()) for r in range(rows.n_rows))
    if not ancestors_only:
        return into_visibles / rows.n_rows + int(counts[first:].sum())
    into_hidden = 0
    for r in range(rows.n_rows):
        reached = np.zeros(network.n_hidden, dtype=np.bool_)
        nodes = _ones(rows, r)
        while nodes.size:
            edges = [network.parent[network.child_ptr[i] : network.child_ptr[i + 1]] for i in nodes]
            above = np.unique(np.concatenate(edges))
            above = above[~reached[above]]
            reached[above] = True
            nodes = above + first
        into_hidden += int(counts[first:][reached].sum())
    return (into_visibles + into_hidden) / rows.n_rows


def _ones(rows: Observations, number: int) -> npt.NDArray[np.int32]:
    return rows.columns[rows.ptr[number] : rows.ptr[number + 1]]


def data_directory(given: Path | None) -> Path | None:
    """Return the folder of the data files: the argument, else ``NOISYOR_DATA``, else None."""
    if given is None and os.environ.get("NOISYOR_DATA"):
        given = Path(os.environ["NOISYOR_DATA"])
    return given


def use_data(given: Path | None) -> None:
    """Make the loaders of the library search the given folder first."""
    if given is not None:
        os.environ["NOISYOR_DATA"] = str(given)


class BooleanProduct(NamedTuple):
    """A training matrix X (n, n) and its true factors U (n, r) and V (r, n), all of 0 and 1."""

    X: npt.NDArray[np.uint8]
    U: npt.NDArray[np.uint8]
    V: npt.NDArray[np.uint8]


def bmf_data(n: int, r: int, seed: int = 0) -> BooleanProduct:
    """Draw the paper's Boolean matrix factorization of rank r."""
    density = np.sqrt(1 - 0.75 ** (1 / r))
    generator = np.random.default_rng(seed)
    _, U, V = (generator.random(shape) < density for shape in [(n, r), (n, r), (r, n)])
    X = (U.astype(np.int64) @ V.astype(np.int64)) > 0
    return BooleanProduct(X.astype(np.uint8), U.astype(np.uint8), V.astype(np.uint8))


def bmf_near_truth(n: int, r: int) -> Problem:
    """Return the factorization of rank r with the true parameters and noise on them."""
    problem, data = bmf(n, r), bmf_data(n, r)
    generator = np.random.default_rng(1)
    failure = np.where(data.V, 0.1, 0.95) + generator.uniform(-0.05, 0.05, (r, n))
    network = nor.bipartite(
        n,
        r,
        prior="shared",
        fixed=("noise",),
        failure_probability=failure,
        prior_probability=data.U.mean(),
    )
    return problem._replace(network=network)


def bmf(n: int, r: int) -> Problem:
    """Return the problem of Boolean matrix factorization with r hidden nodes."""
    return _bmf_of(Observations.of(bmf_data(n, r).X), r)


def blind_deconvolution(data: Path) -> Problem:
    return _blind_deconvolution_of(load_rows("blind deconvolution", data))


def tiny20(data: Path) -> Problem:
    return _tiny20_of(load_rows("tiny20", data))


def imdb(data: Path) -> Problem:
    return _imdb_of(load_rows("imdb", data))


def load_rows(name: str, data: Path | None) -> Observations:
    """Load or draw the training rows of a problem of ``BUILDERS``."""
    if name.startswith("bmf"):
        n, r = next(size for size in BMF_SIZES if name == bmf_name(*size))
        return Observations.of(bmf_data(n, r).X)
    assert data is not None
    if name == "imdb":
        use_data(data)
        rows: Observations = _datasets().load_imdb().train
        return rows
    if name == "tiny20":
        return load_tiny20(data).split(0.7, seed=0)[0]
    with np.load(data / "conv_problem.npz") as archive:
        return Observations.of(archive["X"]).split(0.8, seed=0)[0]


def load_tiny20(data: Path) -> Observations:
    """Load all rows of the 100-word newsgroup data."""
    use_data(data)
    rows: Observations = _datasets().load_tiny20().observations
    return rows


def _datasets() -> Any:
    """Import the loaders of the paper's data, which may be missing in another commit."""
    import _root  # noqa: F401
    from reproduction import datasets

    return datasets


def bmf_name(n: int, r: int) -> str:
    return f"bmf n={n} r={r}"


def _bmf_of(rows: Observations, r: int) -> Problem:
    network = nor.bipartite(rows.n_visible, r, prior="shared", fixed=("noise",))
    network = nor.initialize(network, "paper-3", noise="uniform")
    return Problem(network, rows, nor.MaxProduct(temperature=1.0), BMF_BATCH, 1e-3)


def _blind_deconvolution_of(rows: Observations) -> Problem:
    network = nor.convolutional((14, 14), 5, (6, 6), fixed=("noise",))
    network = nor.initialize(network, "paper-3", noise="uniform")
    return Problem(network, rows, nor.MaxProduct(temperature=1.0), rows.n_rows, 0.01)


def _tiny20_of(rows: Observations) -> Problem:
    network = nor.initialize(nor.layered(rows, n_layers=3), "paper-3")
    return Problem(network, rows, nor.MaxProduct(), rows.n_rows, 0.01)


def _imdb_of(rows: Observations) -> Problem:
    network = nor.initialize(nor.layered(rows, n_layers=5), "paper-3")
    return Problem(network, rows, nor.MaxProduct(ancestors_only=True), 128, 3e-4)


BUILDERS: dict[str, Callable[[Observations], Problem]] = {
    **{bmf_name(n, r): partial(_bmf_of, r=r) for n, r in BMF_SIZES},
    "blind deconvolution": _blind_deconvolution_of,
    "tiny20": _tiny20_of,
    "imdb": _imdb_of,
}
"""How to build a problem from its training rows."""
