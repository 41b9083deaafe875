"""The noise of the kernels is that of the contract, bit by bit."""

import numpy as np
import pytest

pytest.importorskip("warp", reason="Warp is not installed: pip install 'noisyor[gpu]'")

import warp as wp

from noisyor.engines import noise
from noisyor.engines.warp.engine import find_device, launch, to_device
from noisyor.engines.warp.kernels import combine, logistic, mix, offset, uniform

N = 500


@wp.kernel(enable_backward=False)
def functions(
    keys: wp.array(dtype=wp.uint64),
    mixed: wp.array(dtype=wp.uint64),
    combined: wp.array(dtype=wp.uint64),
    in_interval: wp.array(dtype=wp.float64),
    perturbation: wp.array(dtype=wp.float64),
    places: wp.array(dtype=wp.int32),
):
    i = wp.tid()
    mixed[i] = mix(keys[i])
    combined[i] = combine(keys[i], wp.uint64(i))
    in_interval[i] = uniform(keys[i])
    perturbation[i] = logistic(keys[i])
    places[i] = offset(2, 3, i, 500)


def test_kernels_have_the_same_noise():
    find_device("cpu")
    keys = np.random.default_rng(0).integers(0, 2**64, N, dtype=np.uint64)
    keys[0] = 0
    kinds = (wp.uint64, wp.uint64, wp.float64, wp.float64, wp.int32)
    results = [wp.empty(N, dtype=kind, device="cpu") for kind in kinds]
    launch(functions, N, [to_device(keys, wp.uint64, "cpu"), *results], "cpu")
    mixed, combined, in_interval, perturbation, places = (found.numpy() for found in results)
    np.testing.assert_array_equal(mixed, noise.mix(keys))
    np.testing.assert_array_equal(combined, noise.combine(keys, np.arange(N)))
    np.testing.assert_array_equal(in_interval, noise.uniform(keys))
    np.testing.assert_allclose(perturbation, noise.logistic(keys), rtol=1e-14)
    np.testing.assert_array_equal(places, 3 * np.arange(N) + 2)  # a line in one piece
