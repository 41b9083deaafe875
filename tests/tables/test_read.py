"""Data are brought into the columns of a model."""

from __future__ import annotations

import numpy as np
import pytest
from table_examples import X, table, written

import noisyor as nor
from noisyor.errors import InvalidDataError
from noisyor.tables import ReadOptions
from noisyor.tables.table import read_table

NETWORK = nor.bipartite(2, 1, visible_names=["milk", "hair"])


def test_by_name():
    found = read_table(written("d.csv", table()), ReadOptions(id_column="animal"), NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), X[:, [2, 0]])
    # A column that the model does not have may hold anything.
    found = read_table(written("d.csv", table()), ReadOptions(), NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), X[:, [2, 0]])


def test_items_and_words_that_are_not_known():
    found = read_table(written("d.baskets", "hair,horns\nmilk\n"), None, NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1], [1, 0]])
    assert found.ignored == 1
    found = read_table(written("d.txt", "Hair everywhere\n"), None, NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1]])


def test_by_position():
    np.save("d.npy", X[:, :2])
    assert read_table("d.npy", None, NETWORK).observations.n_visible == 2
    np.save("d.npy", X)
    with pytest.raises(InvalidDataError, match=r"d\.npy.* 4 .*2"):
        read_table("d.npy", None, NETWORK)


def test_images_of_another_shape():
    network = nor.convolutional((2, 3), 1, (1, 1))
    np.save("d.npy", np.zeros((2, 3, 2)))
    with pytest.raises(InvalidDataError, match=r"3 x 2.*2 x 3"):
        read_table("d.npy", None, network)
