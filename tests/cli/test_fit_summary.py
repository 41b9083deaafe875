"""What `noisyor fit` prints: the numbers of causes that were compared, with their errors."""

from noisyor.cli.summary import _curve_lines

CURVE = {
    "chosen": 2,
    "n_components": [1, 2],
    "log_p": [-9.0, -7.0],
    "standard_error": [0.1, 0.2],
    "n_rows": 400,
}


def test_sizes_that_were_compared():
    first, one, two = _curve_lines({"n_components_curve": CURVE})
    assert "400 validation rows" in first
    assert "-9.000 ± 0.100" in one
    assert two.endswith("-7.000 ± 0.200 <")
    assert _curve_lines({}) == []
