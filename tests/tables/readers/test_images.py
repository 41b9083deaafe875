"""Folders of PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from table_examples import rows_of


@pytest.mark.parametrize("mode", ["L", "1", "RGB", "I;16"])
def test_a_folder(mode):
    from PIL import Image

    images = np.random.default_rng(0).integers(0, 2, (4, 3, 5))
    Path("d").mkdir()
    for number, pixels in enumerate(images):
        if mode == "I;16":
            picture = Image.fromarray((pixels * 65535).astype(np.uint16))
        else:
            picture = Image.fromarray((pixels * 255).astype(np.uint8)).convert(mode)
        picture.save(f"d/{number}.png")
    found = rows_of("d")
    assert (found.format, found.row_names) == ("images", ("0.png", "1.png", "2.png", "3.png"))
    assert found.observations.shape == (3, 5)
    np.testing.assert_array_equal(found.observations.to_dense(), images.reshape(4, -1))
    inverted = rows_of("d", invert=True).observations
    np.testing.assert_array_equal(inverted.to_dense(), 1 - images.reshape(4, -1))
