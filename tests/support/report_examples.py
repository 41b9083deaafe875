"""What the examples of the report's tests are made of."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.io.model_file import provenance
from noisyor.learning.state import Evaluation, History
from noisyor.model.network import Network

NASTY = "<script>alert(1)</script>"
QUOTES = "a \"b\" & 'c' </script><!--"


class Example(NamedTuple):
    """A network, rows drawn from it, and the files they were saved in."""

    network: Network
    observations: Observations
    model: Path
    data: Path


NUMBERS = {
    "n_components": [2, 4, 8],
    "log_p": [-24.0, -21.0, -20.9],
    "standard_error": [0.2, 0.2, 0.2],
    "chosen": 4,
    "n_rows": 50,
}


def history() -> History:
    steps = np.arange(1, 121)
    elbo = -20.0 - 30.0 / steps
    return History(elbo, np.full(120, 0.01), tuple(Evaluation(s, -21.0) for s in (40, 80, 120)))


def save(folder: Path, kind: str, network: Network, rows: Observations, data: Path) -> Example:
    metadata = provenance(
        kind,
        rows,
        settings={"steps": 120, "n_components_curve": NUMBERS, "note": NASTY},
        metrics={"held_out_elbo": -21.0, "held_out_independent": -25.0},
        curve=history().curve(),
        source=data.name,
    )
    model = folder / f"{kind}.safetensors"
    nor.save_network(model, network, metadata=metadata)
    return Example(network, rows, model, data)
