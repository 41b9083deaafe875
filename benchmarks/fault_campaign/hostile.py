"""Read hostile files, matrices and numbers: each is refused in one line, or read correctly."""

from __future__ import annotations

import contextlib
import copy
import functools
import gzip
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import noisyor as nor
from fault_campaign import works
from fault_campaign.case import Attempt, Case, Loss
from noisyor.cli.main import main
from noisyor.data.observations import Observations
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError, InvalidDataError, ModelFileError, NoisyOrError
from noisyor.inference import enumerate_posterior
from noisyor.inference.evaluate import evaluate
from noisyor.inference.mean_field import MeanField
from noisyor.io.model_file import load_model
from noisyor.tables.table import read_table

Random = np.random.Generator
Kind = Callable[[Random, Path], str]

REFUSED, READ = "refused", "read"
NAMES = [
    *("a\nb", "a\rb", "\ud800", "=1+1", "<script>alert(1)</script>", "]]>", "%s{0}", "x" * 10_000),
    *("\x1b[31m", "'", '"', ",", "\u202e", "-1", " ", "é", "\x01", "&lt;", "</title>", "@SUM"),
]

ODD: list[Any] = [
    *(None, True, 0, 1, -1, 2**31, 2**63, 10**400, 1.5, -1e308, "", "x", "a\0b", "\ud800"),
    *("/etc/passwd", "../x", [], {}, [1], ["a", None], {"a": 1}, [[1, 2], [3]], "9" * 5000),
    *("nan", "utf-16", "jsonl", 0.5, {"method": "max-product"}, {"method": "mean-field"}),
    *({"method": "max-product", "temperature": "x"}, {"rows": "x"}, "é" * 1000, "=1+1"),
]


def cases(n: int, seed: int) -> Iterator[tuple[Case, Attempt]]:
    """Yield ``n`` cases, of all kinds in turn; the same seed gives the same cases."""
    _warm()
    for number in range(n):
        kind, attempt = list(KINDS.items())[number % len(KINDS)]
        own = seed * 1_000_003 + number
        case = Case(f"{kind} {own}", kind, own)
        yield case, functools.partial(_run, attempt, own)


def _run(attempt: Kind, seed: int, folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attempt(np.random.default_rng(seed), folder)


@functools.cache
def _warm() -> None:
    """Compile the kernels that the cases use once, before forking."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _model(folder)
        for arguments in _commands(folder):
            with contextlib.redirect_stdout(io.StringIO()):
                main(arguments)
        model = nor.BooleanMatrixFactorization.load(folder / "m")
        model.partial_fit(Observations.of(works.rows(5), column_names=works.COLUMNS))
        nor.BooleanMatrixFactorization(2, steps=1, n_jobs=1).fit(works.rows(30))
        for attempt in (checkpoints, extremes):
            attempt(np.random.default_rng(0), folder)


# ---- what is attacked


def _model(folder: Path, metadata: dict[str, Any] | None = None) -> Path:
    """Save a model of the rows of `works`, and the rows as a table beside it."""
    (folder / "rows.csv").write_text(works.table())
    network = nor.initialize(nor.bipartite(10, 3, visible_names=works.COLUMNS), noise="uniform")
    saved = _metadata(folder) if metadata is None else metadata
    nor.save_network(folder / "m", network, metadata=saved)
    return folder / "m"


def _metadata(folder: Path) -> dict[str, Any]:
    from noisyor.io.model_file import provenance

    settings = {
        "method": nor.MaxProduct().settings(),
        **{"steps": 2, "batch_size": 20, "learning_rate": 0.01, "seed": 0, "held_out": None},
    }
    told = provenance(
        "factors",
        Observations.of(works.rows()),
        settings=settings,
        metrics={"held_out_elbo": -3.0},
        curve={"step": [1, 2], "elbo": [-4.0, -3.0], "held_out_step": [2], "held_out_elbo": [-3.0]},
        source=str(folder / "rows.csv"),
    )
    params = {"n_components": 3, "steps": 2, "options": {"smoothing": 0.5}, "random_state": 0}
    return {**told, "reading": {}, "named": True, "estimator": {"params": params}}


def _commands(folder: Path) -> list[list[str]]:
    model, rows = str(folder / "m"), str(folder / "rows.csv")
    out = ["--out", str(folder / "out"), "--force", "--quiet"]
    return [
        ["info", model],
        ["info", model, "--json"],
        ["explain", model, rows, "--rows", "0"],
        ["explain", model, "--observe", "c1"],
        ["evaluate", model, rows, "--quick"],
        ["report", model, *out],
        ["report", model, rows, "--max-rows", "5", *out],
    ]


def _command(arguments: list[str]) -> str:
    """Run a command, which must succeed or explain in one line why not."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(arguments)
    lines = [line for line in said.getvalue().splitlines() if not line.startswith("note:")]
    if code not in (0, 1, 2) or (code == 2 and len(lines) != 1):
        raise Loss(f"noisyor {arguments[0]} ended with code {code} and said {lines[:3]}")
    return REFUSED if code == 2 else READ


# ---- how content is damaged


def damaged(random: Random, content: bytes) -> bytes:
    """Flip a bit, or overwrite, cut, repeat or remove bytes."""
    damaged, way = bytearray(content), random.integers(5)
    place = int(random.integers(len(damaged)))
    if way == 0:
        damaged[place] ^= 1 << int(random.integers(8))
    elif way == 1:
        for other in random.integers(len(damaged), size=8):
            damaged[other] = int(random.integers(256))
    elif way == 2:
        del damaged[place:]
    elif way == 3:
        damaged[place:place] = damaged[place : place + 64]
    else:
        del damaged[place : place + int(random.integers(1, 64))]
    return bytes(damaged)


def with_something_odd(random: Random, value: Any) -> Any:
    """Put odd values at one or two places of a JSON value."""
    for _ in range(random.integers(1, 3)):
        places = list(_places(value))
        place = places[random.integers(1, len(places))] if len(places) > 1 else ()
        value = _put(value, place, copy.deepcopy(ODD[random.integers(len(ODD))]))
    return value


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*place, key))


def _put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    value[place[0]] = _put(value[place[0]], place[1:], new)
    return value


def wrong(random: Random, array: np.ndarray) -> np.ndarray:
    """Put numbers out of range into an array, or change its type, shape or length."""
    array = np.array(array)
    if not array.size:
        return array
    way = random.integers(6)
    if way == 0:
        array.flat[random.integers(array.size)] = random.choice([-1, -5, 2**31 - 1, 10**6, 9])
    elif way == 1:
        array = array[: random.integers(array.size)]
    elif way == 2:
        array = np.concatenate([array, array])
    elif way == 3:
        array = array.astype(np.float64)
        array.flat[0] = np.nan
    elif way == 4:
        array = array.reshape(-1, 1)
    else:
        array.flat[random.integers(array.size, size=3)] = random.integers(-(10**6), 10**6, 3)
    return array


# ---- kinds


def models(random: Random, folder: Path) -> str:
    """Damage a model file: it is refused, or gives the same network."""
    path = _model(folder)
    before = nor.load_network(path)
    path.write_bytes(damaged(random, path.read_bytes()))
    try:
        after = nor.load_network(path)
    except ModelFileError:
        return REFUSED
    if after.theta.tobytes() != before.theta.tobytes():
        raise Loss("a damaged model was read as another one")
    return "harmless"


def metadata(random: Random, folder: Path) -> str:
    """Give nonsensical JSON metadata to every command and to estimators."""
    told = with_something_odd(random, _metadata(folder))
    try:
        path = _model(folder, told if isinstance(told, dict) else {"kind": told})
    except NoisyOrError:
        return REFUSED
    commands = _commands(folder)
    number = random.integers(len(commands) + 1)
    if number < len(commands):
        return _command(commands[number])
    try:
        model = nor.BooleanMatrixFactorization.load(path)
        model.transform(Observations.of(works.rows(5)))
        model.partial_fit(Observations.of(works.rows(5)))
    except NoisyOrError:
        return REFUSED
    return READ


def checkpoints(random: Random, folder: Path) -> str:
    """Damage a checkpoint: a `CheckpointError`, or the result of an undisturbed run."""
    path, engine = folder / "run", get_engine(n_threads=1)
    options: dict[str, Any] = {"engine": engine, "progress": False, "seed": 1}
    whole = nor.train(works.network(), works.rows(40), steps=6, **options)
    nor.train(works.network(), works.rows(40), steps=3, checkpoint=path, **options)
    path.write_bytes(damaged(random, path.read_bytes()))
    try:
        again = nor.train(
            works.network(), works.rows(40), steps=6, checkpoint=path, resume=True, **options
        )
    except CheckpointError:
        return REFUSED
    if again.network.theta.tobytes() != whole.network.theta.tobytes():
        raise Loss("a damaged checkpoint was read as another one")
    return "harmless"


def tables(random: Random, folder: Path) -> str:
    """Damage tables in text formats; libraries read the other formats."""
    ending = str(random.choice(["csv", "csv.gz", "jsonl", "txt"]))
    path = folder / f"t.{ending}"
    if ending.startswith("csv"):
        text = works.table().encode()
        path.write_bytes(text if ending == "csv" else gzip.compress(text, 1))
    elif ending == "jsonl":
        names = works.COLUMNS
        lines = [json.dumps(dict(zip(names, row.tolist(), strict=True))) for row in works.rows(30)]
        path.write_text("\n".join(lines))
    else:
        path.write_text("\n".join(" ".join(random.choice(NAMES[5:], 5)) for _ in range(20)))
    path.write_bytes(damaged(random, path.read_bytes()))
    try:
        read_table(path)
    except NoisyOrError:
        return REFUSED
    return READ


def folders(random: Random, folder: Path) -> str:
    """Change the arrays in folders that `open_rows` opens."""
    place = folder / "rows"
    if random.random() < 0.5:
        data = works.rows(30).astype(float)
        data[random.random(data.shape) < 0.1] = np.nan
        nor.data.write_rows(place, [data])
        names = ["indptr", "indices", "missing_indptr", "missing_indices", "shape"]
        path = place / f"{random.choice(names)}.npy"
        np.save(path, wrong(random, np.load(path)))
    else:
        place.mkdir()
        layout = str(random.choice(["csr", "csc"]))
        matrix = sp.csr_array(works.rows(30)).asformat(layout)
        parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
        name = str(random.choice(list(parts)))
        parts[name] = wrong(random, np.asarray(parts[name]))
        np.savez(place / "a.npz", format=np.array(layout.encode()), **parts)
    try:
        source = nor.data.open_rows(place, chunk_rows=int(random.integers(1, 40)))
        for chunk in source:
            Observations.of(chunk, source.n_visible)
    except InvalidDataError:
        return REFUSED
    return READ


def matrices(random: Random, folder: Path) -> str:
    """Change the arrays of sparse matrices in memory."""
    layout = str(random.choice(["csr", "csc"]))
    matrix = sp.csr_array(works.rows(30)).asformat(layout)
    name = str(random.choice(["indptr", "indices", "data"]))
    with contextlib.suppress(AttributeError):  # some cannot be set in some versions
        setattr(matrix, name, wrong(random, getattr(matrix, name)))
    try:
        if random.random() < 0.5:
            Observations.of(matrix)
        else:
            nor.BooleanMatrixFactorization(2, steps=1, n_jobs=1).fit(matrix)
    except InvalidDataError:
        return REFUSED
    except ValueError as error:  # scikit-learn's word for infinity and the like
        if "sklearn" not in str(type(error).__module__) and not isinstance(error, NoisyOrError):
            return "refused by scikit-learn"
    return READ


def holes(random: Random, folder: Path) -> str:
    """Write a sparse model file, which takes no space and announces gigabytes."""
    size, path = int(random.integers(6, 8)) * 2**30, folder / "m"
    header = {"theta": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    start = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(len(start).to_bytes(8, "little") + start)
        stream.truncate(8 + len(start) + size)
    try:
        load_model(path)
    except NoisyOrError:
        return REFUSED
    return READ


def names(random: Random, folder: Path) -> str:
    """Give nodes hostile names, and run every command."""
    chosen = [str(name) for name in random.choice(NAMES, 10, replace=False)]
    _model(folder)
    network = nor.bipartite(10, 3, failure_probability=0.2, visible_names=chosen)
    nor.save_network(folder / "m", network)
    commands = [arguments for arguments in _commands(folder) if "rows.csv" not in str(arguments)]
    return _command(commands[random.integers(len(commands))])


def extremes(random: Random, folder: Path) -> str:
    """Use extreme parameters: no result is NaN, and no bound exceeds log p."""
    n_visible, n_hidden = int(random.integers(2, 8)), int(random.integers(1, 5))
    network = nor.bipartite(n_visible, n_hidden)
    theta = random.exponential(1.0, network.n_params)
    chosen = random.random(network.n_params) < 0.5
    theta[chosen] = random.choice([0.0, 1e-300, 1e-12, 50.0, 745.0, 1e4, 1e6, 1e20, 1e300])
    rows = (random.random((12, n_visible)) < 0.5).astype(float)
    rows[random.random(rows.shape) < 0.1] = np.nan
    try:
        network = network.with_theta(theta)
        exact = enumerate_posterior(network, rows)
        found = evaluate(network, rows, [nor.MaxProduct(), MeanField(tolerance=1e-4)])
    except NoisyOrError:
        return REFUSED
    truth = float(exact.log_likelihood.mean())
    if np.isnan(exact.marginals).any() or not truth <= 1e-9:
        raise Loss(f"log p is {truth}, or a marginal is no number")
    for score in (found.elbo_mp, found.elbo_vi):
        if score is not None and not score.mean <= truth + 1e-9 * max(1.0, abs(truth)):
            raise Loss(f"a bound of {score.mean} above log p = {truth}, theta up to {theta.max()}")
    return READ


KINDS: dict[str, Kind] = {
    "hostile model": models,
    "hostile metadata": metadata,
    "hostile checkpoint": checkpoints,
    "hostile table": tables,
    "hostile folder": folders,
    "hostile matrix": matrices,
    "model of holes": holes,
    "hostile names": names,
    "extreme numbers": extremes,
}
