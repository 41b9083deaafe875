"""`noisyor explain`: likely causes of rows or of findings, and what would change them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor._util.validation import COUNT
from noisyor.cli import common
from noisyor.errors import InvalidSettingError

if TYPE_CHECKING:
    from noisyor.data.observations import Observations
    from noisyor.explanation.counterfactual import Counterfactual
    from noisyor.explanation.ranking import CauseRanking
    from noisyor.model.network import Network
    from noisyor.tables import Table

_DEFAULT_ROWS = 10
_FAINT = 0.01
_DRAWS = 1024
"""Draws for the probabilities of unknown columns; many, because there is one row only."""


@click.command()
@common.model_argument
@common.optional_data_argument
@click.option("--rows", metavar="LIST", help="Rows of DATA, such as 0-9 or 0,3,5.  [default: 0-9]")
@click.option("--observe", multiple=True, metavar="NAMES", help="Findings that are present.")
@click.option("--absent", multiple=True, metavar="NAMES", help="Findings that are known absent.")
@click.option(
    "--what-if",
    multiple=True,
    metavar="NAME",
    help="Also show how the causes change if this finding had another state. Repeatable.",
)
@click.option(
    "--odd",
    type=common.Ruled(COUNT),
    metavar="N",
    help="List the N least likely rows of DATA and their most surprising entries.",
)
@common.top_option(5, least=1)
@common.seed_option
@common.threads_option
@common.reading_options
@common.json_option
def explain(
    model: Path,
    data: Path | None,
    rows: str | None,
    observe: tuple[str, ...],
    absent: tuple[str, ...],
    what_if: tuple[str, ...],
    odd: int | None,
    top: int,
    seed: int,
    threads: int | None,
    reading: dict[str, Any],
    as_json: bool,
) -> int:
    """List the most likely causes of rows of DATA, or of findings given by name.

    With --observe and --absent all other findings are unknown. Separate names by commas. For each
    cause the output lists its probability given the row, its prior probability, and the findings
    that it explains with the share due to it. The most likely unknown findings follow.

    Exit code 1: no cause was found for any row.

    \b
    Examples:
      noisyor explain zoo.safetensors zoo.csv --rows 0-2
      noisyor explain clinic.safetensors --observe fever,cough --absent rash
      noisyor explain clinic.safetensors --observe fever --what-if rash
      noisyor explain zoo.safetensors zoo.csv --odd 10
    """
    saved = common.open_model(model, data)
    if (data is None) == (not observe and not absent):
        raise InvalidSettingError(
            "give either DATA with rows to explain, or findings with --observe and --absent"
        )
    if data is None and rows is not None:
        raise InvalidSettingError("--rows chooses rows of DATA, and there is no DATA")
    if odd is not None and (data is None or rows is not None or what_if):
        raise InvalidSettingError("--odd needs DATA, and no --rows or --what-if")

    from noisyor.explanation.counterfactual import what_if as suppose
    from noisyor.explanation.ranking import find_visible, rank_causes

    network = saved.network
    labels, note = ["findings"], ""
    if data is None:
        chosen = _evidence(network, observe, absent)
    else:
        table = common.read_for(saved, data, reading)
        if odd is not None:
            return _print_odd(network, model, table, odd, top, seed, threads, as_json)
        n_rows = table.observations.n_rows
        numbers = list(range(min(n_rows, _DEFAULT_ROWS)))
        if rows is not None:
            numbers = common.row_numbers(rows, n_rows)
        elif n_rows > _DEFAULT_ROWS:
            note = f"{n_rows - _DEFAULT_ROWS:,} more rows: choose with --rows"
        labels, chosen = [_label(table, k) for k in numbers], table.observations.take(numbers)
    supposed = [find_visible(network, name) for name in what_if]
    options: dict[str, Any] = {"seed": seed, "engine": common.engine_with(threads)}
    records, found = [], False
    for number, label in enumerate(labels):
        row = chosen.take([number])
        result = rank_causes(network, row, top=top, **options)
        others = _others(network, row, top, seed, options["engine"])
        changes = [
            change
            for finding in supposed
            for change in suppose(network, row, finding, before=result, **options)
        ]
        found = found or bool(result.best) or result.causes[0].probability >= 0.5
        record = _record(network, label, row, result, others, changes)
        if as_json:
            records.append(record)
        else:
            click.echo(common.printable("\n".join(_text(record))))
    if as_json:
        common.print_json({"model": str(model), "rows": records})
    elif note:
        click.echo(note, err=True)
    return 0 if found else common.NOTHING_FOUND


def _print_odd(
    network: Network,
    model: Path,
    table: Table,
    n: int,
    top: int,
    seed: int,
    threads: int | None,
    as_json: bool,
) -> int:
    """Print the least likely rows, each with its least likely entries."""
    from dataclasses import asdict

    from noisyor.explanation.odd import odd_rows

    engine = common.engine_with(threads)
    found = odd_rows(network, table.observations, n, n_entries=top, seed=seed, engine=engine)
    if as_json:
        records = [{"label": _label(table, odd.row), **asdict(odd)} for odd in found]
        common.print_json({"model": str(model), "odd": records})
        return 0
    lines = []
    for odd in found:
        lines.append(f"{_label(table, odd.row)}: log p {odd.log_p:.2f}")
        for entry in odd.entries:
            state = "present" if entry.value else "absent"
            lines.append(f"  {entry.probability:6.3f}  {entry.name} {state}")
        if not odd.entries:
            lines.append("  no single entry surprises")
    click.echo(common.printable("\n".join(lines)))
    return 0


def _label(table: Table, row: int) -> str:
    """Return the index of a row and its name, if rows have names."""
    return f"row {row}" + (f" ({table.row_names[row]})" if table.row_names is not None else "")


def _evidence(network: Network, observe: tuple[str, ...], absent: tuple[str, ...]) -> Observations:
    from noisyor.explanation.ranking import named_evidence

    known = network.visible_names or ()

    def names(texts: tuple[str, ...]) -> list[str]:
        parts = (
            [text] if text in known else [part.strip() for part in text.split(",")]
            for text in texts
        )
        return [name for part in parts for name in part if name]

    if not names(observe) and not names(absent):
        raise InvalidSettingError("--observe and --absent name no finding")
    return named_evidence(network, names(observe), names(absent))


def _others(
    network: Network, row: Observations, top: int, seed: int, engine: Any
) -> list[tuple[str, float]]:
    """Return the unobserved columns that are most likely present, with their probability."""
    from noisyor.inference.sampling import predict_visible
    from noisyor.model.names import visible_label

    unknown = row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]
    if not len(unknown):
        return []
    found = predict_visible(
        network, row, observed="kept", n_samples=_DRAWS, seed=seed, engine=engine
    )
    chance = found.probability[0, unknown]
    best = (-chance).argsort(kind="stable")[:top]
    return [(visible_label(network, int(unknown[i])), float(chance[i])) for i in best]


def _record(
    network: Network,
    label: str,
    row: Observations,
    result: CauseRanking,
    others: list[tuple[str, float]],
    changes: list[Counterfactual],
) -> dict[str, Any]:
    """Return all that is known about a row, as plain data."""
    from dataclasses import asdict

    from noisyor.model.names import hidden_label, visible_label

    present = [visible_label(network, int(i)) for i in row.columns[row.ptr[0] : row.ptr[1]]]
    return {
        "row": label,
        "present": present,
        "absent": network.n_visible - len(present) - row.n_missing,
        "unknown": row.n_missing,
        "method": result.method,
        "exact": result.exact,
        "log_joint": result.log_joint,
        "best": [hidden_label(network, k) for k in result.best],
        "causes": [asdict(cause) for cause in result.causes],
        "unexplained": list(result.unexplained),
        "likeliest_unknown": [{"name": name, "probability": p} for name, p in others],
        "what_if": [asdict(change) for change in changes],
    }


def _text(record: dict[str, Any]) -> list[str]:
    """Return the lines that describe a row."""
    few, present = common.few, record["present"]
    lines = [
        f"{record['row']}: {few(present) or 'nothing present'}  ({len(present)} present, "
        f"{record['absent']:,} absent, {record['unknown']:,} unknown)",
        f"  best explanation: {' + '.join(record['best']) or 'no cause, noise'}",
    ]
    causes = [cause for cause in record["causes"] if cause["probability"] >= _FAINT]
    if causes:
        lines.append("     now  before  cause")
    else:
        lines.append(f"  no cause with a probability above {_FAINT}")
    for cause in causes:
        error = cause["error"]
        spread = f"  (± {error:.3f})" if error and error >= 0.0005 else ""
        lines.append(
            f"  {cause['probability']:6.3f}  {cause['base']:6.3f}  {cause['name']}{spread}"
        )
        if cause["explains"]:
            parts = [f"{item['name']} {item['share']:.2f}" for item in cause["explains"]]
            lines.append(f"                  explains {few(parts)}")
    if record["unexplained"]:
        lines.append(f"  unexplained: {few(record['unexplained'])}")
    if record["likeliest_unknown"]:
        parts = [f"{it['name']} {it['probability']:.2f}" for it in record["likeliest_unknown"]]
        lines.append(f"  likeliest of what is unknown: {few(parts)}")
    lines.append(f"  {record['method']}")
    for change in record["what_if"]:
        lines.append(f"  if {change['finding']!r} were {change['after']} (now {change['before']}):")
        for shift in change["shifts"]:
            rival = shift["explained_away_by"]
            away = f"  explained away by {rival}" if rival else ""
            lines.append(
                f"    {shift['before']:.3f} -> {shift['after']:.3f}  {shift['name']}{away}"
            )
        if not change["shifts"]:
            lines.append("    nothing changes by more than 0.01")
    return lines
