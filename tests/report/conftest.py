"""Small models of every kind, with data drawn from them."""

from __future__ import annotations

import numpy as np
import pytest
from report_examples import NASTY, QUOTES, Example, save

import noisyor as nor
from noisyor.data.observations import Observations


@pytest.fixture(scope="session")
def topics(tmp_path_factory) -> Example:
    """Two upper topics, four lower ones, twelve words."""
    words = ["goal", "team", "ball", "coach", "orbit", "moon", "rocket", "star", "vote", "law"]
    words += [NASTY, QUOTES]
    edges = [(k, i) for k in range(4) for i in range(3 * k, 3 * k + 3)] + [(0, 3), (2, 5)]
    network = nor.from_edges(
        12,
        6,
        edges,
        [(4, 0), (4, 1), (5, 2), (5, 3), (5, 1)],
        failure_probability=[*np.linspace(0.05, 0.4, len(edges)), 0.2, 0.6, 0.3, 0.3, 0.9],
        prior_probability=[0.1, 0.1, 0.1, 0.1, 0.2, 0.2],
        noise_probability=0.02,
        visible_names=words,
    )
    rows = Observations.of(nor.sample(network, 300, seed=1).visible, column_names=words)
    folder = tmp_path_factory.mktemp("topics")
    data = folder / "documents.npz"
    np.savez(data, X=rows.to_csr().toarray(), columns=np.array(words))
    return save(folder, "topics", network, rows, data)


@pytest.fixture(scope="session")
def factors(tmp_path_factory) -> Example:
    """Three factors of nine columns, a spare one that does nothing, and a copy of the first."""
    failure = np.full((5, 9), 0.999)
    for k in range(3):
        failure[k, 3 * k : 3 * k + 3] = 0.05
    failure[4] = failure[0]
    names = [f"column-{i}" for i in range(8)] + [NASTY]
    network = nor.bipartite(
        9,
        5,
        failure_probability=failure,
        prior_probability=[0.3, 0.3, 0.3, 0.2, 0.3],
        noise_probability=0.01,
        visible_names=names,
    )
    rows = Observations.of(nor.sample(network, 200, seed=2).visible, column_names=names)
    folder = tmp_path_factory.mktemp("factors")
    data = folder / "rows.npz"
    animals = np.array([f"animal {i}" for i in range(200)])
    np.savez(data, X=rows.to_csr().toarray(), columns=np.array(names), names=animals)
    return save(folder, "factors", network, rows, data)


@pytest.fixture(scope="session")
def features(tmp_path_factory) -> Example:
    """A cross and a frame of 3 x 3 pixels in images of 9 x 9, over the border as well."""
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    frame = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]])
    network = nor.convolutional(
        (9, 9),
        2,
        (3, 3),
        border=True,
        failure_probability=np.where(np.stack([cross, frame]) == 1, 0.02, 0.9999),
        prior_probability=0.012,
        noise_probability=0.002,
    )
    images = nor.sample(network, 40, seed=3).visible.toarray().reshape(-1, 9, 9)
    folder = tmp_path_factory.mktemp("features")
    data = folder / "images.npy"
    np.save(data, images)
    return save(folder, "features", network, Observations.of(images), data)
