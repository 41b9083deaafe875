"""scikit-learn's own checks of estimators; those expected to fail say why.

The checks feed continuous numbers. A threshold makes them binary, as it would for a user.
"""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import noisyor as nor
from noisyor.estimators import NoisyOrImputer


def two_causes(rows):
    return nor.initialize(nor.bipartite(rows.n_visible, 2), noise="uniform")


COMMON = {"steps": 3, "binarize": 0.5, "n_jobs": 1}
ESTIMATORS = [
    nor.BooleanMatrixFactorization(2, **COMMON),
    nor.TopicModel(2, shrink=2, n_parents=1, **COMMON),
    nor.BlindDeconvolution(2, (1, 2), image_shape=(1, -1), **COMMON),
    # Without temperature: samples perturb every row, so repeated rows are not one weighted row.
    nor.NoisyOrNetwork(two_causes, method=nor.MaxProduct(), output="probability", **COMMON),
    NoisyOrImputer(nor.NoisyOrNetwork(two_causes, steps=3, n_jobs=1), binarize=0.5),
]


REPEATED = "the search perturbs every row of a small table, and the check repeats and shuffles rows"


def checks():
    for estimator in ESTIMATORS:
        for _, check in estimator_checks_generator(estimator, legacy=True):
            kind, name = type(estimator).__name__, check.func.__name__
            marks = []
            if kind == "BooleanMatrixFactorization" and "sample_weight_equivalence" in name:
                marks = [pytest.mark.xfail(reason=REPEATED, strict=True)]
            yield pytest.param(estimator, check, id=f"{kind}-{name}", marks=marks)


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_check(estimator, check):
    check(estimator)
