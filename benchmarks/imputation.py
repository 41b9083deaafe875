"""Measure how well models predict hidden entries from the rest of their row.

    python benchmarks/imputation.py [--data DIR] [--extra DIR] [--only NAME ...] [--out FILE]
    python benchmarks/imputation.py --table  # print the results as the page shows them

A tenth of the observed entries of the test rows is hidden. Entries that are missing in a table stay
unobserved, also in training rows. Settings are chosen by validation rows: those of the data set, or
else a part of the training rows of each fold. Then every model learns from training and validation
rows together. Data sets that are already in the file are skipped.

``--extra`` is a folder with tables that cannot be shipped: ``votes.csv`` (y, n and blank; the
column ``party`` is left out), ``mushroom.csv`` (one-hot, 0 and 1; ``class`` is left out) and
``groceries.csv`` (one basket a line, items separated by commas). Missing files are skipped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold

import noisyor as nor
from _measure import Machine, significant
from _problems import data_directory
from noisyor.estimators import NoisyOrImputer

SMALL = ("zoo", "votes")
EXTRA = {"votes": "party", "mushroom": "class", "groceries": None}
SETS = (
    *SMALL,
    "mushroom",
    "groceries",
    "amzn_gifts",
    "amzn_furniture",
    "amzn_media",
    "nltcs",
    "plants",
    "jester",
)
HIDDEN_SHARE = 0.1
TEST_ROWS = 2000
FOLDS = 10
PARTS = ("train", "valid", "test")
CLIPS = (1e-4, 1e-3, 1e-2, 3e-2)

Array = npt.NDArray[Any]
Part = tuple[Array, Array, Array]
Model = Callable[[Array, Array, Array], Array]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--extra", type=Path, default=None)
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--out", type=Path, default=Path("results/imputation.json"))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    record: dict[str, Any] = {"command": "python benchmarks/imputation.py", "sets": {}}
    if options.out.exists():
        record = json.loads(options.out.read_text())
    if options.table:
        print(table(record["sets"]))
        return
    for name in options.only:
        if name in record["sets"]:
            continue
        path = place(name, data_directory(options.data), options.extra)
        if path is None:
            print(name, "is not there, skipped", flush=True)
            continue
        machine = Machine()
        result = run(load(name, path))
        record["sets"][name] = {**result, "machine": machine.describe()}
        options.out.write_text(json.dumps(record, indent=1) + "\n")
        print(name, {k: v["log_loss"] for k, v in result["methods"].items()}, flush=True)


def table(sets: dict[str, Any]) -> str:
    """Return log loss, AUC and calibration of every method as a Markdown table."""
    lines = [
        f"| set | columns | hidden | {' | '.join(MODELS)} | noisyor − mixture |",
        f"| --- | {'---: | ' * (len(MODELS) + 2)}---: |",
    ]
    for name in (one for one in SETS if one in sets):
        found = sets[name]
        cells = [
            f"{one['log_loss']:.4f} · {one['auc']:.3f} ({one['calibration_gap']:.3f})"
            for one in (found["methods"][model] for model in MODELS)
        ]
        gain = found["noisyor_minus_mixture"]
        lines.append(
            f"| {name} | {found['columns']} | {found['hidden_entries']:,} | {' | '.join(cells)} "
            f"| {gain['mean']:+.4f} ± {gain['standard_error']:.4f} |"
        )
    return "\n".join(lines)


def place(name: str, data: Path | None, extra: Path | None) -> Path | None:
    """Return the file of a data set, or None if it does not exist."""
    folder, file = data, f"density/{name}.npz"
    if name in EXTRA:
        folder, file = extra, f"{name}.csv"
    elif name == "zoo":
        file = "bmf_zoo.npz"
    return folder / file if folder is not None and (folder / file).exists() else None


def load(name: str, path: Path) -> list[Part]:
    """Yield training, validation and test rows of every fold; NaN is a missing entry."""
    if name not in EXTRA and name not in SMALL:
        with np.load(path) as file:
            width = int(file["n_columns"])
            found = [np.unpackbits(file[part], axis=1, count=width).astype(float) for part in PARTS]
        return [(found[0], found[1], found[2][:TEST_ROWS])]
    if name == "zoo":
        with np.load(path) as file:
            rows = file["X"].astype(float)
    else:
        dropped = EXTRA[name]
        options = nor.tables.ReadOptions(
            drop=() if dropped is None else (dropped,),
            truth="y/n" if name == "votes" else None,
            format="baskets" if name == "groceries" else None,
        )
        rows = nor.read_table(path, options).observations.to_dense().astype(float)
    folds = FOLDS if name in SMALL else 5
    parts = []
    for train, test in KFold(folds, shuffle=True, random_state=0).split(rows):
        cut = len(train) * 4 // 5 if name in SMALL else len(train) * 7 // 8
        order = np.random.default_rng(0).permutation(train)
        parts.append((rows[order[:cut]], rows[order[cut:]], rows[test]))
    return parts if name in SMALL else [(*parts[0][:2], parts[0][2][:TEST_ROWS])]


def run(parts: list[tuple[Array, Array, Array]]) -> dict[str, Any]:
    """Run all methods on one data set; losses are means over the hidden entries of all folds."""
    truths, hidden = [], []
    for number, (_, _, test) in enumerate(parts):
        hide = np.random.default_rng(number).random(test.shape) < HIDDEN_SHARE
        hide &= ~np.isnan(test)
        hidden.append(hide)
        truths.append(test[hide])
    truth = np.concatenate(truths)
    methods: dict[str, Any] = {}
    losses = {}
    for name, model in MODELS.items():
        began, predicted = time.process_time(), []
        for (train, valid, test), hide in zip(parts, hidden, strict=True):
            given = np.where(hide, np.nan, test)
            predicted.append(model(train, valid, given)[hide])
        chance = np.concatenate(predicted)
        losses[name] = -np.log(np.where(truth == 1, chance, 1.0 - chance))
        methods[name] = {
            "log_loss": significant(log_loss(truth, chance), 5),
            "auc": significant(roc_auc_score(truth, chance), 5),
            "wrong": significant(float(((chance >= 0.5) != truth).mean()), 4),
            "calibration_gap": significant(calibration_gap(chance, truth), 3),
            "cpu_s": significant(time.process_time() - began),
        }
    difference = losses["noisyor"] - losses["mixture"]
    return {
        "rows": [sum(len(one[k]) for one in parts) // len(parts) for k in range(3)],
        "columns": int(parts[0][0].shape[1]),
        "folds": len(parts),
        "hidden_entries": len(truth),
        "methods": methods,
        "noisyor_minus_mixture": {
            "mean": significant(float(difference.mean()), 4),
            "standard_error": significant(float(difference.std() / len(truth) ** 0.5)),
        },
    }


def calibration_gap(chance: Array, truth: Array) -> float:
    """Return the mean distance of predicted and observed frequency in ten bins of equal size."""
    order = np.array_split(np.argsort(chance, kind="stable"), 10)
    return float(sum(len(b) * abs(chance[b].mean() - truth[b].mean()) for b in order) / len(truth))


def independent(train: Array, valid: Array, given: Array) -> Array:
    rows = np.concatenate([train, valid])
    share = (np.nansum(rows, axis=0) + 0.5) / ((~np.isnan(rows)).sum(axis=0) + 1.0)
    return np.broadcast_to(share, given.shape)


def mixture(train: Array, valid: Array, given: Array) -> Array:
    """Predict by the classes, weighted by their posterior given the observed entries."""
    found = nor.baselines.learn_mixture(np.concatenate([train, valid]))
    return np.asarray(found.responsibilities(given) @ found.probability)


def noisyor(train: Array, valid: Array, given: Array) -> Array:
    """Predict by `NoisyOrImputer` with its defaults, which holds out rows itself."""
    imputer = NoisyOrImputer(output="probability")
    return np.asarray(imputer.fit(np.concatenate([train, valid])).transform(given))


def iterative(train: Array, valid: Array, given: Array) -> Array:
    """Predict by IterativeImputer; validation rows choose how predictions are clipped."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    imputer = IterativeImputer(random_state=0).fit(train)
    hide = (np.random.default_rng(99).random(valid.shape) < HIDDEN_SHARE) & ~np.isnan(valid)
    tried = imputer.transform(np.where(hide, np.nan, valid))[hide]
    clip = min(CLIPS, key=lambda c: log_loss(valid[hide], np.clip(tried, c, 1 - c), labels=[0, 1]))
    imputer = IterativeImputer(random_state=0).fit(np.concatenate([train, valid]))
    return np.asarray(np.clip(imputer.transform(given), clip, 1.0 - clip))


MODELS: dict[str, Model] = {
    "independent": independent,
    "IterativeImputer": iterative,
    "mixture": mixture,
    "noisyor": noisyor,
}

if __name__ == "__main__":
    main()
