"""What `noisyor fit` prints: the numbers of causes that were compared, with their errors."""

import numpy as np

import noisyor as nor
from noisyor.cli.main import main
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


def test_unused_causes_are_counted_and_not_listed(tmp_path, capsys):
    rows = np.kron(np.eye(3)[np.random.default_rng(0).integers(3, size=90)], np.ones(4))
    np.save(tmp_path / "rows.npy", rows.astype(np.uint8))
    out = str(tmp_path / "model.safetensors")
    assert main(["fit", str(tmp_path / "rows.npy"), "--components", "5", "--out", out]) == 0
    text = capsys.readouterr().out
    assert "5 causes in 1 layer, 2 of them unused" in text
    assert text.split("likely causes")[1].count("\n  0.") == 3
    model = nor.BooleanMatrixFactorization.load(out)
    assert (model.n_components, model.settings_["n_unused"]) == (5, 2)
