"""Runs as the record holds them, for tests of tables, pages and figures."""

from __future__ import annotations

from reproduction.record import RUN_FORMAT

SETTINGS = {
    "mp": {"mp": {"schedule": "collapsed", "tolerance": 1e-3}},
    "mp-two-stage": {"mp": {"schedule": "two-stage", "tolerance": 1e-3}},
    "hybrid-two-stage": {
        "mp": {"schedule": "two-stage", "tolerance": 1e-3},
        "vi": {"tolerance": None},
    },
    "vi": {"vi": {"tolerance": None}},
    "pmp": {"pmp": {"tolerance": 0.0}},
}


def run(
    seed,
    init="paper-3",
    method="mp-two-stage",
    case="BD",
    steps=3000,
    part="test",
    experiment="deconvolution",
    noise="gaussian",
    **metrics,
):
    return {
        "format": RUN_FORMAT,
        "experiment": experiment,
        "part": part,
        "case": case,
        "steps": steps,
        "seed": seed,
        "init": init,
        "noise": noise,
        "tolerance": None,
        "damping": None,
        "method": method,
        "metrics": metrics,
        "seconds": {"total": 1.0, "update_median": 0.02},
        "environment": {"cpu": "a processor", "cpu_count": 2, "threads": 1, "noisyor": "0"},
        "settings": {"protocol": {"learning_rate": 0.01}, **SETTINGS[method]},
        "arrays": {},
    }


def scored(seed, elbo, init="paper-3", **changes):
    return run(
        seed,
        init,
        test_elbo=elbo,
        test_re_pct=3.0,
        features_iou=1.0,
        trivial_elbo=-210.0,
        trivial_re_pct=23.0,
        trivial_features_iou=0.0,
        **changes,
    )
