"""The logger ``noisyor``: progress, compilation, checkpoints and warnings, silent by default."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import noisyor as nor
from noisyor._util import progress
from noisyor._util.progress import Job, progress_bar, warn

X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0)


def test_training_logs_its_progress_and_checkpoints(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    network = nor.initialize(nor.bipartite(4, 2), "paper-3", noise="uniform")
    with caplog.at_level(logging.INFO, logger="noisyor"):
        nor.train(network, X, steps=3, progress=False, checkpoint=tmp_path / "run")
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("train: 1 of 3 steps") for line in lines)
    assert any(line.startswith("train: finished 3 steps") for line in lines)
    assert f"saved the checkpoint {tmp_path / 'run'}" in lines


def test_nothing_is_logged_or_wrapped_unless_asked_for(capsys):
    with progress_bar(2, "train", "steps", False) as bar:
        bar.update(1)
    assert bar.disable
    assert capsys.readouterr().err == ""


def test_notes_and_warnings_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="noisyor"):
        Job(show=False).note("compiling kernel 1")
        with pytest.warns(RuntimeWarning, match="full"):
            warn("the disk is full")
    found = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert found == [(logging.INFO, "compiling kernel 1"), (logging.WARNING, "the disk is full")]


def test_training_without_any_cause_on_warns():
    network = nor.bipartite(4, 2, prior_probability=1e-6, noise_probability=0.5, fixed=["prior"])
    with pytest.warns(UserWarning, match="no cause on"):
        nor.train(network, X, nor.MaxProduct(), steps=20, progress=False)


def test_histories_of_phases_can_be_joined():
    network = nor.bipartite(4, 2)
    run = nor.learning.train_hybrid(
        network, X, mp_steps=4, vi_steps=3, evaluate_every=2, held_out=X[:4], progress=False
    )
    joined = run["mp"].history.followed_by(run["vi"].history)
    assert joined.n_steps == 7
    np.testing.assert_array_equal(joined.elbo[4:], run["vi"].history.elbo)
    assert [point.step for point in joined.evaluations] == [2, 4, 6, 7]
