"""Causes, probabilities and bounds of rows that workers of a cluster read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.json import plain
from noisyor._util.progress import progress_bar
from noisyor._util.validation import check_choice, check_count, check_seed
from noisyor.distributed.chunks import Item
from noisyor.distributed.parts import (
    Parts,
    digest_of,
    open_parts,
    part_file,
    write_explanations,
    write_marginals,
)
from noisyor.distributed.session import OnCluster, Session, session
from noisyor.distributed.tasks import bound_rows, explain_rows, fingerprint, marginals_of_rows
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import (
    EvaluationResult,
    chosen_methods,
    evaluation_of,
    hidden_evidence,
)
from noisyor.inference.max_product import MaxProduct, method_for
from noisyor.inference.method import Bounds, Method, Posterior, concatenate
from noisyor.inference.sampling import METHODS, MarginalMethod, Marginals
from noisyor.model.network import Network

__all__ = ["evaluate", "explain", "marginals", "mean_bound"]

PathLike = str | os.PathLike[str]


def explain(
    client: Any,
    network: Network,
    rows: Any,
    method: Method | None = None,
    *,
    out: PathLike | None = None,
    hidden: Mapping[str | int, int] | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
    exact: bool = True,
    timeout: float = 60.0,
) -> Posterior | Parts:
    """Most likely causes of rows that workers of a cluster read.

    Parameters
    ----------
    client, rows, engine, exact, timeout : as in `noisyor.distributed.train`.
    network, method, seed, progress : as in `noisyor.explain`.
    out : folder on shared storage that workers write a Parquet file to for each chunk of rows, so
        that no memory grows with their number. Called again with the same arguments, it writes the
        files that are not there yet. None brings everything into the memory of this process.
    hidden : evidence on hidden nodes that holds for all rows: a mapping from name or index to 0
        or 1.

    Returns
    -------
    `Parts` if ``out`` is given, else a `Posterior`. Each row has the bits of `noisyor.explain`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> network = nor.bipartite(n_visible=4, n_hidden=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     parts = nor.distributed.explain(client, network, "rows", out="causes")
    >>> parts.n_rows, [file.name for file in parts.files]
    (8, ['part-00000000.parquet'])
    """
    chosen = method_for(network) if method is None else method
    clamp = hidden_evidence(network, _for_all(hidden), 0)
    cluster = OnCluster(engine, exact, timeout)
    with session(
        client, network, rows, cluster, method=chosen, seed=check_seed(seed), clamp=clamp
    ) as opened:
        if out is None:
            return concatenate(_gathered(opened, explain_rows, progress))
        run = {"what": "explain", "method": plain(chosen.settings())}
        return _written(opened, write_explanations, out, run, progress)


def marginals(
    client: Any,
    network: Network,
    rows: Any,
    method: MarginalMethod = "chains",
    *,
    out: PathLike | None = None,
    n_samples: int = 64,
    hidden: Mapping[str | int, int] | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
    exact: bool = True,
    timeout: float = 60.0,
) -> Marginals | Parts:
    """Posterior probability of each cause, of rows that workers of a cluster read.

    Parameters
    ----------
    client, rows, engine, exact, timeout : as in `noisyor.distributed.train`.
    network, method, n_samples, seed, progress : as in `noisyor.marginals`.
    out, hidden : as in `noisyor.distributed.explain`.

    Returns
    -------
    `Parts` if ``out`` is given, else `Marginals`. Each row has the bits of `noisyor.marginals`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> network = nor.bipartite(n_visible=4, n_hidden=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     found = nor.distributed.marginals(client, network, "rows", "set")
    >>> found.probability.shape
    (8, 2)
    """
    check_choice("method", method, METHODS)
    check_count("n_samples", n_samples, 2)
    asked = {"method": method, "n_samples": int(n_samples), "hidden": _for_all(hidden)}
    hidden_evidence(network, asked["hidden"], 0)  # refuse what makes no sense before any work
    how = {"method": MaxProduct(temperature=1.0), "seed": check_seed(seed), "settings": asked}
    with session(client, network, rows, OnCluster(engine, exact, timeout), **how) as opened:
        if out is None:
            found = _gathered(opened, marginals_of_rows, progress)
            probability, error = (np.concatenate(each) for each in zip(*found, strict=True))
            return Marginals(probability, error, method)
        run = {"what": "marginals", "settings": plain({k: str(v) for k, v in asked.items()})}
        return _written(opened, write_marginals, out, run, progress)


def evaluate(
    client: Any,
    network: Network,
    rows: Any,
    methods: Method | Sequence[Method] | None = None,
    *,
    engine: EngineLike = "auto",
    progress: bool | None = False,
    exact: bool = True,
    timeout: float = 60.0,
) -> EvaluationResult:
    """Bounds on the log-likelihood of rows that workers of a cluster read.

    Parameters
    ----------
    client, rows, engine, exact, timeout : as in `noisyor.distributed.train`.
    network, methods, progress : as in `noisyor.evaluate`.

    Returns
    -------
    EvaluationResult with the bits of `noisyor.evaluate`. It holds every row's bounds: 8 bytes for
    each row and bound.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> network = nor.bipartite(n_visible=4, n_hidden=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     score = nor.distributed.evaluate(client, network, "rows", nor.MaxProduct())
    >>> len(score.elbo_mp.per_row)
    8
    """
    chosen = chosen_methods(methods)
    cluster = OnCluster(engine, exact, timeout)
    with session(client, network, rows, cluster, method=chosen[0]) as opened:
        found = _gathered(opened, bound_rows, progress, methods=chosen)
        bounds = []
        for number in range(len(chosen)):
            parts = [part[number] for part, _ in found]
            mode = np.concatenate([part.mode for part in parts])
            elbo = mode
            if any(part.elbo is not None for part in parts):
                elbo = np.concatenate(
                    [part.mode if part.elbo is None else part.elbo for part in parts]
                )
            bounds.append(Bounds(mode, elbo))
        return evaluation_of(chosen, bounds, _weights(found))


def mean_bound(
    client: Any, network: Network, rows: Any, method: Method, cluster: OnCluster
) -> float:
    """Mean bound of the rows by one method."""
    found = evaluate(client, network, rows, method, **cluster._asdict())
    return next(iter(found.by_method.values())).elbo.mean


def _weights(found: Sequence[tuple[Any, FloatArray | None]]) -> FloatArray | None:
    if all(weights is None for _, weights in found):
        return None
    return np.concatenate(
        [np.ones(len(bounds[0].mode)) if weights is None else weights for bounds, weights in found]
    )


def _for_all(hidden: Any) -> Mapping[str | int, int] | None:
    if hidden is not None and not isinstance(hidden, Mapping):
        raise InvalidSettingError(
            "on a cluster hidden is a mapping from name or index to 0 or 1, for all rows, "
            f"got {type(hidden).__name__}"
        )
    return hidden


def _gathered(
    opened: Session, function: Callable[..., Any], progress: bool | None, **shared: Any
) -> list[Any]:
    """Results of all chunks, in the order of the rows."""
    found: dict[int, Any] = {}
    sizes = [size for size in opened.rows.reader.sizes if size]
    with progress_bar(opened.rows.n_rows, "cluster", "rows", progress) as bar:
        for number, result in opened.cluster.each(
            function, opened.rows.chunk_items(), opened.job, **shared
        ):
            found[number] = result
            bar.update(sizes[number])
    return [found[number] for number in sorted(found)]


def _written(
    opened: Session,
    function: Callable[..., int],
    out: PathLike,
    run: dict[str, Any],
    progress: bool | None,
) -> Parts:
    """Parts of all chunks in a folder; those that are there already are left as they are."""
    reader, job = opened.rows.reader, opened.job.value
    run |= {
        "graph": fingerprint(job.network),
        "theta": digest_of(job.network.theta),
        "clamp": digest_of(job.clamp),
        "seed": job.seed,
        "sizes": digest_of(np.array(reader.sizes)),
        "rows": digest_of(np.frombuffer(opened.first_chunk(), dtype=np.uint8)),
    }
    folder, there = open_parts(out, run)
    numbers = [number for number, size in enumerate(reader.sizes) if size]
    waiting = [n for n in numbers if part_file(folder, n).name not in there]

    def items() -> Iterator[Item]:
        for n in waiting:
            yield opened.rows.item([(int(reader.starts[n]), int(reader.starts[n + 1]))])

    with progress_bar(opened.rows.n_rows, "cluster", "rows", progress) as bar:
        bar.update(sum(reader.sizes[n] for n in set(numbers) - set(waiting)))
        for place, _ in opened.cluster.each(function, items(), opened.job, folder=str(folder)):
            bar.update(reader.sizes[waiting[place]])
    return Parts(folder, len(reader.sizes), opened.rows.n_rows, len(numbers) - len(waiting))
