"""A model on disk."""

from pathlib import Path

import pytest
from model_files import NETWORKS

from noisyor.io.model_file import save_network


@pytest.fixture
def model(tmp_path) -> Path:
    path = tmp_path / "model.safetensors"
    save_network(path, NETWORKS["convolutional"], metadata={"seed": 3})
    return path
