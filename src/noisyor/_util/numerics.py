"""Numerically stable functions in plain NumPy, independent of the compiled ones that they test."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray


def log_one_minus_exp(b: npt.ArrayLike) -> FloatArray:
    """Return ``f(b) = log(1 - exp(-b))`` for ``b >= 0`` of any shape; minus infinity at zero."""
    value = np.asarray(b, dtype=np.float64)
    small = np.minimum(value, np.log(2))
    large = np.maximum(value, np.log(2))
    with np.errstate(divide="ignore"):
        below = np.log(-np.expm1(-small))
    return np.where(value <= np.log(2), below, np.log1p(-np.exp(-large)))


def log_expm1(b: npt.ArrayLike) -> FloatArray:
    """Return ``b + f(b) = log(exp(b) - 1)``: log-odds of a node with total parameter b."""
    return np.asarray(b, dtype=np.float64) + log_one_minus_exp(b)


def logistic_function(log_odds: npt.ArrayLike) -> FloatArray:
    """Return the probability ``1 / (1 + exp(-a))`` of log-odds of any shape, without overflow."""
    a = np.asarray(log_odds, dtype=np.float64)
    rest = np.exp(-np.abs(a))
    return np.where(a < 0, rest / (1.0 + rest), 1.0 / (1.0 + rest))


def standard_error_of_mean(values: FloatArray, weights: FloatArray | None = None) -> float:
    """Return the standard error of the mean of values (n,); NaN for a single row.

    ``weights`` (n,) say how many rows each value stands for, None for one each: a row of weight w
    counts as w rows with the same value.

    >>> standard_error_of_mean(np.array([1.0, 3.0]))
    1.0
    """
    weight = np.ones(len(values)) if weights is None else weights
    n_rows = weight.sum()
    if n_rows <= 1:
        return float("nan")
    mean = weight @ values / n_rows
    variance = weight @ (values - mean) ** 2 / (n_rows - 1)
    return float(np.sqrt(variance / n_rows))


def entropy_bits(probability: FloatArray) -> FloatArray:
    """Return the entropy of Bernoulli variables in bits."""
    inside = np.clip(probability, 1e-12, 1.0 - 1e-12)
    return np.asarray(-inside * np.log2(inside) - (1.0 - inside) * np.log2(1.0 - inside))
