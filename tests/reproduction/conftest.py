"""Small stand-ins for the data sets, so that every experiment runs from end to end in seconds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import reproduction.datasets
from noisyor.datasets.synthetic import generate_deconvolution


def documents(n_rows: int, n_words: int, seed: int) -> np.ndarray:
    """Rows in which words of a topic occur together."""
    generator = np.random.default_rng(seed)
    topics = generator.random((n_rows, 3)) < 0.4
    member = np.arange(n_words) % 3
    return ((generator.random((n_rows, n_words)) < 0.6) & topics[:, member]).astype(np.uint8)


def ovpm(name: str) -> SimpleNamespace:
    failure = np.ones((8, 16))
    for k in range(8):
        failure[k, 2 * k : 2 * k + 2] = 0.1
    generator = np.random.default_rng(len(name))
    on = (generator.random((300, 8)) < 0.25).astype(float)
    stays_off = np.exp(on @ np.log(failure))
    observations = (generator.random((300, 16)) > stays_off).astype(np.uint8)
    shape = None if name == "PLNT" else (4, 4)
    return SimpleNamespace(
        observations=observations, failure=failure, prior=np.full(8, 0.25), image_shape=shape
    )


@pytest.fixture
def small_data(monkeypatch):
    """Loaders that return a few generated rows."""
    words = tuple(f"word{i}" for i in range(27))
    loaders = {
        "load_tiny20": lambda: SimpleNamespace(observations=documents(60, 27, 0), words=words),
        "load_imdb": lambda: SimpleNamespace(
            train=documents(40, 243, 1), test=documents(20, 243, 2)
        ),
        "load_ovpm": ovpm,
        "load_deconvolution": lambda: generate_deconvolution(20, 0),
    }
    for name, loader in loaders.items():
        monkeypatch.setattr(reproduction.datasets, name, loader, raising=False)
    from reproduction.layered import load_text

    load_text.cache_clear()
    yield
    load_text.cache_clear()
