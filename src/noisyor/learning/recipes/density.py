"""A network for the probability of rows: sets of alternatives, learned by Gibbs sampling.

One set of alternatives with edges to all columns is a mixture of Bernoullis, or the average of
several mixtures. Every further set makes it richer: the rows are of some kind in several respects
at once. How many sets of what size, and how many mixtures, is decided by held-out rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from noisyor._util.progress import Progress, TimeUpError
from noisyor._util.validation import COUNT, COUNT_OR_AUTO, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.learning.judge import hold_out
from noisyor.learning.recipes.density_race import Found, Search, not_too_many
from noisyor.learning.recipes.fit import FitResult
from noisyor.learning.state import Evaluation, History
from noisyor.search.restarts import Keeper

__all__ = ["learn_density"]

_MAX_WORK = 2**28
"""Ones times hidden nodes, at most, of layouts that are tried unasked: a second a round."""

_OUT_OF_REACH = 0.02
"""Gain of an average in nats from which sets are not tried: of eight public sets they were ahead in
validation rows only where it gained less."""

_SETS = 3
"""Sets of a pyramid: rows of hundreds of kinds are often of some dozen kinds in one respect, and of
ever fewer in others."""


def learn_density(
    X: Any,
    n_components: int | Literal["auto"] = "auto",
    *,
    sets: Sequence[Sequence[int]] | None = None,
    max_rounds: int = 300,
    held_out: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = None,
    keeper: Keeper | None = None,
) -> FitResult:
    """Learn a bipartite network that gives held-out rows a high probability.

    Mixtures of Bernoullis come first (`learn_mixture`), of one class, two, four, and so on. The
    classes of one become a set of alternatives, further sets are added (`start_from_mixture`), and
    rounds of Gibbs sampling follow. Several layouts of sets race: after some rounds held-out rows
    drop half of them, and the last goes on as long as it gains. It is kept if it is better than the
    best mixture by more than the standard error of their difference.

    If the number of hidden nodes is left open, mixtures from several starts are averaged
    (`average_mixtures`): one set of up to 4,096 alternatives, which is hard to read and hard to
    beat. Where it gains much, further sets are not tried. For a small network give a number.

    Parameters
    ----------
    X : binary data (n_rows, n_visible). Rows that repeat are worked on once, weights count.
    n_components : number of hidden nodes; ``"auto"`` finds it.
    sets : layouts to try, each the sizes of its sets, in place of `n_components`.
    max_rounds : rounds of Gibbs sampling of the best layout, at most.
    held_out : rows that decide; without them a tenth of the rows is held out, and what these
        decided is learned again from all rows.
    seed : of the starts and the samples.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.
    keeper : where mixtures and looks are kept; a run that finds some there goes on from them and
        ends as if it had not been stopped.

    Returns
    -------
    The network; the record, whose evaluations are held-out log p, exact or estimated; and settings,
    with the sizes of the sets, the number of mixtures that were averaged, and what every layout
    reached when it was dropped.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], 40, axis=0)
    >>> fitted = nor.learning.learn_density(X, sets=[[3]], progress=False)
    >>> fitted.network.alternatives, fitted.settings["sets"]
    (array([0, 0, 0], dtype=int32), [3])
    """
    COUNT_OR_AUTO.check("n_components", n_components)
    COUNT.check("max_rounds", max_rounds)
    seed, rows = check_seed(seed), Observations.of(X)
    if not rows.n_rows:
        raise InvalidDataError("there are no rows to learn from")
    everything = None
    if held_out is None:
        everything = rows
        rows, judges = hold_out(rows, None, seed)
        judges = rows if judges is None else judges
    else:
        judges = Observations.of(held_out, n_visible=rows.n_visible)
    rows = not_too_many(rows, seed).unique_rows()[0]
    search = Search(rows, judges, max_rounds, seed, engine, progress, keeper)
    layouts = _layouts(n_components, search) if sets is None else [list(one) for one in sets]
    plain = [search.plain(layout) for layout in layouts if len(layout) == 1]
    hurdles: list[Found] = []
    if sets is None and isinstance(n_components, str):
        plain = [*plain, *search.averaged()]
        hurdles = [plain[0], plain[-1]]
        if hurdles[1].score > hurdles[0].score + _OUT_OF_REACH:
            layouts = layouts[:1]
    best, raced = search.race([layout for layout in layouts if len(layout) > 1], hurdles)
    simplest = max(plain, key=lambda one: one.score, default=None)
    if best is None or (simplest is not None and not search.clearly_better(best, simplest)):
        best = simplest
    if best is None:  # the time was over before any layout had been looked at closely
        best = max(raced, key=lambda one: one.score)
    network = best.network
    with suppress(TimeUpError):
        network = network if everything is None else search.with_all(best, everything)
    settings = {
        "objective": "probability",
        "sets": best.layout,
        "averaged": max(1, len(best.members)),
        "rounds": best.rounds,
        "seed": seed,
        "tried": [
            {
                "sets": one.layout,
                "averaged": max(1, len(one.members)),
                "rounds": one.rounds,
                "held_out": one.score,
            }
            for one in [*plain, *raced]
            if np.isfinite(one.score)  # the time was over before its first look
        ],
    }
    evaluations = tuple(Evaluation(step=step, elbo=value) for step, value in best.curve)
    return FitResult(network, History(evaluations=evaluations), settings)


def _layouts(n_components: int | str, search: Search) -> list[list[int]]:
    """Sizes of sets to try: one set, two, and a pyramid."""
    if isinstance(n_components, str):
        n_classes = search.best_size()
        # Some tables need all classes of the mixture, and gain by a second respect beside them.
        layouts = [[n_classes], [n_classes, n_classes // 2], _pyramid(n_classes)]
        most = _MAX_WORK // max(1, search.rows.n_active)
        layouts = layouts[:1] + [layout for layout in layouts[1:] if sum(layout) <= most]
    else:
        half = n_components // 2
        layouts = [[n_components], [n_components - half, half], _pyramid(n_components)]
    kept: list[list[int]] = []
    for layout in layouts:
        if all(layout) and layout not in kept:
            kept.append(layout)
    return kept


def _pyramid(total: int) -> list[int]:
    """Three sets at most, each half as large as the one before, the last two alike."""
    sizes: list[int] = []
    rest = total
    while rest and len(sizes) < _SETS - 1:
        sizes.append(-(-rest // 2))
        rest -= sizes[-1]
    return [*sizes, rest] if rest else sizes
