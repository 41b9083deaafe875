from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from noisyor.errors import InvalidDataError
from noisyor.report.insight.classes import class_section, classes_of


def test_counts_shares_and_lift():
    labels = ["a"] * 6 + ["b"] * 3 + [""]
    states = sp.csr_array(np.array([[1, 0]] * 5 + [[0, 1]] + [[0, 1]] * 3 + [[1, 1]]))
    found = classes_of(labels, states, "kind")
    assert found.names == ("a", "b")
    assert found.rows.tolist() == [6, 3]
    assert found.on.tolist() == [[5, 0], [1, 3]]  # the row without a class is left out
    assert found.share[1].tolist() == [0.25, 0.75]
    assert found.lift[1, 1] == pytest.approx(0.75 / (3 / 9))
    assert found.leader.tolist() == [0, -1]  # four rows are too few to tell
    section = class_section(found, ["first", "second"])
    assert [cause["title"] for cause in section["groups"][0]["causes"]] == ["first"]
    assert section["groups"][1]["causes"] == []


def test_an_id_is_no_class():
    states = sp.csr_array(np.ones((50, 1)))
    with pytest.raises(InvalidDataError, match=r"50 different values.*is it an id"):
        classes_of([str(k) for k in range(50)], states, "name")
    with pytest.raises(InvalidDataError, match="one value only"):
        classes_of(["a"] * 50, states, "name")
