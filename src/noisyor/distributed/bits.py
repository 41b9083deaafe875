"""Whether two machines compute the same bits: a small problem, solved on both.

The order of sums is fixed (`noisyor.engines.reduction`). What is left is what one machine does with
one number: another instruction set, compiler or version of a library may round otherwise.
"""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from noisyor._version import __version__
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.noise import combine, uniform
from noisyor.engines.registry import Runner
from noisyor.inference.method import Method
from noisyor.model.builders import bipartite

__all__ = ["bits_of", "describe_machine"]

_ROWS, _VISIBLE, _HIDDEN = 40, 24, 6

_known: dict[tuple[str, str, bool], str] = {}


def bits_of(method: Method | None, engine: EngineLike, sampling: bool = False) -> str:
    """Hash of what this process computes: functions of NumPy, and a gradient by the method.

    With ``sampling``, a Gibbs sweep too.

    It is found once in a process.

    >>> import noisyor as nor
    >>> bits_of(nor.MaxProduct(), "numpy") == bits_of(nor.MaxProduct(), "numpy")
    True
    """
    key = (repr(method), engine if isinstance(engine, str) else engine.name, sampling)
    if key not in _known:
        _known[key] = _compute(method, engine, sampling)
    return _known[key]


def _compute(method: Method | None, engine: EngineLike, sampling: bool) -> str:
    points = np.linspace(1e-6, 12.0, 2001)
    found: list[Any] = [f(points) for f in (np.exp, np.log, np.expm1, np.log1p, np.sqrt)]
    found += [np.exp(-points), np.log(-np.expm1(-points)), points.sum(), points @ np.exp(-points)]
    if method is not None:
        draw = uniform(combine(7, np.arange(_VISIBLE * (_HIDDEN + _ROWS))))
        failure, rows = np.split(draw, [_VISIBLE * _HIDDEN])
        network = bipartite(
            _VISIBLE,
            _HIDDEN,
            failure_probability=failure.reshape(_HIDDEN, _VISIBLE),
            prior_probability=0.2,
            noise_probability=0.05,
        )
        batch = Observations.of(rows.reshape(_ROWS, _VISIBLE) < 0.3)
        total = method.gradient(network, batch, seed=3, step=1, engine=engine).total
        found += [total.value, total.gradient, total.weight]
        if sampling:
            states = np.zeros((_ROWS, _HIDDEN), dtype=np.uint8)
            sampler, prepared = Runner(engine, network).on("gibbs_sweep")
            evidence = Evidence.of(network, batch)
            found += list(sampler.gibbs_sweep(prepared, evidence, states, NoiseKey(3)))
    digest = hashlib.sha256()
    for values in found:
        digest.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return digest.hexdigest()


def describe_machine() -> str:
    """Processor and versions of this process on one line.

    >>> "numpy" in describe_machine()
    True
    """
    parts = [_processor(), f"Python {platform.python_version()}", f"noisyor {__version__}"]
    for package in ("numpy", "numba", "llvmlite"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            parts.append(f"no {package}")
    return ", ".join(parts)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            names = [line.partition(":")[2].strip() for line in stream if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
