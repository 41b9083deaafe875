"""How much do the errors of joint max-product depend on the arithmetic of its large messages?

    python benchmarks/joint_clipping.py --json results/joint_clipping.json

In the paper's order all messages are updated in parallel and damped. On Boolean factorization they
grow beyond the log-odds of a given entry, 1e6, where single precision has steps of 0.06. PGMax,
with which the paper's numbers were made, clipped messages at 1e5 and later at 1e20; noisyor does
not clip. This benchmark repeats the paper's experiment with a small implementation of its own, from
the same data and the same noise: in single precision, in double precision, and in single precision
with messages clipped at 1e5. It reports wrong entries of the test rows in percent.

Runs that the JSON file already holds are not run again.
"""

from __future__ import annotations

import math
from statistics import mean, stdev
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

import _root  # noqa: F401
from _measure import Machine, arguments, earlier, write
from noisyor.datasets import generate_bmf

ITERATIONS, DAMPING = 1000, 0.5
CLAMPED = 1e6
"""Log-odds of an entry that is given."""

KINDS = {
    "single precision": (np.float32, np.inf),
    "double precision": (np.float64, np.inf),
    "single precision, clipped at 1e5": (np.float32, 1e5),
}

Floats = npt.NDArray[np.floating[Any]]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _iterate(
    evidence: Floats,
    u: Floats,
    v: Floats,
    to_u: Floats,
    to_v: Floats,
    to_or: Floats,
    to_and: Floats,
    sum_u: Floats,
    sum_v: Floats,
    constants: Floats,
) -> None:
    """Update all messages once, in parallel; those of an AND have the shape (row, column, cause).

    The sums of the messages to memberships and factors are written to ``sum_u`` and ``sum_v``.
    ``constants`` are damping, 0, infinity and the limit, in the precision of the messages.
    """
    keep, zero, infinity, limit = constants
    take = keep  # the damping is one half
    n, p, r = to_u.shape
    sum_u[:] = zero
    sum_v[:] = zero
    for a in range(n):
        for j in range(p):
            total, first, second, where = zero, -infinity, -infinity, -1
            for k in range(r):
                t = to_or[a, j, k]
                total += max(t, zero)
                if t > first:
                    first, second, where = t, first, k
                elif t > second:
                    second = t
            for k in range(r):
                left, right = u[a, k] - to_u[a, j, k], v[j, k] - to_v[a, j, k]
                t, s = to_or[a, j, k], to_and[a, j, k]
                others = total - max(t, zero)
                largest = second if k == where else first
                new_s = min(evidence[a, j] + others, max(-largest, zero))
                new_t = min(left + right, min(left, right))
                new_u = max(right + s, zero) - max(right, zero)
                new_v = max(left + s, zero) - max(left, zero)
                to_and[a, j, k] = min(max(keep * s + take * new_s, -limit), limit)
                to_or[a, j, k] = min(max(keep * t + take * new_t, -limit), limit)
                new_u = min(max(keep * to_u[a, j, k] + take * new_u, -limit), limit)
                new_v = min(max(keep * to_v[a, j, k] + take * new_v, -limit), limit)
                to_u[a, j, k], to_v[a, j, k] = new_u, new_v
                sum_u[a, k] += new_u
                sum_v[j, k] += new_v


def infer(
    X: npt.ArrayLike, unary_u: Floats, unary_v: Floats, limit: float
) -> tuple[Floats, Floats, float]:
    """Return the beliefs of memberships (n, r) and factors (p, r), and the largest message."""
    dtype = unary_u.dtype
    evidence = np.where(np.asarray(X) == 1, CLAMPED, -CLAMPED).astype(dtype)
    messages = np.zeros((4, *evidence.shape, unary_u.shape[1]), dtype)
    constants = np.array([DAMPING, 0.0, np.inf, limit], dtype)
    u, v = unary_u.copy(), unary_v.copy()
    sum_u, sum_v = np.empty_like(u), np.empty_like(v)
    for _ in range(ITERATIONS):
        _iterate(evidence, u, v, *messages, sum_u, sum_v, constants)
        u, v = unary_u + sum_u, unary_v + sum_v
    return u, v, float(np.abs(messages).max())


def wrong_entries(n: int, r: int, seed: int, dtype: Any, limit: float) -> dict[str, float]:
    """Factor the training rows, infer the test rows given the factors, and count wrong entries."""
    data = generate_bmf(n, r, seed)
    probability = math.sqrt(1.0 - 0.75 ** (1.0 / r))
    prior = math.log(probability) - math.log1p(-probability)
    generator = np.random.default_rng([seed, n, r])

    def perturbed() -> Floats:
        return (prior + generator.logistic(size=(n, r))).astype(dtype)

    noise = [perturbed() for _ in range(3)]
    _, v, largest = infer(data.train, noise[0], noise[1], limit)
    factors = v > 0
    given = np.where(factors, CLAMPED, -CLAMPED).astype(dtype)
    u, _, _ = infer(data.test, noise[2], given, limit)
    found = (u > 0).astype(int) @ factors.T.astype(int) > 0
    return {
        "test_re_pct": round(100.0 * float(np.mean(found != (data.test == 1))), 3),
        "largest_message": largest,
    }


def main() -> None:
    """Run what is missing, and print means and standard errors."""
    parser = arguments(__doc__)
    parser.add_argument("--size", default="100,20", help="n,r")
    parser.add_argument("--seeds", type=int, default=20, help="seeds from 0 on")
    options = parser.parse_args()
    n, r = map(int, options.size.split(","))
    machine, content = Machine(), earlier(options.json, {"machine": {}, "runs": {}})
    for seed in range(options.seeds):
        for name, (dtype, limit) in KINDS.items():
            runs = content["runs"].setdefault(options.size, {}).setdefault(name, {})
            if str(seed) not in runs:
                runs[str(seed)] = wrong_entries(n, r, seed, dtype, limit)
                write(options.json, content | {"machine": machine.describe()})
    for size, kinds in content["runs"].items():
        for name, runs in kinds.items():
            wrong = [run["test_re_pct"] for run in runs.values()]
            error = stdev(wrong) / math.sqrt(len(wrong)) if len(wrong) > 1 else math.nan
            print(f"{size}, {name}: {mean(wrong):.2f} ({error:.2f}) %, {len(wrong)} seeds")


if __name__ == "__main__":
    main()
