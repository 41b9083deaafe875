"""What the functions of an engine are told, and what they return: options and results as values.

`noisyor.engines.contract` says which function takes and returns which of them, and is where they
are imported from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import (
    BinaryArray,
    FloatArray,
    IntArray,
    LongArray,
    SingleArray,
)

__all__ = [
    "AnnealingOptions",
    "AnnealingResult",
    "CoverResult",
    "Factors",
    "GibbsResult",
    "ImproveOptions",
    "ImprovedCover",
    "JointOptions",
    "JointResult",
    "JointUnaries",
    "MaxProductOptions",
    "MaxProductResult",
    "MeanFieldOptions",
    "MeanFieldResult",
    "PolishOptions",
    "WarmState",
]


class MaxProductOptions(NamedTuple):
    """The loop of max-product; see `noisyor.MaxProduct`. ``step`` is one minus the damping."""

    temperature: float
    max_iterations: int
    step: float
    tolerance: float
    n_samples: int
    ancestors_only: bool
    maximize_missing: bool
    two_stage: bool


class MaxProductResult(NamedTuple):
    """One line per (row, sample): row r, sample s is line ``r * n_samples + s``.

    ``states`` (lines, n_hidden); ``beliefs`` (lines, n_hidden), or (0, n_hidden) if not wanted;
    ``iterations`` (lines,); ``residual`` (lines,) largest change that a message still asked for.
    """

    states: BinaryArray
    beliefs: SingleArray
    iterations: IntArray
    residual: SingleArray


class PolishOptions(NamedTuple):
    """Sweeps of single flips, and which nodes take part, as in `MaxProductOptions`."""

    sweeps: int
    ancestors_only: bool
    maximize_missing: bool


class MeanFieldOptions(NamedTuple):
    """The schedule; see `noisyor.MeanField`. A negative tolerance stands for None."""

    local: bool
    outer: int
    inner: int
    r_iterations: int
    tolerance: float
    r_tolerance: float
    newton: bool


class WarmState(NamedTuple):
    """(q, r) of every row of a batch, to start from the next time; never changed.

    ``values[ptr[r]:ptr[r + 1]]`` belong to row r, in a layout of the engine's own.
    """

    ptr: LongArray
    values: FloatArray


class MeanFieldResult(NamedTuple):
    """``elbo`` and ``gain`` of the last round (n_rows,); ``rounds`` (n_rows,); ``q`` (n_rows,
    n_hidden), or (0, n_hidden) if not wanted.
    """

    elbo: FloatArray
    gain: FloatArray
    rounds: IntArray
    q: FloatArray


class GibbsResult(NamedTuple):
    """States (n_rows, n_hidden) after a sweep, and sums over rows for the parameters (n_params,).

    ``credit``: how often each parameter is expected to have switched its node on; ``chance``: how
    often it might have, its parent being on and its child observed.
    """

    states: BinaryArray
    credit: FloatArray
    chance: FloatArray


class AnnealingOptions(NamedTuple):
    """How far to explore.

    ``n_expansions`` configurations have all their single flips added to the set; ``n_chains``
    chains, or 0 for none, make ``n_steps`` sweeps to the posterior and ``n_stay`` more there.
    """

    n_expansions: int
    n_chains: int
    n_steps: int
    n_stay: int


class AnnealingResult(NamedTuple):
    """Sets of configurations and chains outside them.

    ``log_sum`` (n_rows,) log of the sum of p(h, x) over the set; ``size`` (n_rows,) its number of
    configurations of the nodes that interact; ``log_evidence`` (n_rows,) estimate of log p(x) from
    set and chains and ``log_error`` its standard error, ``log_sum`` and zero without chains;
    ``probability`` and ``error`` (n_rows, n_hidden) of each node and its standard error, or
    (0, n_hidden) if not wanted.
    """

    log_sum: FloatArray
    size: LongArray
    log_evidence: FloatArray
    log_error: FloatArray
    probability: FloatArray
    error: FloatArray

    @classmethod
    def empty(cls, n_rows: int, n_hidden: int, with_probability: bool) -> AnnealingResult:
        """Arrays for an engine to fill."""
        of_rows = (np.zeros(n_rows) for _ in range(3))
        shape = (n_rows if with_probability else 0, n_hidden)
        log_sum, log_evidence, log_error = of_rows
        size = np.zeros(n_rows, dtype=np.int64)
        return cls(log_sum, size, log_evidence, log_error, np.zeros(shape), np.zeros(shape))


class JointUnaries(NamedTuple):
    """Log-odds of every variable of joint max-product.

    ``pixels`` (n_images, height, width), 0 where not observed; ``states`` (n_images, n_components,
    rows, columns); ``features`` (n_components, feature_height, feature_width), plus and minus
    infinity where they are given.
    """

    pixels: SingleArray
    states: SingleArray
    features: SingleArray


class JointOptions(NamedTuple):
    """The loop of joint max-product; see `noisyor.inference.JointMaxProduct`."""

    iterations: int
    damping: float
    tolerance: float


class JointResult(NamedTuple):
    """Log-odds of the max-marginals in the shapes of `JointUnaries`, and how they were reached.

    ``iterations`` and ``residual``: the most of any image, and the largest change that a message
    still asked for.
    """

    states: SingleArray
    features: SingleArray
    iterations: int
    residual: float


class CoverResult(NamedTuple):
    """Memberships (n_rows, n_factors) after flips, how many factors cover each entry (n_rows,
    n_columns), and the number of flips.
    """

    states: BinaryArray
    counts: IntArray
    flips: int


class ImproveOptions(NamedTuple):
    """How long to look for covers with fewer errors.

    At most ``steps`` replacements of factors, fewer if ``patience`` in a row lowered nothing; after
    each one up to ``sweeps`` passes at a ``temperature``, in wrong entries.
    """

    steps: int
    patience: int
    sweeps: int
    temperature: float


class ImprovedCover(NamedTuple):
    """The cover with fewest errors: ``states`` (n_rows, n_factors), ``factors`` (n_factors,
    n_columns), the weight of its wrong entries, and the number of replacements made.
    """

    states: BinaryArray
    factors: BinaryArray
    errors: float
    steps: int


class Factors(NamedTuple):
    """Columns of every factor: those of factor k are ``columns[ptr[k]:ptr[k + 1]]``."""

    ptr: LongArray
    columns: IntArray
