"""What `noisyor fit` prints: kinds are called kinds, and the choice says how sure it is."""

import numpy as np
import pytest

from noisyor.cli.fitting.summary import _causes, _number_lines
from noisyor.cli.main import main
from noisyor.model.builders import bipartite

ONE = {"n_components": 1, "log_p": -9.0, "standard_error": 0.1, "below": 2.0, "error": 0.3}
TWO = {"n_components": 2, "log_p": -7.0, "standard_error": 0.1, "below": 0.0, "error": 0.0}
NUMBER = {"chosen": 2, "rows": 400, "candidates": [ONE, TWO]}


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (None, "3 causes in 1 layer"),
        ([0, 0, 0], "3 kinds of rows, of which each row is one"),
        ([0, 0, 1], "3 causes in sets of 2 + 1, one of each set in a row"),
    ],
)
def test_sets_are_told(sets, said):
    assert _causes(bipartite(4, 3, alternatives=sets)) == said


def test_numbers_that_were_tried_and_ways():
    ways = {"causes": -8.0, "classes": -7.0, "search": -8.5}
    lines = _number_lines({"number": NUMBER, "sets": [2], "ways": ways})
    assert lines[0].startswith("kinds   chosen by 400 rows")
    assert "2.000 ± 0.300 below the best" in lines[1]
    assert lines[2].endswith("the best <")
    assert "causes that add up -8.000, kinds that exclude each other -7.000" in lines[3]
    assert _number_lines({"number": NUMBER})[0].startswith("causes  chosen")
    assert _number_lines({}) == []


def test_kinds_of_a_table(tmp_path, capsys):
    generator = np.random.default_rng(7)
    own = np.where(generator.random((4, 12)) < 0.5, 0.9, 0.05)
    rows = generator.random((700, 12)) < own[generator.integers(4, size=700)]
    np.save(tmp_path / "kinds.npy", rows.astype(np.uint8))
    assert main(["fit", str(tmp_path / "kinds.npy"), "--out", str(tmp_path / "m.safetensors")]) == 0
    told = capsys.readouterr().out
    assert "4 kinds of rows" in told
    assert "the most frequent kinds, each with its share of the rows:" in told
    assert "one of set" not in told
