"""Lines that list items."""

from __future__ import annotations

import numpy as np
from table_examples import COLUMNS, X, rows_of, tags, written


def test_baskets():
    text = "\n".join(",".join(f'"{tag}"' for tag in row) for row in tags())
    found = rows_of(written("d.csv", text), format="baskets")
    order = [found.observations.column_names.index(name) for name in COLUMNS]
    np.testing.assert_array_equal(found.observations.to_dense()[:, order], X)
    assert found.observations.column_names[:2] == ("eggs", "hair")  # the most frequent


def test_the_most_frequent_items():
    found = rows_of(written("d.baskets", "a,b\na\na,b,c\n"), vocabulary=2)
    assert found.observations.column_names == ("a", "b")
    assert found.observations.n_active == 5
