"""What `noisyor fit` prints: the numbers of causes that were tried, with their errors."""

from noisyor.cli.fitting.summary import _number_lines

ONE = {"n_components": 1, "log_p": -9.0, "standard_error": 0.1, "below": 2.0, "error": 0.3}
TWO = {"n_components": 2, "log_p": -7.0, "standard_error": 0.1, "below": 0.0, "error": 0.0}
NUMBER = {"chosen": 2, "rows": 400, "candidates": [ONE, TWO]}


def test_numbers_that_were_tried():
    lines = _number_lines({"number": NUMBER})
    assert lines[0].startswith("causes  chosen by 400 rows")
    assert "2.000 ± 0.300 below the best" in lines[1]
    assert lines[2].endswith("the best <")
    assert _number_lines({}) == []
