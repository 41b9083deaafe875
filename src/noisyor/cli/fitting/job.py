"""From a data file to a model file: what `fit` and `resume` run, with its plan on disk.

The plan lies beside the checkpoint, so that a run that was stopped at any moment can go on.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from noisyor._util.atomic import write_atomically
from noisyor._util.json import plain
from noisyor._util.kinds import Kind
from noisyor._util.paths import check_target, real_path
from noisyor._util.progress import Job
from noisyor._util.validation import (
    BELOW_ONE,
    COUNT,
    COUNT_OR_AUTO,
    PATH,
    POSITIVE,
    TEXT,
    Rule,
    check_seed,
    check_settings,
    choice,
    count,
    or_none,
)
from noisyor.data.observations import Observations
from noisyor.engines.bounded import compiling_told
from noisyor.engines.contract import EngineLike
from noisyor.errors import CheckpointError, InvalidDataError, InvalidSettingError, ModelFileError
from noisyor.estimators.persistence import method_of
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.io.model_file import load_model, save_network
from noisyor.io.provenance import TOPIC_WORDS, kind_of, mapping_in, provenance
from noisyor.learning.checkpoint import is_checkpoint
from noisyor.learning.options import TrainOptions
from noisyor.learning.recipes import (
    SEARCH_ENDING,
    FitResult,
    learn_factors,
    learn_features,
    learn_network,
    learn_topics,
)
from noisyor.learning.validation import Validation, hold_out, validate
from noisyor.model.names import named_after, topic_words
from noisyor.tables import ReadOptions, Table
from noisyor.tables.options import options_like
from noisyor.tables.read import read_table

__all__ = ["Fitted", "Plan", "more_steps", "read_plan", "run"]

PLAN_FORMAT = "noisyor-fit-plan-1"
_LARGEST_PLAN = 2**20
_MAPPING = Rule(lambda value: isinstance(value, dict), "a mapping")
_PLAN_RULES = {
    "data": PATH,
    "out": PATH,
    "kind": or_none(choice("factors", "topics", "features")),
    "reading": _MAPPING,
    "structure": _MAPPING,
    "training": _MAPPING,
    "held_out": or_none(BELOW_ONE),
}
_STRUCTURE_RULES = {
    "objective": choice("auto", "mdl", "likelihood", "hamming"),
    "n_components": COUNT_OR_AUTO,
    "n_layers": count(2),
    "feature_shape": Rule(
        lambda value: (
            isinstance(value, list | tuple) and len(value) == 2 and all(map(COUNT.valid, value))
        ),
        "height and width",
    ),
}
_TRAINING_RULES = {"steps": COUNT, "batch_size": COUNT, "learning_rate": POSITIVE, "init": TEXT}


@dataclass(frozen=True)
class Plan:
    """Everything that determines a run. All of it is plain JSON.

    ``data``, ``out`` and ``checkpoint`` are paths; ``reading`` is for `ReadOptions.from_json`;
    ``structure`` the arguments of the learning function but the data, ``training`` its options.
    ``held_out`` is a share of the rows, None for a tenth of them if there are twenty.
    """

    data: str
    out: str
    checkpoint: str
    kind: Literal["factors", "topics", "features"] | None
    reading: dict[str, Any]
    structure: dict[str, Any]
    training: dict[str, Any]
    held_out: float | None
    seed: int

    def path(self) -> Path:
        """Where the plan is kept: beside the checkpoint."""
        return Path(self.checkpoint + ".json")

    def write(self) -> None:
        """Keep the plan, with paths that hold from any folder."""
        paths = {name: str(Path(getattr(self, name)).absolute()) for name in ("data", "out")}
        paths["checkpoint"] = str(Path(self.checkpoint).absolute())
        record = {"format": PLAN_FORMAT, **asdict(self), **paths}
        write_atomically(self.path(), (json.dumps(record, indent=1) + "\n").encode())

    def search_path(self) -> Path:
        """Where the state of the search is kept."""
        return Path(self.checkpoint + SEARCH_ENDING)

    def is_kept(self) -> bool:
        """Whether there is something to go on from."""
        return Path(self.checkpoint).exists() or self.search_path().exists()

    def forget(self) -> None:
        """Remove the plan, the checkpoint and the state of the search."""
        for path in (self.path(), Path(self.checkpoint), self.search_path()):
            path.unlink(missing_ok=True)


def read_plan(path: Path) -> Plan:
    """A plan that `Plan.write` kept, with every entry checked.

    The checkpoint is the one that the plan lies beside, wherever the plan says it was; ``out`` is
    what the plan says, and the caller decides whether to believe it.
    """
    try:
        if path.stat().st_size > _LARGEST_PLAN:
            raise ValueError("too large")
        record = json.loads(path.read_bytes())
        if record.pop("format") != PLAN_FORMAT:
            raise ValueError("another version")
        plan = Plan(**{**record, "checkpoint": str(path).removesuffix(".json")})
        check_settings(plan, _PLAN_RULES)
        _check_entries(plan.structure, _STRUCTURE_RULES)
        _check_entries(plan.training, _TRAINING_RULES)
        check_seed(plan.seed)
        ReadOptions.from_json(plan.reading)
        return plan
    except InvalidSettingError as error:
        raise CheckpointError(f"{path} is not the plan of a run, or damaged ({error})") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is not the plan of a run, or damaged") from error


def check_foreign(plan: Plan) -> None:
    """Refuse a run whose checkpoint is a file that no run of ours wrote."""
    for path in (Path(plan.checkpoint), plan.search_path()):
        check_target(path, is_checkpoint, "a run of noisyor")


def _check_entries(given: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    for name, value in given.items():
        if name not in rules:
            raise InvalidSettingError(f"there is no setting {reprlib.repr(name)}")
        rules[name].check(name, value)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A finished run: the table, the learned network with its record, and how good it is."""

    table: Table
    kind: Kind
    learned: FitResult
    judgement: Validation


def read_rows(plan: Plan) -> Table:
    """The data of a plan; images are checked against the features that are asked for."""
    table = read_table(plan.data, ReadOptions.from_json(plan.reading))
    if (plan.kind or _kind_of(table, plan.structure)) == "features":
        _check_images(table.observations, plan.structure)
    return table


def run(
    plan: Plan,
    table: Table,
    *,
    resume: bool,
    engine: EngineLike,
    progress: bool | None,
    time_limit: float | None = None,
) -> Fitted:
    """Learn from the table, evaluate and save; plan and checkpoint are removed at the end."""
    kind = plan.kind or _kind_of(table, plan.structure)
    train, held = hold_out(table.observations, plan.held_out, plan.seed)
    plan.write()
    options: dict[str, Any] = {
        **plan.training,
        "seed": plan.seed,
        "checkpoint": plan.checkpoint,
        "resume": resume,
        "engine": engine,
        "progress": progress,
        "time_limit": time_limit,
    }
    if held is not None:
        options["held_out"] = held
        options["evaluate_every"] = max(1, int(plan.training.get("steps", 1000)) // 20)
    try:
        learned = _learn(kind, train, plan.structure, options)
    except KeyboardInterrupt:
        raise
    except BaseException:
        if not plan.is_kept():
            plan.path().unlink(missing_ok=True)
        raise
    fitted = _judged(table, kind, _named(learned, table, kind), train, held, engine, progress)
    _save(plan, fitted)
    plan.forget()
    return fitted


def more_steps(
    model: Path,
    out: Path,
    data: Path | None,
    steps: int | None,
    *,
    engine: EngineLike,
    progress: bool | None,
    time_limit: float | None = None,
) -> Fitted:
    """Go on training a finished model on its own data, or on others of the same columns."""
    network, metadata = load_model(model)
    source = _source(model, metadata) if data is None else data
    settings = mapping_in(metadata, "settings")
    seed, share = settings.get("seed", 0), settings.get("held_out")
    try:
        stored = ReadOptions.from_json({**mapping_in(metadata, "reading")})
        if data is not None:
            stored = options_like(metadata, data)
        method = _method(mapping_in(settings, "method"))
        options = TrainOptions(
            steps=settings.get("steps", 1000) if steps is None else steps,
            batch_size=settings.get("batch_size", 100),
            learning_rate=_last_rate(settings),
            **{
                name: settings[name]
                for name in ("parameterization", "smoothing")
                if name in settings
            },
            seed=seed,
            progress=progress,
            time_limit=time_limit,
        )
        or_none(BELOW_ONE).check("held_out", share)
    except InvalidSettingError as error:
        raise ModelFileError(
            f"{model}: how it was learned makes no sense ({error}); it cannot be trained further"
        ) from error
    table = read_table(source, stored, network)
    train, held = hold_out(table.observations, share, seed)
    learned = learn_network(
        network, train, options=options, method=method, held_out=held, engine=engine
    )
    kind = kind_of(metadata)
    if kind in ("factors", "topics") and metadata.get("named") is True:
        learned = _named(learned, table, kind)
    fitted = _judged(table, kind, learned, train, held, engine, progress)
    plan = Plan(str(source), str(out), "", None, stored.to_json(), {}, {}, share, seed)
    _save(plan, fitted, earlier=settings)
    return fitted


def _last_rate(settings: Mapping[str, Any]) -> Any:
    """The rate at which training ended: starting over with large steps would undo its end."""
    rate = settings.get("final_learning_rate")
    return settings.get("learning_rate", 0.01) if rate is None else rate


def _kind_of(table: Table, structure: dict[str, Any]) -> Literal["factors", "topics", "features"]:
    """What the data are, where the user did not say; topics have no number of causes."""
    if len(table.observations.shape) == 2:
        return "features"
    return "topics" if table.documents and "n_components" not in structure else "factors"


def _learn(
    kind: Kind, train: Observations, structure: dict[str, Any], options: dict[str, Any]
) -> FitResult:
    if kind == "topics":
        return learn_topics(train, **structure, **options)
    if kind == "features":
        images = train.to_dense().reshape(train.n_rows, *train.shape)
        shape = tuple(structure["feature_shape"])
        return learn_features(images, **{**structure, "feature_shape": shape}, **options)
    return learn_factors(train, **{"n_components": "auto", **structure}, **options)


def _check_images(data: Observations, structure: dict[str, Any]) -> None:
    if len(data.shape) != 2:
        raise InvalidDataError(
            "features are learned from images: an array (n, height, width) or a folder of "
            f"PNG files; the rows here have {data.n_visible} columns"
        )
    if not {"n_components", "feature_shape"} <= set(structure):
        raise InvalidSettingError(
            "images need --components N and --feature-shape HEIGHT,WIDTH "
            "(or --kind factors to ignore where pixels lie)"
        )


def _named(learned: FitResult, table: Table, kind: Kind) -> FitResult:
    return replace(learned, network=named_after(learned.network, table.observations, kind))


def _judged(
    table: Table,
    kind: Kind,
    learned: FitResult,
    train: Observations,
    held: Observations | None,
    engine: EngineLike,
    progress: bool | None,
) -> Fitted:
    with compiling_told(Job(["judge"], progress).note):
        judgement = validate(learned.network, train, held, engine=engine)
    return Fitted(table, kind, learned, judgement)


def _save(plan: Plan, fitted: Fitted, earlier: Mapping[str, Any] | None = None) -> None:
    judgement = fitted.judgement
    prefix = "held_out" if judgement.n_held_out else "training"
    metrics = {
        f"{prefix}_log_p": judgement.log_p.mean,
        f"{prefix}_log_p_standard_error": judgement.log_p.standard_error,
        f"{prefix}_elbo": judgement.score.mean,
        f"{prefix}_elbo_standard_error": judgement.score.standard_error,
        f"{prefix}_independent": judgement.reference.mean,
    }
    settings = {
        **fitted.learned.settings,
        **plain(plan.structure),
        "held_out": plan.held_out,
        "seed": plan.seed,
    }
    if earlier is not None:
        settings["earlier"] = {"steps": earlier.get("steps"), "earlier": earlier.get("earlier")}
    metadata = provenance(
        fitted.kind,
        fitted.table.observations,
        settings=settings,
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        curve=fitted.learned.history.curve(),
        source=plan.data,
    )
    metadata |= {"reading": plan.reading, "named": True, "documents": fitted.table.documents}
    network = fitted.learned.network
    if fitted.kind == "topics" and network.n_layers == 1:
        metadata[TOPIC_WORDS] = topic_words(network, fitted.table.observations)
    save_network(real_path(Path(plan.out)), network, metadata=metadata)


def _source(model: Path, metadata: dict[str, Any]) -> Path:
    named = mapping_in(metadata, "data").get("source")
    if isinstance(named, str) and PATH.valid(named):
        for place in (Path(named), model.parent / named, model.parent / Path(named).name):
            if place.exists():
                return place
    raise InvalidDataError(
        f"the data that {model} was learned from ({reprlib.repr(named)}) are not found; "
        "give them with --data"
    )


def _method(settings: Mapping[str, Any]) -> Method:
    method = method_of({"method": "max-product", **settings})
    if not isinstance(method, MaxProduct):
        raise InvalidSettingError("only max-product goes on from here, not mean-field")
    return method
