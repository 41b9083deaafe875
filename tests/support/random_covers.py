"""Small binary matrices and random covers of them."""

from __future__ import annotations

import numpy as np

from noisyor.search.cover import Cover, Matrix


def make_matrix(seed: int, flips: float = 0.0, missing: float = 0.0) -> Matrix:
    generator = np.random.default_rng(seed)
    states = (generator.random((40, 4)) < 0.3).astype(np.uint8)
    factors = (generator.random((4, 30)) < 0.3).astype(np.uint8)
    ones = (states @ factors > 0) ^ (generator.random((40, 30)) < flips)
    observed = generator.random((40, 30)) >= missing
    return Matrix(ones & observed, observed)


class Repeated:
    """Rows of a matrix or of memberships, each as often as a weight says."""

    def __init__(self, weights: object) -> None:
        self.times = np.asarray(weights)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.repeat(rows, self.times, axis=0)

    def matrix(self, matrix: Matrix) -> Matrix:
        return Matrix(self(matrix.ones), self(matrix.observed))


def random_cover(matrix: Matrix, seed: int, n_components: int = 5, objective: str = "mdl") -> Cover:
    generator = np.random.default_rng(seed)
    shape = matrix.ones.shape
    return Cover.of(
        matrix,
        generator.random((shape[0], n_components)) < 0.3,
        generator.random((n_components, shape[1])) < 0.3,
        objective,
    )
