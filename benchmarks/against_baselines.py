"""Compare log p of unseen rows with baselines: a mixture of equal size, and others of any size.

    python benchmarks/against_baselines.py [--data DIR] [--only NAME ...] [--components K ...]
    python benchmarks/against_baselines.py --table  # print the results as the page shows them

Every model learns from the same training rows and is scored on the same test rows. The network has
K causes (``learn_factors(objective="likelihood")``), the mixture K classes. The other baselines are
independent columns, a Chow-Liu tree, and a mixture whose size is chosen on held-out training rows.
Each finished set is kept in the JSON file and not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import noisyor as nor
from _measure import Machine, significant
from _problems import data_directory

SETS = ("zoo", "nltcs", "plants", "amzn_gifts", "amzn_furniture", "amzn_media", "jester", "tiny20")
MODELS = ("independent columns", "Chow-Liu tree", "mixture", "noisy-OR", "mixture, any size")
TRAIN_ROWS, TEST_ROWS = 4000, 1000

FloatArray = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--components", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--json", type=Path, default=Path("results/against_baselines.json"))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    record: dict[str, Any] = {"command": "python benchmarks/against_baselines.py", "cases": {}}
    if options.json.exists():
        record = json.loads(options.json.read_text())
    if options.table:
        print(table(record["cases"]))
        return
    folder = data_directory(options.data)
    for name in options.only:
        for n_components in options.components:
            case = f"{name} K={n_components}"
            if case in record["cases"] or folder is None:
                continue
            machine = Machine()
            found = run(*load(name, folder), n_components)
            record["cases"][case] = {**found, "machine": machine.describe()}
            options.json.write_text(json.dumps(record, indent=1) + "\n")
            print(case, {k: v["log_p"] for k, v in found["models"].items()}, flush=True)


def load(name: str, folder: Path) -> tuple[nor.Observations, nor.Observations]:
    """Load training and test rows of a set, at most `TRAIN_ROWS` and `TEST_ROWS`."""
    if name in ("zoo", "tiny20"):
        file = {"zoo": "bmf_zoo.npz", "tiny20": "20news_w100.mat"}[name]
        if name == "zoo":
            with np.load(folder / file) as arrays:
                rows = nor.Observations.of(arrays["X"].astype(float))
        else:
            rows = nor.read_table(folder / file, variable="documents", transpose=True).observations
        training, test = rows.split(0.7, seed=0)
    else:
        with np.load(folder / f"density/{name}.npz") as arrays:
            width = int(arrays["n_columns"])
            training, test = (
                nor.Observations.of(np.unpackbits(arrays[part], axis=1, count=width))
                for part in ("train", "test")
            )
    training, test = (part.shuffled(0) for part in (training, test))
    return training.take(slice(TRAIN_ROWS)), test.take(slice(TEST_ROWS))


def run(training: nor.Observations, test: nor.Observations, n_components: int) -> dict[str, Any]:
    """Return the mean test log p of every model in nats, and noisy-OR minus the mixture."""
    scores: dict[str, FloatArray] = {}
    models: dict[str, dict[str, Any]] = {}

    def keep(model: str, per_row: FloatArray, begin: float, **facts: Any) -> None:
        scores[model] = per_row
        seconds = significant(time.process_time() - begin)
        models[model] = {"log_p": significant(float(per_row.mean()), 5), "cpu_s": seconds, **facts}

    begin = time.process_time()
    keep(MODELS[0], nor.baselines.independent_columns(training).log_probability(test), begin)
    begin = time.process_time()
    keep(MODELS[1], nor.baselines.chow_liu(training).log_probability(test), begin)
    begin = time.process_time()
    mixture = nor.baselines.learn_mixture(training, n_components, seed=0)
    keep(MODELS[2], mixture.log_probability(test), begin)
    begin = time.process_time()
    fitted = nor.learn_factors(
        training, n_components, objective="likelihood", seed=0, progress=False
    )
    found = nor.inference.log_probability(fitted.network, test)
    keep(MODELS[3], found.per_row, begin, exact=found.exact, error_of_estimate=found.mean_error)
    begin = time.process_time()
    mixture = nor.baselines.learn_mixture(training, seed=0)
    keep(MODELS[4], mixture.log_probability(test), begin, n_classes=mixture.n_classes)
    gain = scores["noisy-OR"] - scores["mixture"]
    return {
        "rows": [training.n_rows, test.n_rows],
        "columns": training.n_visible,
        "models": models,
        "noisy_or_minus_mixture": {
            "mean": significant(float(gain.mean())),
            "standard_error": significant(float(gain.std(ddof=1) / np.sqrt(len(gain)))),
        },
    }


def table(cases: dict[str, Any]) -> str:
    """Return log p of every model as a Markdown table."""
    lines = [
        f"| data, components | rows, columns | {' | '.join(MODELS)} | noisy-OR − mixture |",
        f"| --- | ---: | {'---: | ' * len(MODELS)}---: |",
    ]
    for name, case in cases.items():
        cells = [f"{case['models'][model]['log_p']:.2f}" for model in MODELS]
        cells[-1] += f" ({case['models'][MODELS[-1]]['n_classes']})"
        gain = case["noisy_or_minus_mixture"]
        lines.append(
            f"| {name} | {case['rows'][0]:,}, {case['columns']} | {' | '.join(cells)} "
            f"| {gain['mean']:+.2f} ± {gain['standard_error']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
