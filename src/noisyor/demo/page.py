"""The demo's result as one HTML file that needs nothing else: no script, no network."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._version import __version__
from noisyor.demo.run import DEFAULT_STEPS, SHAPES, DemoResult
from noisyor.report.charts import Curve, Layer, line_chart, pixel_image, shaded_image
from noisyor.report.templating import asset, environment, require_templates

__all__ = ["GENERATOR", "demo_page", "require_templates"]

GENERATOR = "noisyor demo"
"""Mark by which the demo recognises a page of its own."""

_SHOWN_TRAINING_IMAGES = 20
_CURVE_POINTS = 250
_NUMBERS = ("None", "One", "Two", "Three", "All four")


def demo_page(result: DemoResult) -> str:
    """The whole page, as HTML that is also well-formed XML."""
    page: str = (
        environment()
        .get_template("demo.html")
        .render(
            generator=f"{GENERATOR} {__version__}",
            version=__version__,
            base_style=asset("base.css"),
            result=result,
            n_shapes=len(SHAPES),
            default_steps=DEFAULT_STEPS[result.algorithm],
            found=_NUMBERS[result.n_found],
            training_images=_training_images(result),
            shapes=_shapes(result),
            tests=_tests(result),
            n_causes=int(result.states.sum()),
            n_true_causes=int(result.data.states[-len(result.test_images) :].sum()),
            chart=_chart(result),
            settings=_settings(result),
        )
    )
    return page


def _training_images(result: DemoResult) -> list[str]:
    return [
        pixel_image([Layer("ink", image)], f"training image {number}")
        for number, image in enumerate(result.train_images[:_SHOWN_TRAINING_IMAGES], start=1)
    ]


def _shapes(result: DemoResult) -> list[dict[str, Any]]:
    """One entry per learned feature: the matched ones in the order of the true, then the rest."""
    certainty = 1.0 - result.network.failure_probability
    matched = list(zip(SHAPES, result.data.features, result.match.learned, strict=True))
    entries: list[dict[str, Any]] = []
    for (name, feature, learned), iou in zip(matched, result.match.iou, strict=True):
        entries.append(
            {
                "name": name,
                "iou": float(iou),
                "true": pixel_image([Layer("ink", feature)], f"true shape: {name}", grid=True),
                **(
                    _learned(result, int(learned), certainty, f"matched to the {name}")
                    if learned >= 0
                    else {"uses": 0, "shaded": None, "binary": None}
                ),
            }
        )
    for learned in result.spare_features:
        entries.append(
            {
                "name": "spare",
                "iou": None,
                "true": None,
                **_learned(result, learned, certainty, "matched to no shape"),
            }
        )
    return entries


def _learned(
    result: DemoResult, feature: int, certainty: np.ndarray[Any, Any], what: str
) -> dict[str, Any]:
    binary = result.binary_features[feature]
    return {
        "uses": int(result.states[:, feature].sum()),
        "shaded": shaded_image(
            certainty[feature], f"learned feature, {what}, as grey levels", grid=True
        ),
        "binary": pixel_image(
            [Layer("ink", binary)], f"learned feature, {what}, thresholded", grid=True
        ),
    }


def _tests(result: DemoResult) -> list[dict[str, Any]]:
    """Every test image with its reconstruction, in which wrong pixels have a colour."""
    entries = []
    for number, (image, drawn, states) in enumerate(
        zip(result.test_images, result.reconstruction, result.states, strict=True), start=1
    ):
        missed, extra = image > drawn, drawn > image
        n_missed, n_extra = int(missed.sum()), int(extra.sum())
        causes = int(states.sum())
        entries.append(
            {
                "number": number,
                "causes": causes,
                "missed": n_missed,
                "extra": n_extra,
                "image": pixel_image([Layer("ink", image)], f"test image {number}"),
                "drawn": pixel_image(
                    [
                        Layer("ink", drawn & image),
                        Layer("missed", missed),
                        Layer("extra", extra),
                    ],
                    f"reconstruction of test image {number} from {causes} causes: "
                    f"{n_missed} pixels missed, {n_extra} extra",
                ),
            }
        )
    return entries


def _chart(result: DemoResult) -> str:
    """Smoothed bound of the training images, bound of the test images, trivial reference."""
    elbo = result.history.elbo
    window = max(1, len(elbo) // 50)
    smooth = np.convolve(elbo, np.full(window, 1.0 / window), mode="valid")
    step = np.arange(len(smooth)) + (window + 1) / 2
    kept = np.unique(np.linspace(0, len(smooth) - 1, _CURVE_POINTS).astype(int))
    evaluations = result.history.evaluations
    return line_chart(
        [
            Curve("train", step[kept], smooth[kept]),
            Curve(
                "held-out",
                np.array([float(evaluation.step) for evaluation in evaluations]),
                np.array([evaluation.elbo for evaluation in evaluations]),
                dots=True,
            ),
        ],
        f"Elbo over {result.steps} updates: that of the test images ends at "
        f"{result.test_elbo:.1f}, the trivial reference is {result.trivial.elbo:.1f}",
        x_title="updates",
        y_title="Elbo, nats per image",
        reference=(result.trivial.elbo, "explaining nothing"),
        floor=min(1.15 * result.trivial.elbo, float(smooth.min())),
    )


def _settings(result: DemoResult) -> list[tuple[str, str]]:
    """What a reader needs to do the same, in words."""
    settings = result.settings()
    image, feature = settings["image_shape"], settings["feature_shape"]
    return [
        (
            "Images",
            f"{settings['n_train']} to learn from, {settings['n_test']} to test, "
            f"{image[0]} × {image[1]} pixels",
        ),
        (
            "Network",
            f"{result.states.shape[1]} features of {feature[0]} × {feature[1]} pixels at "
            f"{result.states.shape[2]} × {result.states.shape[3]} positions: "
            f"{result.network.n_hidden} possible causes, "
            f"{int(result.network.free.sum())} parameters",
        ),
        *(_paper_settings(settings) if result.algorithm == "paper" else _search_settings(settings)),
        ("Seed", str(result.seed)),
        (
            "Time",
            f"{result.training_seconds:.1f} s of training, "
            f"{1000 * result.update_median:.0f} ms per update (median), "
            f"{settings['threads']} threads",
        ),
    ]


def _search_settings(settings: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (
            "Search",
            f"at most {settings['n_components']} features, {settings['n_restarts']} starts; those "
            "supported by the pictures are kept (MDL)",
        ),
        ("Inference", "max-product, the mode"),
        ("Training", f"{settings['steps']} updates on all {settings['n_train']} images"),
    ]


def _paper_settings(settings: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (
            "Noise",
            f"a pixel lights up without a cause with probability "
            f"{settings['noise_probability']}, fixed",
        ),
        (
            "Start",
            f"{settings['initialization']}: failure 0.9, prior 0.1, uniform noise on failures",
        ),
        ("Inference", "max-product, perturbed (temperature 1) in training, the mode in the test"),
        (
            "Training",
            f"{settings['steps']} updates on all {settings['n_train']} images, "
            f"Adam, learning rate {settings['learning_rate']}",
        ),
    ]
