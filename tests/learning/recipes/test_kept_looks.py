"""A stop inside the recipe for probability: the best so far is on disk, and the run goes on."""

import numpy as np
import pytest

import noisyor as nor
from noisyor._util.progress import Job
from noisyor.learning.checkpoint import SearchFile
from noisyor.learning.recipes import density, density_race

GENERATOR = np.random.default_rng(0)
KINDS = np.where(GENERATOR.random((2, 4, 8)) < 0.4, 0.9, 0.05)
# Rows are of one of four kinds in two respects.
CHANCE = [1.0 - kinds[GENERATOR.integers(4, size=300)] for kinds in KINDS]
ROWS = (GENERATOR.random((300, 8)) > CHANCE[0] * CHANCE[1]).astype(np.uint8)


@pytest.fixture(autouse=True)
def short_race(monkeypatch):
    monkeypatch.setattr(density_race, "_LOOKS", (3, 6))
    monkeypatch.setattr(density_race, "_MORE", 3)


class Stopping(SearchFile):
    """Ctrl-C right after something was kept for the n-th time."""

    left = 0

    def save(self, name, arrays):
        super().save(name, arrays)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def learn(keeper, n_components, progress=False):
    return density.learn_density(
        ROWS, n_components, max_rounds=12, progress=progress, keeper=keeper
    )


@pytest.mark.parametrize("n_components", [6, "auto"])
def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(tmp_path, n_components):
    whole = learn(None, n_components)
    path, n_stops = tmp_path / "kept", 0
    while True:
        keeper = Stopping(path, "rows", resume=n_stops > 0)
        keeper.left = 1 + n_stops % 2  # the number of things that every attempt adds
        try:
            again = learn(keeper, n_components)
            break
        except KeyboardInterrupt:
            n_stops += 1
    assert n_stops >= 3
    assert np.array_equal(again.network.theta, whole.network.theta)
    assert again.settings == whole.settings
    assert again.history.curve() == whole.history.curve()


def test_without_further_time_the_best_so_far_is_there(tmp_path):
    keeper = Stopping(tmp_path / "kept", "rows", resume=False)
    keeper.left = 4  # a mixture for each size, and one look
    with pytest.raises(KeyboardInterrupt):
        learn(keeper, 6)
    job = Job(["mixture"], show=False, time_limit=1e-9)
    fitted = learn(SearchFile(tmp_path / "kept", "rows", resume=True), 6, job)
    assert fitted.settings["tried"][0]["sets"] == [6]
    assert len(fitted.settings["tried"]) > 1
    assert nor.estimate_evidence(fitted.network, ROWS).mean > -8 * np.log(2) + 0.5


def test_what_belongs_to_other_rows_is_refused(tmp_path):
    keeper = SearchFile(tmp_path / "kept", "rows", resume=False)
    learn(keeper, 6)
    with pytest.raises(nor.errors.CheckpointError, match="not one of these data"):
        density.learn_density(ROWS[:, :5], 6, max_rounds=12, progress=False, keeper=keeper)
