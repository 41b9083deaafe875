"""What `learn_factors` is for: description or fewest errors."""

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidSettingError

KINDS = np.where(np.random.default_rng(7).random((4, 12)) < 0.5, 0.8, 0.05)


def one_of_four(n_rows=600, seed=0):
    """Rows of exactly one of four kinds, each with likely columns that others have, too."""
    generator = np.random.default_rng(seed)
    return (generator.random((n_rows, 12)) < KINDS[generator.integers(4, size=n_rows)]).astype(int)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "probability"}, "objective must be 'auto', 'description'"),
        ({"objective": "errors", "init": "paper-3"}, 'needs init="data"'),
    ],
)
def test_wrong_objectives(options, message):
    with pytest.raises(InvalidSettingError, match=message):
        nor.learn_factors(np.eye(3), 2, progress=False, **options)


def test_fewest_errors_keeps_the_factors_that_were_asked_for():
    rows = one_of_four()
    fitted = nor.learn_factors(rows, 4, objective="errors", n_restarts=2, progress=False)
    assert fitted.network.n_hidden == 4
    assert fitted.settings["steps"] == 0
    works = 1.0 - fitted.network.failure_probability
    assert works.shape == (4, 12)
