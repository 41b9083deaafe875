from __future__ import annotations

import json

import numpy as np
import pytest

from noisyor.demo.run import N_TRAIN, run_demo
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError
from noisyor.metrics import features_iou, reconstruction_error


def test_the_four_shapes_are_found():
    """The promise of the demo: all shapes, and images it has not seen explained with them."""
    result = run_demo(0, progress=False)
    assert result.features_iou == 1.0
    assert result.n_found == 4
    assert result.test_re_pct == 0.0
    assert result.trivial.reconstruction_error > 20
    assert result.test_elbo > -40
    assert result.trivial.elbo < -180
    assert result.states.sum() == result.data.states[N_TRAIN:].sum()


@pytest.fixture(scope="module")
def short():
    return run_demo(1, algorithm="paper", steps=8, progress=False, engine=get_engine(n_threads=1))


class TestResult:
    def test_the_parts_fit_together(self, short):
        assert short.train_images.shape == (80, 14, 14)
        assert short.test_images.shape == (20, 14, 14)
        assert short.states.shape == (20, 5, 9, 9)
        assert short.reconstruction.shape == (20, 14, 14)
        assert len(short.history.elbo) == short.steps == 8
        assert short.history.evaluations[-1].step == 8
        assert short.history.evaluations[-1].elbo == pytest.approx(short.test_elbo)
        assert short.test_re_pct == reconstruction_error(short.reconstruction, short.test_images)
        assert short.features_iou == features_iou(short.binary_features, short.data.features)
        assert sorted([*short.match.learned, *short.spare_features]) == [0, 1, 2, 3, 4]

    def test_the_noise_is_fixed(self, short):
        np.testing.assert_allclose(short.network.noise_probability, 0.01)

    def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(self, short):
        again = run_demo(
            1, algorithm="paper", steps=8, progress=False, engine=get_engine(n_threads=2)
        )
        assert again.network.theta.tobytes() == short.network.theta.tobytes()
        assert again.metrics() == short.metrics()

    def test_the_record_is_json(self, short):
        record = short.record(12.5)
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert record["seconds"]["total"] == 12.5

    def test_seed(self):
        with pytest.raises(InvalidSettingError, match="seed"):
            run_demo(-1, steps=1)

    def test_algorithm(self):
        with pytest.raises(InvalidSettingError, match="algorithm"):
            run_demo(0, algorithm="magic")
