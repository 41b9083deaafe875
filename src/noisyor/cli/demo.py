"""The command ``noisyor demo``: find four shapes in images, with the public functions only."""

from __future__ import annotations

from pathlib import Path

import click

from noisyor.cli import common

_SHAPES = ("square", "plus", "triangle", "diamond")


@click.command()
@common.out_option("Folder for the page and the model.", metavar="DIR", default="noisyor-demo")
@common.seed_option
@common.threads_option
@common.quiet_option
def demo(out: Path, seed: int, threads: int | None, quiet: bool) -> None:
    """Find four shapes that overlap in small images.

    Draws 100 images, finds the shapes that they are made of from 80 of them, explains the other 20,
    and writes a report and a model file. Takes a few seconds, and longer the first time, when the
    kernels are compiled.
    """
    import numpy as np

    import noisyor as nor
    from noisyor._util.files import check_folder, check_target
    from noisyor.report.page import is_report
    from noisyor.report.templating import require_templates

    require_templates()
    page, model_file = out / "index.html", out / "model.safetensors"
    check_target(page, is_report, "the demo")
    check_target(model_file, lambda _: page.is_file(), "the demo")
    check_folder(out)
    if not quiet:
        click.echo("Looking for four shapes in 80 images (the first run also compiles) ...")
    data = nor.datasets.generate_deconvolution(100, seed)
    train, test = data.images[:80], data.images[80:]
    # A few restarts find the shapes; no training follows, so fewer kernels are compiled.
    model = nor.BlindDeconvolution(
        n_components=5,
        feature_shape=(6, 6),
        steps=0,
        random_state=seed,
        n_jobs=threads,
        progress=False if quiet else None,
        options={"n_restarts": 3},
    ).fit(train)
    out.mkdir(parents=True, exist_ok=True)
    model.save(model_file)
    summary = nor.report.write_report(model_file, test, page, scores=False)
    learned = (model.components_ > 0.5).astype(np.uint8)
    match = nor.metrics.match_features(learned, data.features)
    if quiet:
        return
    shapes = [f"{name} {iou:.2f}" for name, iou in zip(_SHAPES, match.iou, strict=True)]
    click.echo(f"{int((match.iou >= 0.95).sum())} of {len(_SHAPES)} shapes found: ", nl=False)
    click.echo(f"{', '.join(shapes)}\n(intersection over union with the true shape, 1 is perfect)")
    click.echo(f"In 20 other images: {summary['headline']}\n")
    click.echo(f"page   {page}\nmodel  {model_file}")
