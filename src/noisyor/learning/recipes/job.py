"""What recipes share: a job with one bar and a limit of time, and where a search is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from noisyor._util.progress import Job
from noisyor.data.observations import Observations
from noisyor.engines.bounded import bounded, compiling_told
from noisyor.engines.contract import Engine, EngineLike
from noisyor.engines.registry import get_engine
from noisyor.learning.checkpoint import SearchFile, search_identity
from noisyor.learning.options import TrainOptions

__all__ = ["SEARCH_ENDING", "Work", "working"]

SEARCH_ENDING = ".search"
"""The state of a search lies beside the checkpoint, under its name and this."""


class Work(NamedTuple):
    """What a recipe works with.

    ``job`` has the bar and the time; ``options`` are those of the training within the job;
    ``engine`` stops when the time is over; ``keeper`` has what was found before, or is None if
    nothing is to be kept.
    """

    job: Job
    options: TrainOptions
    engine: Engine
    keeper: SearchFile | None


@contextmanager
def working(
    options: TrainOptions,
    engine: EngineLike,
    phases: Sequence[str],
    observations: Observations,
    settings: dict[str, object],
) -> Iterator[Work]:
    """A context for the work of a recipe; ``settings`` determine the search, with the seed."""
    job = Job.of(options.progress, phases, options.time_limit)
    runner, keeper = get_engine(engine), None
    if job.is_limited:
        runner = bounded(runner, job.check)
    if options.checkpoint is not None:
        identity = search_identity(observations, {**settings, "seed": int(options.seed)})
        path = f"{options.checkpoint}{SEARCH_ENDING}"
        keeper = SearchFile(path, identity, resume=options.resume)
    with compiling_told(job.note):
        yield Work(job, replace(options, progress=job), runner, keeper)
