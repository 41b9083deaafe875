"""Blind deconvolution by `nor.learn_features` with its defaults, on the paper's splits.

    python benchmarks/deconvolution_beyond.py [--splits 10] [--json FILE]

A split has 80 of the paper's 100 images for training and 20 for testing. The model has at most five
features of 6 x 6 pixels, as in the paper. Splits that are already in the JSON file are skipped. The
paper has a test Elbo of -43.12, a reconstruction error of 2.96 % and an intersection over union of
0.99. See docs/beyond_features.md.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, significant, write
from noisyor.data.observations import Observations
from noisyor.metrics import (
    features_iou,
    reconstruct_images,
    reconstruction_error,
    threshold_features,
)
from noisyor.model.network import Network
from reproduction import datasets
from reproduction.one_layer import DECONVOLUTION_PROTOCOL, FEATURE_SHAPE, N_FEATURES


def scores(network: Network, rows: Observations, true: Any) -> dict[str, float]:
    """Compute the paper's measures at the mode of max-product, without ICM."""
    posterior = nor.explain(network, rows, nor.MaxProduct())
    images = rows.to_dense().astype(int).reshape(-1, *rows.shape)
    bounds = nor.evaluate(network, rows)
    assert bounds.elbo_vi is not None
    return {
        "features_iou": features_iou(threshold_features(network.theta_of("failure")), true),
        "test_re_pct": reconstruction_error(reconstruct_images(network, posterior.states), images),
        "test_elbo": significant(bounds.elbo.mean, 5),
        "test_elbo_mp": significant(bounds.elbo_mp.mean, 5),
        "test_elbo_vi": significant(bounds.elbo_vi.mean, 5),
    }


def run(split: int, options: dict[str, Any]) -> dict[str, Any]:
    data = datasets.load_deconvolution()
    train, test = Observations.of(data.images).split(DECONVOLUTION_PROTOCOL.train_share, split)
    images = train.to_dense().reshape(-1, *train.shape)
    began = time.perf_counter()
    learned = nor.learn_features(
        images, N_FEATURES, FEATURE_SHAPE, seed=split, progress=False, **options
    )
    return {
        "split": split,
        **scores(learned.network, test, data.features),
        "features": len(learned.network.theta_of("failure")),
        "seconds": significant(time.perf_counter() - began, 3),
    }


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--steps", type=int, help="steps of fine-tuning; 0 scores the search alone")
    options = parser.parse_args()
    path: Path | None = options.json
    runs: list[dict[str, Any]] = []
    if path is not None and path.exists():
        runs = json.loads(path.read_text())["runs"]
    machine = Machine()
    for split in range(options.splits):
        if any(done["split"] == split for done in runs):
            continue
        runs.append(run(split, {} if options.steps is None else {"steps": options.steps}))
        print(runs[-1], flush=True)
        write(path, {"machine": machine.describe(), "runs": runs})
    for key in ("features_iou", "test_re_pct", "test_elbo"):
        values = [done[key] for done in runs]
        print(f"{key}: mean {sum(values) / len(values):.3f}, worst of {len(values)}: ", end="")
        print(f"{max(values) if key == 'test_re_pct' else min(values):.3f}")


if __name__ == "__main__":
    main()
