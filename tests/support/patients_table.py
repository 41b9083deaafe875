"""A table of patients, and the command line on it."""

from __future__ import annotations

import numpy as np

from noisyor.cli.main import main

NAMES = (
    *("fever", "cough", "aches", "chills", "rash", "red eyes", "spots", "itching"),
    *("sneezing", "runny nose", "sore throat", "hoarse"),
)
FIT = ["fit", "patients.csv", "--id-column", "patient", "--components", "3", "--steps", "300"]


def patients() -> str:
    """120 patients with three diseases, each with four of the twelve symptoms."""
    random = np.random.default_rng(0)
    ill = random.random((120, 3)) < 0.3
    brings = np.kron(np.eye(3), np.full((1, 4), 0.9))
    well = np.prod(1 - ill[:, :, None] * brings, axis=1) * 0.99
    rows = (random.random((120, 12)) > well).astype(int)
    lines = [f"p{k:03}," + ",".join(map(str, row)) for k, row in enumerate(rows)]
    return "\n".join(["patient," + ",".join(NAMES), *lines]) + "\n"


def run(capsys, *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out
