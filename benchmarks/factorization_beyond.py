"""Compare factorizations by the default settings with the paper and two simple baselines.

    python benchmarks/factorization_beyond.py [--only NAME ...] [--json FILE]

Matrices are drawn by the paper's generator, with seeds that no other part of the project uses. Each
case is written to the JSON file as soon as it is finished, and finished cases are skipped.
``test_re_pct`` is the error on unseen rows. With flipped entries, the model learns from the flipped
rows, and the error is measured against the clean rows. ``share_of_gap_pct`` is the position of the
test bound between the bound of the true parameters (0) and the paper's bound (100). The baselines
are ``ten lines``, a non-negative factorization cut at one half, and ``thirty lines``, the same
followed by alternating greedy updates.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, significant, write
from _simple_baselines import alternating_greedy, errors, greedy_memberships, thresholded_nmf
from noisyor.datasets.synthetic import generate_bmf
from noisyor.learning.recipes import FitResult
from noisyor.metrics import factorization_error
from reproduction.paper import paper_cells

SIZES = [(n, n * share // 5) for n in (100, 200, 400) for share in (1, 2, 3)]
SEEDS = {100: (900, 901, 902, 903, 904), 200: (900, 901, 902), 400: (900,)}


def paper_elbo(n: int, r: int) -> float:
    """Return the paper's test bound by max-product."""
    cells = [c for c in paper_cells("bmf") if c.case == f"{n},{r}" and c.method == "mp"]
    return next(c.mean for c in cells if c.metric == "test_elbo")


def timed(learn: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of a function, and its seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = learn()
    return result, {
        "wall_s": significant(time.perf_counter() - wall),
        "cpu_s": significant(time.process_time() - cpu),
    }


def learned_error(network: nor.Network, rows: Any, clean: Any) -> tuple[float, float]:
    """Return the error against the clean rows and the mean bound, by the most likely causes."""
    posterior = nor.explain(network, rows)
    states = posterior.states.toarray()
    return factorization_error(network, states, clean), float(posterior.log_joint.mean())


def n_used(learned: FitResult) -> int:
    """Count the causes that are used."""
    return learned.network.n_hidden - int(learned.settings.get("n_unused", 0))


def size_case(n: int, r: int, seed: int) -> dict[str, Any]:
    data = generate_bmf(n, r, seed)
    learned, seconds = timed(lambda: nor.learn_factors(data.train, r, seed=seed, progress=False))
    error, bound = learned_error(learned.network, data.test, data.test)
    true = nor.bipartite(
        n,
        r,
        prior="shared",
        failure_probability=np.where(data.V == 1, 1e-4, 1.0),
        prior_probability=data.p_uv,
        noise_probability=0.01,
    )
    true_bound = float(nor.explain(true, data.test).log_joint.mean())
    paper = paper_elbo(n, r)
    return {
        "test_re_pct": error,
        "test_elbo": bound,
        "true_elbo": true_bound,
        "paper_elbo": paper,
        "share_of_gap_pct": 100.0 * (true_bound - bound) / (true_bound - paper),
        "causes": n_used(learned),
        **seconds,
        "ten_lines_re_pct": errors(data.test, thresholded_nmf(data.train, r)),
        "thirty_lines_re_pct": errors(data.test, alternating_greedy(data.train, r)),
    }


def disturbed_case(
    seed: int, flips: float = 0.0, missing: float = 0.0, causes: int | Literal["auto"] = 40
) -> dict[str, Any]:
    """Run n=200 r=40 with flipped or missing entries, or with another number of causes."""
    data = generate_bmf(200, 40, seed)
    generator = np.random.default_rng((seed, 1))  # not the stream that the matrix came from
    clean = data.train.astype(bool)
    flipped = clean ^ (generator.random(clean.shape) < flips)
    rows = np.where(generator.random(clean.shape) < missing, np.nan, flipped.astype(float))
    learned, seconds = timed(lambda: nor.learn_factors(rows, causes, seed=seed, progress=False))
    error, _ = learned_error(learned.network, rows, data.train)
    test_error, test_bound = learned_error(learned.network, data.test, data.test)
    result = {
        "clean_error_pct": error,
        "test_re_pct": test_error,
        "test_elbo": test_bound,
        "causes": n_used(learned),
        **seconds,
    }
    if not missing and causes == 40:
        noisy = flipped.astype(np.float32)
        for name, baseline in (("ten", thresholded_nmf), ("thirty", alternating_greedy)):
            V = baseline(noisy, 40)
            drawn = greedy_memberships(noisy, V) @ V > 0
            result[f"{name}_lines_clean_error_pct"] = 100.0 * float(np.mean(drawn != clean))
    return result


def cases() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return every case by name, cheap ones first within a kind."""
    result: dict[str, Callable[[], dict[str, Any]]] = {}
    for n, r in SIZES:
        for seed in SEEDS[n]:
            result[f"n={n} r={r} seed={seed}"] = partial(size_case, n, r, seed)
    for seed in SEEDS[200]:
        for flips in (0.01, 0.05, 0.1):
            result[f"flips={flips} seed={seed}"] = partial(disturbed_case, seed, flips=flips)
        result[f"missing=0.3 seed={seed}"] = partial(disturbed_case, seed, missing=0.3)
        result[f"60 causes asked for seed={seed}"] = partial(disturbed_case, seed, causes=60)
        result[f"auto seed={seed}"] = partial(disturbed_case, seed, causes="auto")
    return result


def table(found: dict[str, Any]) -> str:
    """Return means over seeds as Markdown tables."""
    lines = [
        "| size | runs | ours | ten lines | thirty lines | paper's best | test bound | true "
        "| paper | CPU s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for n, r in SIZES:
        runs = [run for name, run in found.items() if name.startswith(f"n={n} r={r} ")]
        if runs:
            mean = {key: np.mean([run[key] for run in runs]) for key in runs[0]}
            cells = [c for c in paper_cells("bmf") if c.case == f"{n},{r}"]
            best = min(c.mean for c in cells if c.metric == "test_re_pct")
            lines.append(
                f"| n={n} r={r} | {len(runs)} | {mean['test_re_pct']:.2f} "
                f"| {mean['ten_lines_re_pct']:.2f} | {mean['thirty_lines_re_pct']:.2f} "
                f"| {best:.2f} | {mean['test_elbo']:.1f} | {mean['true_elbo']:.1f} "
                f"| {mean['paper_elbo']:.1f} | {mean['cpu_s']:.1f} |"
            )
    lines += [
        "",
        "| n=200 r=40 | runs | error, clean matrix | ten lines | thirty lines | unseen rows "
        "| causes |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    names = dict.fromkeys(name.split(" seed=")[0] for name in found if not name.startswith("n="))
    for kind in names:
        runs = [run for name, run in found.items() if name.split(" seed=")[0] == kind]
        if "clean_error_pct" not in runs[0]:
            continue
        mean = {key: np.mean([run[key] for run in runs]) for key in runs[0]}
        baselines = [mean.get(f"{word}_lines_clean_error_pct") for word in ("ten", "thirty")]
        shown = " | ".join("–" if value is None else f"{value:.2f}" for value in baselines)
        lines.append(
            f"| {kind} | {len(runs)} | {mean['clean_error_pct']:.2f} | {shown} "
            f"| {mean['test_re_pct']:.2f} | {mean['causes']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--only", nargs="*", help="run the cases whose names start with these texts"
    )
    parser.add_argument("--table", action="store_true", help="print --json as tables and stop")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.json.read_text())["cases"]))
        return
    found: dict[str, Any] = {}
    if given.json is not None and Path(given.json).exists():
        found = json.loads(Path(given.json).read_text())["cases"]
    machine = Machine()
    for name, case in cases().items():
        if given.only and not any(name.startswith(start) for start in given.only):
            continue
        if name not in found:
            found[name] = {key: significant(value, 4) for key, value in case().items()}
            write(given.json, {"machine": machine.describe(), "cases": found})
        print(f"{name}: {json.dumps(found[name])}", flush=True)


if __name__ == "__main__":
    main()
