"""Circles: none on top of another, alike ones near, in the shape that was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from noisyor.report.insight.places import Circles, inside, neighbourhoods, placed


def blocks(sizes: list[int], alike: float = 0.8) -> np.ndarray:
    label = np.repeat(np.arange(len(sizes)), sizes)
    return np.where(label[:, None] == label, alike, 0.0) + (1 - alike) * np.eye(len(label))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [1, 2, 3, 12, 60])
def test_circles_do_not_overlap(n, seed):
    random = np.random.default_rng(seed)
    radius = random.lognormal(0, 0.8, n)
    similarity = random.random((n, n)) ** 3
    found = placed(radius, (similarity + similarity.T) / 2, 1.5)
    assert np.isfinite([found.x, found.y]).all()
    distance = np.hypot(found.x[:, None] - found.x, found.y[:, None] - found.y)
    overlap = radius[:, None] + radius - distance
    np.fill_diagonal(overlap, 0)
    assert overlap.max() < 0.05 * radius.mean()


def test_alike_ones_lie_together():
    similarity = blocks([5, 5, 5])
    found = placed(np.ones(15), similarity, 1.0)
    place = np.stack([found.x, found.y], axis=1)
    distance = np.linalg.norm(place[:, None] - place, axis=2)
    same = (similarity > 0.5) & ~np.eye(15, dtype=bool)
    assert distance[same].mean() < 0.7 * distance[similarity < 0.5].mean()


def test_the_map_has_the_shape_of_the_screen():
    wide = placed(np.ones(20), np.zeros((20, 20)), 2.0).box
    narrow = placed(np.ones(20), np.zeros((20, 20)), 0.7).box
    assert wide[2] / wide[3] > 1.3 > 1.0 > narrow[2] / narrow[3]


def test_a_circle_holds_others():
    parts = placed(np.array([1.0, 2.0, 0.5]), np.zeros((3, 3)), 1.0)
    centred, radius = inside(parts, 0.1)
    assert (np.hypot(centred.x, centred.y) + centred.radius <= radius - 0.09).all()
    assert radius < 4.5


def test_neighbourhoods():
    assert neighbourhoods(blocks([2, 4, 3]), 3).tolist() == [2, 2, 0, 0, 0, 0, 1, 1, 1]
    assert neighbourhoods(np.ones((2, 2)), 8).tolist() == [0, 1]


def test_box():
    box = Circles(np.array([0.0, 4.0]), np.array([0.0, 1.0]), np.array([1.0, 2.0])).box
    assert box == (-1.0, -1.0, 7.0, 4.0)
