"""Models of every kind as subjects, and a server that answers for one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from report_examples import NASTY, QUOTES
from server import ServerInThread

import noisyor as nor

FINDINGS = ["fever", "cough", "sneezing", "rash", "wheezing", "red eyes", NASTY, QUOTES]


class Models(NamedTuple):
    """Model files by kind."""

    clinic: Path
    topics: Path
    image: Path


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> Models:
    folder = tmp_path_factory.mktemp("models")
    edges = [(0, 0), (0, 1), (1, 0), (1, 2), (2, 0), (2, 3), (3, 4), (3, 1), (2, 5), (3, 6), (1, 7)]
    common = {
        "failure_probability": [0.1, 0.2, 0.3, 0.3, 0.05, 0.02, 0.1, 0.5, 0.2, 0.4, 0.6],
        "prior_probability": [0.05, 0.1, 0.01, 0.02],
        "noise_probability": 0.01,
        "visible_names": FINDINGS,
        "hidden_names": ["flu", "cold", "measles", "<b>asthma</b>"],
    }
    clinic = nor.from_edges(8, 4, edges, **common)
    topics = nor.from_edges(
        6,
        5,
        [(0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5)],
        [(3, 0), (3, 1), (4, 1), (4, 2)],
        failure_probability=np.linspace(0.1, 0.5, 11),
        prior_probability=0.1,
        noise_probability=0.02,
        visible_names=["goal", "team", "ball", "coach", "orbit", "moon"],
    )
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    image = nor.convolutional(
        (6, 7),
        1,
        (3, 3),
        failure_probability=np.where(cross == 1, 0.02, 0.9999)[None],
        prior_probability=0.05,
        noise_probability=0.01,
    )
    found = {}
    for name, network, kind in (
        ("clinic", clinic, "network"),
        ("topics", topics, "topics"),
        ("image", image, "features"),
    ):
        found[name] = folder / f"{name}.safetensors"
        nor.save_network(found[name], network, metadata={"kind": kind})
    return Models(**found)


@pytest.fixture(scope="session")
def server(models):
    running = ServerInThread(models.clinic)
    yield running
    running.stop()
