"""Work that can be stopped and run again in the same folder, with the same final result."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from fault_campaign.case import Loss
from noisyor.cli.main import main
from noisyor.engines.registry import get_engine
from noisyor.learning.state import TrainingResult
from reproduction.__main__ import main as reproduction
from reproduction.record import Record

Work = Callable[[Path], str]
"""Works in a folder, continues from the files there, and returns its result as text."""

COLUMNS = [f"c{column}" for column in range(10)]


def rows(n: int = 120) -> np.ndarray:
    """Return rows with three causes, (n, 10)."""
    random = np.random.default_rng(0)
    causes = random.random((n, 3)) < 0.4
    return ((causes @ (random.random((3, 10)) < 0.4)) > 0).astype(np.uint8)


def table() -> str:
    """Return the rows as the text of a CSV file."""
    return "\n".join([",".join(COLUMNS), *(",".join(map(str, row)) for row in rows())]) + "\n"


def network() -> nor.Network:
    """Return a network with starting parameters for these rows."""
    return nor.initialize(nor.bipartite(10, 3), noise="uniform")


def command(
    *arguments: str, allowed: tuple[int, ...] = (0,), program: Callable[[list[str]], int] = main
) -> tuple[int, str]:
    """Run a command; an exit code that is not allowed or a traceback is a loss."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = program(list(arguments))
    text = said.getvalue()
    if code not in allowed:
        raise Loss(f"noisyor {arguments[0]} ended with code {code}: {text.strip()[-300:]}")
    if "Traceback" in text:
        raise Loss(f"noisyor {arguments[0]} printed a traceback")
    return code, text


def train(folder: Path) -> str:
    """Run `train` with a checkpoint after every step."""
    return _text(
        nor.train(
            network(),
            rows(),
            steps=120,
            held_out=rows(30),
            evaluate_every=10,
            checkpoint=folder / "run",
            checkpoint_every=0.0,
            resume=True,
            engine=get_engine(n_threads=1),
            progress=False,
        )
    )


def stream(folder: Path) -> str:
    """Run `train_stream` with a checkpoint after every step."""
    return _text(
        nor.train_stream(
            network(),
            np.array_split(rows(), 5),
            passes=8,
            batch_size=8,
            checkpoint=folder / "run",
            checkpoint_every=0.0,
            resume=True,
            engine=get_engine(n_threads=1),
            progress=False,
        )
    )


def hybrid(folder: Path) -> str:
    """Train by max-product, then by mean field, each with its checkpoint."""
    run = nor.learning.train_hybrid(
        network(),
        rows(),
        mp_steps=60,
        vi_steps=60,
        checkpoint=folder / "run",
        checkpoint_every=0.0,
        resume=True,
        engine=get_engine(n_threads=1),
        progress=False,
    )
    return " ".join(_text(result) for result in run.results)


def fit(folder: Path) -> str:
    """Run `noisyor fit`, which continues a run that was stopped."""
    model = folder / "m.safetensors"
    common = ("--quiet", "--threads", "1", "--resume")
    if not model.exists() or leftovers(folder):  # killed at its very end: the next run tidies up
        data = folder / "x.csv"
        if not data.exists():  # a rival may be reading it, and a kill may come in between
            part = folder / f"x.{os.getpid()}.part"
            part.write_text(table())
            part.replace(data)
        fixed = ("--kind", "topics", "--layers", "2", "--steps", "60")
        again = ("--force",) if model.exists() else ()
        command("fit", str(data), "--out", str(model), *fixed, *common, *again, allowed=(0, 1))
    if Path(f"{model}.checkpoint").exists():
        raise Loss("the checkpoint of a finished run is left")
    learned, metadata = nor.io.load_model(model)
    return json.dumps([learned.theta.tolist(), metadata["curve"], metadata["metrics"]])


def sweep(folder: Path) -> str:
    """Run `python -m reproduction run` for two small runs."""
    command(
        *("run", "bmf", "--size", "12,3", "--init", "paper-3", "--seeds", "0-1"),
        *("--steps", "40", "--threads", "1", "--validation-seeds", "0", "--quiet"),
        *("--out", str(folder / "out")),
        program=reproduction,
    )
    return json.dumps([run["metrics"] for run in Record(folder / "out").runs()])


def save(folder: Path) -> str:
    """Save a model sixty times."""
    path, learned = folder / "m.safetensors", network()
    for number in range(60):
        if path.exists():
            nor.load_network(path)
        nor.save_network(path, learned, metadata={"number": number})
    return json.dumps([nor.load_network(path).theta.tolist(), nor.io.load_model(path).metadata])


WORKS: dict[str, Work] = {
    "train": train,
    "train_stream": stream,
    "train_hybrid": hybrid,
    "fit": fit,
    "sweep": sweep,
    "save": save,
}


def leftovers(folder: Path) -> list[str]:
    """Return the hidden files that are left; finished work leaves none but locks of records."""
    found = {path.name for path in folder.rglob(".*")} - {".runs.lock"}
    return sorted(found)


def _text(result: TrainingResult) -> str:
    history = result.history
    record = [result.network.theta.tolist(), history.elbo.tolist(), history.evaluations]
    return json.dumps(record)
