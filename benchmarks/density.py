"""Probability of unseen binary rows: ours beside what a sceptic would run on the same rows.

    python benchmarks/density.py [--data DIR] [--only NAME ...] [--out results/density]
    python benchmarks/density.py --page docs/scoreboards.md

Public sets with published results (nltcs to accidents; three baby registries), all ten splits of
tiny20, and IMDB reviews. Everything is chosen on validation rows: those of the set, or a tenth of
the training rows where it has none; then what they decided is learned again from all of them. Test
rows are looked at once, all of them. Each finished set is a file of its own and is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import noisyor as nor
from _density_rivals import chow_liu
from _measure import Machine, significant
from _problems import data_directory, use_data
from _scoreboard_page import write_page
from noisyor.data.observations import Observations
from noisyor.inference import EvidenceEstimate
from noisyor.inference.exact import states_can_be_summed
from noisyor.metrics import independent_score

SETS = ("nltcs", "plants", "baudio", "jester", "bnetflix", "accidents")
REGISTRIES = ("amzn_gifts", "amzn_furniture", "amzn_media")
SPLITS = tuple(f"tiny20-{seed}" for seed in range(10))
CASES = (*SETS, *REGISTRIES, *SPLITS, "imdb")
TINY20_SHARE = 0.7
ELBO_ROWS = 500
MOST_COLUMNS = 2000  # of a tree: it compares all pairs of columns
CHAINS, STEPS = 16, 32


class Parts(NamedTuple):
    train: Observations
    valid: Observations | None
    test: Observations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--out", type=Path, default=Path("results/density"))
    parser.add_argument("--page", type=Path, default=None, help="write the page from the files")
    options = parser.parse_args()
    if options.page is not None:
        write_page(options.out, options.page)
        return
    data = data_directory(options.data)
    if data is None:
        parser.error("the folder of the data is needed: --data DIR or NOISYOR_DATA")
    use_data(data)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        path = options.out / f"{name}.json"
        if path.exists():
            continue
        result = run(name, load(name, data))
        path.write_text(json.dumps(result, indent=1) + "\n")
        best = {key: round(value["test"], 3) for key, value in result["methods"].items()}
        print(name, best, result["methods"]["ours"]["settings"]["sets"], flush=True)


def load(name: str, data: Path) -> Parts:
    """Rows to learn from, to choose by (None: a tenth of the former), and to judge by."""
    if name == "imdb":
        text = nor.datasets.load_imdb()
        train, test = Observations.of(text.train), Observations.of(text.test)
        return Parts(train, None, test)
    if name.startswith("tiny20"):
        rows = Observations.of(nor.datasets.load_tiny20().observations)
        train, test = rows.split(TINY20_SHARE, int(name.partition("-")[2]))
        return Parts(train, None, test)
    with np.load(data / "density" / f"{name}.npz") as file:
        width = int(file["n_columns"])
        parts = [np.unpackbits(file[part], axis=1, count=width) for part in Parts._fields]
    return Parts(*(Observations.of(part) for part in parts))


def run(name: str, parts: Parts) -> dict[str, Any]:
    """All methods on one set; test rows are scored after everything is chosen."""
    machine = Machine()
    train, test = parts.train, parts.test
    methods = {
        "independent": timed(lambda: {"log_p": independent_score(train, test).per_row}),
        "mixture": timed(lambda: _mixture(parts)),
        "ours": timed(lambda: _ours(parts)),
    }
    if methods["ours"]["settings"]["averaged"] == 1:  # else ours is such an average itself
        methods["mixtures, averaged"] = timed(lambda: _averaged(parts))
    if train.n_visible <= MOST_COLUMNS:
        methods["Chow-Liu"] = timed(lambda: {"log_p": chow_liu(train, test)})
    difference = methods["ours"].pop("log_p") - methods["mixture"].pop("log_p")
    for method in methods.values():
        method.pop("log_p", None)
    return {
        "set": name,
        "command": f"python benchmarks/density.py --only {name}",
        "rows": {part: rows.n_rows for part, rows in parts._asdict().items() if rows is not None},
        "columns": train.n_visible,
        "methods": methods,
        "ours_minus_mixture": {
            "mean": significant(float(difference.mean()), 6),
            "standard_error": significant(float(difference.std() / len(difference) ** 0.5)),
        },
        "machine": machine.describe(),
    }


def timed(case: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a method says, with its mean test log p and the CPU seconds that it took."""
    began = time.process_time()
    result = case()
    result.setdefault("cpu_s", significant(time.process_time() - began))
    result["test"] = significant(float(result["log_p"].mean()), 6)
    result["standard_error"] = significant(
        float(result["log_p"].std() / len(result["log_p"]) ** 0.5)
    )
    return result


def _mixture(parts: Parts) -> dict[str, Any]:
    mixture = nor.search.learn_mixture(parts.train, held_out=parts.valid)
    return {
        "log_p": mixture.log_probability(parts.test),
        "n_classes": mixture.n_classes,
        "smoothing": mixture.smoothing,
    }


def _averaged(parts: Parts) -> dict[str, Any]:
    """What anybody could do with mixtures."""
    mixture = nor.search.average_mixtures(parts.train, held_out=parts.valid)
    return {"log_p": mixture.log_probability(parts.test), "n_classes": mixture.n_classes}


def _ours(parts: Parts) -> dict[str, Any]:
    began = time.process_time()
    fitted = nor.learning.learn_density(parts.train, held_out=parts.valid, progress=False)
    learned = time.process_time()
    distinct, numbers = parts.test.unique_rows()
    exact = states_can_be_summed(fitted.network)
    if exact:
        estimate: EvidenceEstimate = nor.inference.log_probability(fitted.network, distinct)
        bound = estimate.mean
    else:
        estimate = nor.estimate_evidence(fitted.network, distinct, n_chains=CHAINS, n_steps=STEPS)
        bound = nor.evidence_bound(fitted.network, distinct).mean
    estimated = time.process_time()
    elbo = {}
    if parts.train.n_visible > MOST_COLUMNS:  # text, where the paper reports it
        few = slice(0, ELBO_ROWS)
        bound_of_mode = nor.evaluate(fitted.network, parts.test.take(few)).elbo_mp
        elbo = {
            "elbo": significant(bound_of_mode.mean, 6),
            "elbo_rows": len(bound_of_mode.per_row),
            "log_p_of_elbo_rows": significant(float(estimate.per_row[numbers][few].mean()), 6),
        }
    return {
        "log_p": estimate.per_row[numbers],
        "exact": exact,
        "error_of_estimate": significant(estimate.mean_error),
        "bound": significant(bound, 6),
        **elbo,
        "cpu_s": significant(learned - began),
        "cpu_s_estimate": significant(estimated - learned),
        "n_hidden": fitted.network.n_hidden,
        "settings": fitted.settings,
    }


if __name__ == "__main__":
    main()
