"""`noisyor fit`: from a data file to a model file, with stops in between.

Checkpoints lie beside the model file and are removed at the end. The same command with ``--resume``
continues a run that was stopped.
"""

from __future__ import annotations

import logging
import math
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from noisyor._util.validation import BELOW_ONE, COUNT, COUNT_OR_ZERO, OPTIONS
from noisyor.cli import common
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables.options import FORMATS, ending_of

if TYPE_CHECKING:
    from noisyor.estimators.base import NoisyOrEstimator
    from noisyor.learning.validation import Validation
    from noisyor.model.network import Network
    from noisyor.tables import ReadOptions, Table

KINDS = ("factors", "topics", "features")


@click.command()
@common.data_argument
@common.out_option(
    "Model file to write.  [default: name of DATA with .safetensors]", metavar="MODEL"
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="What to learn: causes of columns (any table), topics (documents), or features of "
    "images.  [default: depends on DATA]",
)
@common.table_option("n_components", "--components")
@common.table_option("objective")
@click.option(
    "--topics",
    type=common.Ruled(COUNT),
    metavar="N",
    help="Number of topics; short for --kind topics --components N.  [default: a hierarchy]",
)
@common.table_option("n_layers", "--layers")
@common.table_option("feature_shape")
@click.option(
    "--held-out",
    type=common.Ruled(BELOW_ONE, float),
    metavar="SHARE",
    help="Share of the rows to evaluate on.  [default: 0.1, or 0 below 20 rows]",
)
@click.option(
    "--resamples",
    type=common.Ruled(COUNT_OR_ZERO),
    default=0,
    metavar="N",
    help="Learn again from N resamples of the rows, and mark causes that do not recur.",
)
@common.table_option("steps")
@common.table_option("batch_size")
@common.table_option("learning_rate")
@common.seed_option
@common.threads_option
@common.time_limit_option
@click.option("--resume", is_flag=True, help="Continue a run that was stopped, if there is one.")
@common.force_option("Replace MODEL if it exists.")
@common.reading_options
@common.json_option
@common.quiet_option
def fit(
    data: Path,
    out: Path | None,
    kind: str | None,
    topics: int | None,
    held_out: float | None,
    resamples: int,
    seed: int,
    threads: int | None,
    time_limit: float | None,
    resume: bool,
    force: bool,
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> int:
    """Learn a model from DATA and write it to a file.

    DATA is a CSV, TSV, JSON lines, Parquet, .npy, .npz or .mat file, a folder of .txt files, a
    folder of .png images, or a list of baskets (--format baskets). Entries are 0, 1 or missing
    (empty, NA, ?).

    Ctrl-C keeps the best model so far: the same command with --resume continues the run, and with
    --resume --time-limit 1 it writes that model. Exit code 1: the model was written, but no row
    that it was evaluated on has an active cause.

    \b
    Examples:
      noisyor fit zoo.csv --id-column animal --components 8
      noisyor fit mails.jsonl --out mails.safetensors --layers 3 --vocabulary 1000
      noisyor fit mails.jsonl --topics 20
      noisyor fit scans/ --components 5 --feature-shape 6,6 --time-limit 60
      noisyor fit shop.csv --format baskets --out shop.safetensors
    """
    out = out or Path((data.resolve().name.split(".")[0] or "model") + ".safetensors")
    given = {name: value for name, value in settings.items() if value is not None}
    kind = _chosen_kind(kind, topics, given)
    if resamples:
        _check_has_causes(kind, given)
    _check_paths(data, out, force)  # before locking: the lock is a file beside the model

    from noisyor._util.files import locked
    from noisyor.tables import ReadOptions

    options = ReadOptions(**reading)
    began = time.monotonic()
    with locked(out):
        _check_paths(data, out, force)  # again: now nobody else can change them
        if _has_checkpoint(out) and not resume:
            if not force:
                raise InvalidSettingError(
                    f"{out}.checkpoint holds a run that was stopped; the same command with "
                    "--resume continues it, --force begins anew"
                )
            _remove_checkpoints(out)
        try:
            from noisyor.tables.table import read_table

            table = read_table(data, options)
            if sys.stderr.isatty() and not (quiet or as_json):
                _announce_first_checkpoint()
            if time_limit is not None:  # evaluating and writing take some time, too
                time_limit = max(0.9 * time_limit - (time.monotonic() - began), 1e-3)
            of_the_run = {
                "checkpoint": f"{out}.checkpoint",
                "resume": resume,
                "time_limit": time_limit,
                "n_jobs": threads,
                "progress": not (quiet or as_json),
                "random_state": seed,
            }
            fitted = _fit_table(table, kind, given, of_the_run, held_out, resamples)
            _save(fitted, data, out, options, {**given, "held_out": held_out})
            _remove_checkpoints(out)
        except KeyboardInterrupt:
            if _has_checkpoint(out):
                click.echo(
                    f"noisyor: the best so far is kept in {out}.checkpoint*; the same command "
                    "with --resume continues, and with --resume --time-limit 1 writes it",
                    err=True,
                )
            raise
    return _print_summary(fitted, data, out, as_json, quiet)


def _announce_first_checkpoint() -> None:
    """Print once that Ctrl-C loses nothing from now on, when the first checkpoint is written."""
    from noisyor._util.progress import LOG
    from noisyor.learning.state import SAVED

    class Once(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg == SAVED:
                LOG.removeHandler(self)
                click.echo(
                    "stopping is safe from now on: Ctrl-C keeps the best so far, and "
                    "the same command with --resume --time-limit 1 writes it",
                    err=True,
                )

    LOG.addHandler(Once())
    LOG.setLevel(logging.INFO)


def _chosen_kind(kind: str | None, topics: int | None, given: dict[str, Any]) -> str | None:
    """Return the kind of model, None if the data determine it; check that all settings apply."""
    if topics is not None:
        if "n_components" in given or kind not in (None, "topics"):
            raise InvalidSettingError("--topics N is short for --kind topics --components N")
        kind, given["n_components"] = "topics", topics
    if {"n_components", "n_layers"} <= set(given):
        raise InvalidSettingError(
            "--layers learns a hierarchy, --topics and --components learn one layer"
        )
    fitting = [each for each in KINDS if all(each in OPTIONS[name].kinds for name in given)]
    if kind is None and "n_components" in given:  # documents with --components are a table
        fitting = [each for each in fitting if each != "topics"]
    if not fitting or (kind is not None and kind not in fitting):
        raise InvalidSettingError(
            "--objective belongs to factors, --layers to topics, --feature-shape to features; "
            "they cannot be mixed" + (f" with --kind {kind}" if kind else "")
        )
    if kind is None and len(fitting) == 1:
        kind = fitting[0]
    if kind in ("features", "topics") and given.get("n_components") == "auto":
        raise InvalidSettingError(f"--components auto is for factors; {kind} need a number")
    return kind


def _check_has_causes(kind: str | None, settings: Mapping[str, Any]) -> None:
    """Reject resamples for kinds of models that have no causes of columns."""
    if kind == "features":
        raise InvalidSettingError("--resamples compares causes of columns, not features of images")
    if kind == "topics" and "n_components" not in settings:
        raise InvalidSettingError("--resamples needs one layer of topics: --topics N")


def _check_paths(data: Path, out: Path, force: bool) -> None:
    """Reject missing data, and paths occupied by files that noisyor did not create."""
    from noisyor._util.files import check_target
    from noisyor.io.model_file import is_sealed
    from noisyor.learning.state import is_checkpoint

    if not data.exists():
        raise InvalidSettingError(f"{data} does not exist")
    if is_sealed(data):
        raise InvalidSettingError(f"{data} is a model; fit needs the data to learn from")
    common.check_output(out, force=force, inputs=[data])
    if ending_of(out) in {".html", *(end for form in FORMATS.values() for end in form.endings)}:
        raise InvalidSettingError(f"{out}: the name of a model ends in .safetensors")
    for path in _checkpoints(out):
        check_target(path, is_checkpoint, "a run of noisyor")


# ---- a run


def _checkpoints(out: Path) -> tuple[Path, Path]:
    """Return the files beside a model while its run lasts: the states of training and search."""
    return Path(f"{out}.checkpoint"), Path(f"{out}.checkpoint.search")


def _has_checkpoint(out: Path) -> bool:
    """Return whether there is a state to continue from."""
    return any(path.exists() for path in _checkpoints(out))


def _remove_checkpoints(out: Path) -> None:
    for path in _checkpoints(out):
        path.unlink(missing_ok=True)


def _fit_table(
    table: Table,
    asked: str | None,
    given: Mapping[str, Any],
    of_the_run: Mapping[str, Any],
    share: float | None,
    resamples: int,
) -> Fitted:
    """Fit an estimator to a table and evaluate it.

    Parameters
    ----------
    table : the data.
    asked : the kind of model, None if the data determine it.
    given : settings of the user, values of the table of options.
    of_the_run : further settings of the estimator.
    share : share of the rows to hold out, None for a tenth of them if there are twenty.
    resamples : number of resamples by which recurring causes are found.
    """
    from noisyor._util.progress import Job
    from noisyor.engines.context import note_compilation
    from noisyor.estimators.models import BlindDeconvolution, BooleanMatrixFactorization, TopicModel
    from noisyor.io.model_file import check_names
    from noisyor.learning.validation import hold_out, validate
    from noisyor.model.names import named_after

    rows, seed = table.observations, of_the_run["random_state"]
    check_names(rows.column_names)
    kind: Any = asked or _kind_of(table, given)
    if kind == "features":
        _check_images(rows, given)
    if resamples:
        _check_has_causes(kind, given)
    train, held_out = hold_out(rows, share, seed)
    further: dict[str, Any] = {}
    if held_out is not None:
        steps = given.get("steps") or 1000
        further = {"held_out": held_out, "evaluate_every": max(1, steps // 20)}
    estimators: dict[str, type[NoisyOrEstimator]] = {
        "factors": BooleanMatrixFactorization,
        "topics": TopicModel,
        "features": BlindDeconvolution,
    }
    number = {"n_components": "auto"} if kind == "factors" else {}
    model = estimators[kind](**{**number, **given, **of_the_run, "options": further}).fit(train)
    model._describe(named_after(model.network_, rows, kind))
    with note_compilation(Job(of_the_run["progress"]).note):
        engine = common.engine_with(of_the_run["n_jobs"])
        scores = validate(model.network_, train, held_out, engine=engine)
    if resamples:
        model.stability(train, resamples, seed=seed)
    return Fitted(model, kind, table, scores)


def _kind_of(table: Table, settings: Mapping[str, Any]) -> str:
    """Return the kind of model to learn from a table, if the user gave none."""
    if len(table.observations.shape) == 2:
        return "features"
    return "topics" if table.documents and "n_components" not in settings else "factors"


def _check_images(rows: Any, settings: Mapping[str, Any]) -> None:
    if len(rows.shape) != 2:
        raise InvalidDataError(
            "features are learned from images: an array (n, height, width) or a folder of "
            f"PNG files; the rows here have {rows.n_visible} columns"
        )
    if not {"n_components", "feature_shape"} <= set(settings):
        raise InvalidSettingError(
            "images need --components N and --feature-shape HEIGHT,WIDTH "
            "(or --kind factors to ignore where pixels lie)"
        )


def _save(
    fitted: Fitted, data: Path, out: Path, options: ReadOptions, settings: Mapping[str, Any]
) -> None:
    """Write the model with its origin: data, how they were read, settings and scores."""
    from noisyor._util.files import plain, real_path
    from noisyor.io.model_file import TOPIC_WORDS, provenance
    from noisyor.model.names import topic_words

    model, scores, rows = fitted.model, fitted.scores, fitted.table.observations
    prefix = "held_out" if scores.n_held_out else "training"
    metrics = {
        f"{prefix}_log_p": scores.log_p.mean,
        f"{prefix}_log_p_standard_error": scores.log_p.standard_error,
        f"{prefix}_elbo": scores.score.mean,
        f"{prefix}_elbo_standard_error": scores.score.standard_error,
        f"{prefix}_independent": scores.reference.mean,
    }
    metadata = provenance(
        fitted.kind,
        rows,
        settings=plain({**settings, **model.settings_}),
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        curve=model.history_.curve(),
        source=str(data),
    )
    metadata |= {
        "reading": options.to_json(),
        "named": True,
        "documents": fitted.table.documents,
    }
    if "stability" in model.provenance_:
        metadata["stability"] = model.provenance_["stability"]
    if fitted.kind == "topics" and model.network_.n_layers == 1:
        metadata[TOPIC_WORDS] = topic_words(model.network_, rows)
    model.provenance_ = metadata
    model.set_params(options=None)
    model.save(real_path(out))


# ---- the summary

_SHOWN = 8
"""Causes that are listed."""


class Fitted(NamedTuple):
    """A fitted estimator, the kind of model, the data, and the scores on held-out rows."""

    model: NoisyOrEstimator
    kind: Any
    table: Table
    scores: Validation


def _print_summary(fitted: Fitted, data: Path, out: Path, as_json: bool, quiet: bool) -> int:
    """Print a summary of the model; return the exit code, 1 if no cause was found."""
    network, rows, scores = fitted.model.network_, fitted.table.observations, fitted.scores
    stability = fitted.model.provenance_.get("stability")
    if as_json:
        common.print_json(
            {
                "model": str(out),
                "kind": fitted.kind,
                "rows": rows.n_rows,
                "columns": rows.n_visible,
                "hidden": network.n_hidden,
                "layers": network.n_layers,
                "edges": network.n_edges,
                "held_out_rows": scores.n_held_out,
                "log_p": scores.log_p.mean,
                "log_p_standard_error": scores.log_p.standard_error,
                "log_p_exact": scores.log_p.exact,
                "log_p_bound": scores.log_p.bound_mean,
                "elbo": scores.score.mean,
                "elbo_standard_error": scores.score.standard_error,
                "independent": scores.reference.mean,
                "active_causes": scores.n_active,
                "settings": fitted.model.settings_,
                **({} if stability is None else {"stability": stability}),
            }
        )
    elif not quiet:
        page = shlex.quote(str(out.with_suffix(".html")))
        again = f"{shlex.quote(str(out))} {shlex.quote(str(data))}"
        lines = [*_lines(fitted, out), f"next    noisyor report {again} --out {page}"]
        click.echo(common.printable("\n".join(lines)))
    if scores.n_active:
        return 0
    click.echo(
        "noisyor: nothing found: the model explains every row by noise; "
        "either the columns are independent, or the rows are too few to find causes",
        err=True,
    )
    return common.NOTHING_FOUND


def _lines(fitted: Fitted, out: Path) -> list[str]:
    import numpy as np

    from noisyor.model.names import hidden_label

    network, data, scores = fitted.model.network_, fitted.table.observations, fitted.scores
    settings = fitted.model.settings_
    weight, total = data.row_weights, data.total_weight
    seen = total * data.n_visible - weight @ np.diff(data.missing_ptr)
    share = float(weight @ np.diff(data.ptr)) / max(1.0, float(seen))
    rows, columns = (
        f"{size:,} {noun}{'s' * (size != 1)}"
        for size, noun in ((data.n_rows, "row"), (data.n_visible, "column"))
    )
    if data.weights is not None:
        rows += f" that stand for {total:,.10g}"
    where = f"{scores.n_held_out} held-out rows" if scores.n_held_out else "the training rows"
    if len(scores.log_p.per_row) < len(scores.score.per_row):
        where = f"{len(scores.log_p.per_row):,} of {where}"
    lines = [
        f"data    {rows}, {columns}, {100 * share:.1f} % ones"
        + (f", {data.n_missing:,} missing" if data.n_missing else ""),
        *_empty_lines(fitted),
        f"model   {fitted.kind}, {_causes(network, settings)}: {out}",
        *_score_lines(scores, where),
        *_curve_lines(settings),
        *_stability_lines(fitted),
    ]
    if fitted.kind != "features":
        prior, n_used = network.prior_probability, network.n_hidden - settings.get("n_unused", 0)
        lines.append("likely causes, each with its probability:")
        order = sorted(range(network.n_hidden), key=lambda k: -prior[k])[: min(_SHOWN, n_used)]
        found = fitted.model.provenance_.get("stability", {}).get("recurrence", [])
        doubtful = {k: common.recurs(share) for k, share in enumerate(found) if share <= 0.5}
        lines += [
            f"  {prior[k]:.3f}  {hidden_label(network, k)}{doubtful.get(k, '')}" for k in order
        ]
        if n_used > _SHOWN:
            lines.append(f"  ... and {n_used - _SHOWN:,} more: noisyor info {out}")
    return lines


def _empty_lines(fitted: Fitted) -> list[str]:
    """Name the columns without a single 1, which a user may not expect; pixels have no names."""
    import numpy as np

    rows = fitted.table.observations
    empty = np.setdiff1d(np.arange(rows.n_visible), rows.columns).tolist()
    if fitted.kind == "features" or not empty:
        return []
    names = [rows.column_names[j] if rows.column_names else str(j) for j in empty]
    return [f"        columns that are never 1: {common.few(names)}"]


def _score_lines(scores: Validation, where: str) -> list[str]:
    """Compare the model with independent columns, in nats a row; log p first, bounds by name."""
    log_p = scores.log_p
    error = f" ± {log_p.standard_error:.3f}" if len(log_p.per_row) > 1 else ""
    how = "exact" if log_p.exact else "estimated"
    lines = [f"log p   {log_p.mean:.3f}{error} nats a row on {where}, {how}"]
    if not log_p.exact:
        lines.append(f"        {log_p.bound_mean:.3f} at least, by the explanations found")
    return [
        *lines,
        f"        {scores.reference.mean:.3f} if all columns were independent",
        f"        {scores.score.mean:.3f} Elbo of one explanation (paper), a bound on log p",
    ]


def _curve_lines(settings: Mapping[str, Any]) -> list[str]:
    """List the numbers of causes that were compared, and how sure the choice is."""
    curve = settings.get("n_components_curve")
    if not isinstance(curve, dict):
        return []
    lines = [
        f"causes  the fewest within one standard error of the best log p of {curve['n_rows']:,} "
        "validation rows:"
    ]
    for size, log_p, error in zip(
        curve["n_components"], curve["log_p"], curve["standard_error"], strict=True
    ):
        mark = " <" if size == curve["chosen"] else ""
        lines.append(f"  {size:>5}  log p {log_p:.3f} ± {error:.3f}{mark}")
    return lines


def _stability_lines(fitted: Fitted) -> list[str]:
    """Say how many causes were found again in most resamples."""
    found = fitted.model.provenance_.get("stability")
    if found is None:
        return []
    recurs = [share > 0.5 for share in found["recurrence"]]
    return [
        f"recurs  {sum(recurs):,} of {len(recurs):,} causes, in most of {found['n_resamples']:,} "
        "resamples of the rows"
    ]


def _causes(network: Network, settings: Mapping[str, Any]) -> str:
    """Say how many causes there are, in how many layers, and how many of them are unused."""
    layers = f"{network.n_layers} layer{'s' * (network.n_layers > 1)}"
    unused = settings.get("n_unused")
    rest = f", {unused:,} of them unused" if unused else ""
    causes = f"{network.n_hidden:,} cause{'s' * (network.n_hidden > 1)}"
    return f"{causes} in {layers}{rest}"
