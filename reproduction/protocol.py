"""Definitions of an experiment, of one run, and of the outcome of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import BELOW_ONE, NOT_NEGATIVE, or_none
from noisyor.engines.contract import Engine
from noisyor.errors import InvalidSettingError
from noisyor.learning.initialize import Noise

__all__ = [
    "ALL_INITS",
    "MP_PHASE",
    "Choice",
    "Context",
    "Experiment",
    "Outcome",
    "RunSpec",
    "StopRequested",
    "known_datasets",
    "paper_method",
]

_TWO_STAGE = "-two-stage"

Part = Literal["test", "validation"]


def paper_method(method: str) -> str:
    """Return the paper's name for a method: without the schedule, of which the paper has one."""
    return method.removesuffix(_TWO_STAGE)


ALL_INITS = ("paper-1", "paper-2", "paper-3", "paper-4")
"""The paper's four initializations."""

MP_PHASE = "mp_phase_"
"""Prefix of the metrics of a hybrid run at the end of its max-product phase."""


class StopRequested(Exception):  # noqa: N818  not an error: the user asked
    """Training was asked to stop; its checkpoint has been written."""


@dataclass(frozen=True)
class RunSpec:
    """Specification of one run: everything that determines its result.

    ``case`` is the data set or size, such as ``"IMG,8"``. ``part`` says what the run is for:
    ``"test"`` trains on all training rows and is scored on the test rows; ``"validation"`` trains
    on nine tenths of the training rows and is scored on the others, so that the initialization can
    be chosen without the test rows. ``noise`` breaks the symmetry of the start, as in
    `noisyor.initialize`. Two settings differ from the method's own where they are given:
    ``tolerance`` at which the last phase stops a row, ``damping`` of joint max-product.
    """

    experiment: str
    method: str
    case: str
    init: str
    seed: int
    steps: int
    part: Part = "test"
    noise: Noise = "none"
    tolerance: float | None = None
    damping: float | None = None

    @property
    def kind(self) -> str:
        """The method without the schedule of its messages."""
        return paper_method(self.method)

    @property
    def schedule(self) -> Literal["collapsed", "two-stage"]:
        """Schedule of max-product messages, see `noisyor.MaxProduct`."""
        return "two-stage" if self.method.endswith(_TWO_STAGE) else "collapsed"

    @property
    def name(self) -> str:
        """Name of the run, and of its checkpoints."""
        parts = [self.method, self.case, self.init, str(self.steps), f"seed{self.seed}"]
        if self.noise != "none":
            parts.append(self.noise)
        for name in ("tolerance", "damping"):
            if (value := getattr(self, name)) is not None:
                parts.append(f"{name}{value:g}")
        if self.part == "validation":
            parts.append("validation")
        return "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", part) for part in parts)


class Context(NamedTuple):
    """Resources of a run: engine, folder for checkpoints, and a callback for progress.

    ``on_step(done, total)`` is called after every update; it may raise `StopRequested`.
    """

    engine: Engine
    checkpoints: Path
    on_step: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    ``metrics`` by the names of the result files; ``update_seconds`` (n_updates,) wall time of each
    update; ``earlier_seconds`` spent before an interruption; ``settings`` of the method;
    ``arrays`` small ones for figures; ``extra_seconds`` further
    timings by name.
    """

    metrics: dict[str, float]
    update_seconds: FloatArray
    earlier_seconds: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    extra_seconds: dict[str, float] = field(default_factory=dict)


class Choice(NamedTuple):
    """Selection by the user; empty fields select everything.

    ``datasets`` by name; ``sizes`` such as ``"100,20"``; ``n_components``, numbers of causes.
    """

    datasets: Sequence[str] = ()
    sizes: Sequence[str] = ()
    n_components: Sequence[int] = ()


def known_datasets(experiment: str, choice: Choice, known: Collection[str]) -> list[str]:
    """Return the selected data sets after checking that the experiment has each of them."""
    for name in choice.datasets:
        if name not in known:
            raise InvalidSettingError(
                f"{experiment} has no data set {name!r}; there are {', '.join(known)}"
            )
    return list(choice.datasets)


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes
    ----------
    name, title : short name, and one line for people.
    methods : methods of the paper and variants, the default first.
    main_metric : the metric by which the paper chooses the initialization.
    other_inits : starts that the paper's text does not have: variants.
    own_metrics : the same for single methods, by the paper's name of the method.
    metrics : metrics that tables show, in order, with whether larger is better.
    takes : fields of `Choice` that this experiment has a choice of.
    cases : from what the user chose to the list of cases; raises on a choice that does not exist.
    inits : the paper's list for a method.
    steps : the paper's number of updates for a method.
    run : does one run.
    expected_seeds : number of seeds that the paper's protocol has.
    noises : kinds of noise at the start, that of the paper's text first.
    substitutes : cases that replace one of the paper's: shown beside it, without a verdict.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    main_metric: str
    metrics: dict[str, bool]
    takes: tuple[str, ...]
    cases: Callable[[Choice], list[str]]
    inits: Callable[[str], tuple[str, ...]]
    steps: Callable[[str], int]
    run: Callable[[RunSpec, Context], Outcome]
    expected_seeds: int
    noises: tuple[Noise, ...] = ("none",)
    substitutes: dict[str, str] = field(default_factory=dict)
    own_metrics: dict[str, str] = field(default_factory=dict)
    other_inits: tuple[str, ...] = ()

    def choice_metric(self, method: str) -> str:
        """Return the metric by which the start of a method is chosen."""
        return self.own_metrics.get(paper_method(method), self.main_metric)

    def specs(
        self,
        methods: Sequence[str],
        choice: Choice,
        inits: Sequence[str],
        seeds: Sequence[int],
        steps: int | None,
        validation_seeds: int,
        *,
        noises: Sequence[Noise] = (),
        tolerance: float | None = None,
        damping: float | None = None,
    ) -> list[RunSpec]:
        """List all selected runs, test runs before validation runs."""
        methods = methods or self.methods[:1]
        for method in methods:
            if method not in self.methods:
                raise InvalidSettingError(
                    f"{self.name} has no method {method!r}; there are {', '.join(self.methods)}"
                )
        for name, values in choice._asdict().items():
            if values and name not in self.takes:
                raise InvalidSettingError(
                    f"{self.name} takes {' and '.join(self.takes)}, not {name}"
                )
        for noise in noises:
            if noise not in self.noises:
                raise InvalidSettingError(
                    f"{self.name} starts with noise {' or '.join(self.noises)}, got {noise!r}"
                )
        or_none(NOT_NEGATIVE).check("tolerance", tolerance)
        or_none(BELOW_ONE).check("damping", damping)
        if damping is not None and {"vi", "local-vi"} & set(methods):
            raise InvalidSettingError("mean field has no damping")
        cases = self.cases(choice)
        result = []
        parts: list[tuple[Part, Sequence[int]]] = [
            ("test", seeds),
            ("validation", list(seeds)[:validation_seeds]),
        ]
        for part, used in parts:
            for method in methods:
                if part == "validation" and paper_method(method) == "pmp":
                    continue  # nothing to choose
                number = self.steps(method) if steps is None else steps
                starts = product(used, self._inits(method, inits), self._noises(method, noises))
                for case, (seed, init, noise) in product(cases, list(starts)):
                    result.append(
                        RunSpec(
                            *(self.name, method, case, init, seed, number, part),
                            noise=noise,
                            tolerance=tolerance,
                            damping=damping,
                        )
                    )
        return result

    def _noises(self, method: str, asked: Sequence[Noise]) -> Sequence[Noise]:
        return ("none",) if paper_method(method) == "pmp" else asked or self.noises[:1]

    def _inits(self, method: str, asked: Sequence[str]) -> Sequence[str]:
        known = self.inits(method)
        if not asked or paper_method(method) == "pmp":
            return known
        for init in asked:
            if init not in ALL_INITS:
                raise InvalidSettingError(
                    f"no initialization is named {init!r}; there are {', '.join(ALL_INITS)}"
                )
        return asked
