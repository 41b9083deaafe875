"""The page of the reproduction: verdicts, differences with their causes, times, what is missing.

``python -m reproduction page`` writes it from the record, and the appendix with every run beside
it (`reproduction.appendix`).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from reproduction import NAMES, experiment
from reproduction.appendix import of_experiment, table
from reproduction.comparison import (
    EFFECT_OF_SHARE,
    LIMIT,
    TOO_FEW,
    Entry,
    chance_beyond_limit,
    entries,
    is_apart,
    order,
    runs_needed,
    stat,
    verdict_lines,
)
from reproduction.figures import spare_features
from reproduction.one_layer import NOISE_PROBABILITY
from reproduction.page_text import (
    CAUSES,
    INTRODUCTION,
    LIMITS,
    QUOTED,
    RULES,
    UPDATE_TIMES,
    bullets,
    wrapped,
)
from reproduction.paper import CITATION, EDGES, PaperCell, paper_cells
from reproduction.protocol import paper_method
from reproduction.record import FOLDER, Record, Run, with_mp_phase
from reproduction.terminal import LABELS, difference, number, of_paper, seeds, with_error

__all__ = ["cause_of", "document", "is_quoted", "verdict_counts"]

RESULTS = FOLDER.parent / "results"
KINDS = ("match", "better", "worse", TOO_FEW)

Tables = dict[str, list[Entry]]


def document(record: Path = FOLDER, results: Path = RESULTS) -> str:
    """Write the page as Markdown.

    Parameters
    ----------
    record : folder with the record of the runs.
    results : folder with the results of benchmarks.
    """
    runs = Record(record).runs()
    tables = {name: entries(experiment(name), of_experiment(runs, name)) for name in NAMES}
    rules = {
        "brackets": _brackets([line for lines in tables.values() for line in lines]),
        "limit": f"{LIMIT:g}",
        "of_ten": runs_needed(10),
        "of_fifty": runs_needed(50),
        "of_shares": runs_needed(50, EFFECT_OF_SHARE),
    }
    parts = [
        "# Reproduction of the paper",
        *(wrapped(paragraph.format(citation=CITATION)) for paragraph in INTRODUCTION),
        _verdicts(tables),
        _differences(tables),
        _causes(runs, tables, results),
        _claims(runs, tables),
        "## How a number is judged",
        bullets(rule.format(**rules) for rule in RULES),
        _limits(runs, results),
        _substitutes(tables["text"]),
        _update_times(results / "paper_update_times.json"),
        _missing(runs, tables),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def is_quoted(name: str, cell: PaperCell) -> bool:
    """Return whether the paper quotes a number from elsewhere."""
    return name == "overparam" and cell.method == "vi"


def verdict_counts(tables: Tables) -> dict[str, Counter[str]]:
    """Count the verdicts by experiment, each number of the paper once; ``no run`` is the rest."""
    counts = {}
    for name, lines in tables.items():
        chosen = verdict_lines(lines)
        found = Counter(str(line.comparison.verdict) for line in chosen.values())
        found["no run"] = sum(cell not in chosen for cell in _judged(name))
        counts[name] = found
    return counts


def _judged(name: str) -> list[PaperCell]:
    """Return the paper's own numbers on an experiment, without times."""
    cells = paper_cells(name)
    return [cell for cell in cells if cell.metric != "update_median" and not is_quoted(name, cell)]


def _verdicts(tables: Tables) -> str:
    counts = verdict_counts(tables)
    kinds = (*KINDS, "no run")
    rows = [
        [experiment(name).title, sum(found.values()), *(found[kind] for kind in kinds)]
        for name, found in counts.items()
    ]
    total: Counter[str] = sum(counts.values(), Counter())
    rows.append(["all", sum(total.values()), *(total[kind] for kind in kinds)])
    judged = sum(total[kind] for kind in KINDS)
    quoted = sum(is_quoted(name, cell) for name in NAMES for cell in paper_cells(name))
    text = (
        f"Of {judged} compared numbers about {chance_beyond_limit() * judged:.0f} would be "
        "*better* or *worse* by chance if nothing differed. " + QUOTED.format(quoted=quoted)
    )
    columns = ("", ">numbers", *(f">{kind}" for kind in KINDS), ">no run")
    return f"## Verdicts\n\n{table(columns, rows)}\n\n{wrapped(text)}"


# ---- the differences and their causes


def cause_of(name: str, method: str) -> str:
    """Return the key in `CAUSES` of a difference, by experiment and the paper's method."""
    if name == "tiny20":
        return "idle" if method == "vi" else "start"
    if name == "text":
        return "text"
    if method == "vi":
        return "phantom"
    return "pmp" if method == "pmp" else "noise"


def _differences(tables: Tables) -> str:
    """List the numbers that are better or worse than the paper's, each with its cause."""
    rows = []
    for name, lines in tables.items():
        for line in verdict_lines(lines).values():
            if line.comparison.verdict not in ("better", "worse"):
                continue
            group, method = line.group, paper_method(line.group.method)
            rows.append(
                (
                    group.case,
                    f"{method}, {group.steps:,}",
                    LABELS[line.metric],
                    line.ours.n_runs,
                    with_error(line.ours.mean, line.ours.error),
                    of_paper(line.paper),
                    difference(line),
                    line.comparison.verdict,
                    CAUSES[cause_of(name, method)][0],
                )
            )
    if not rows:
        return ""
    text = (
        f"The {len(rows)} numbers that differ from the paper's. *diff.* is in standard errors "
        "of the difference, positive where ours is better; for shares it is p."
    )
    columns = (
        *("case", "method, steps", "metric", ">runs", ">ours", ">paper", ">diff.", "verdict"),
        "cause",
    )
    return f"## Numbers that differ\n\n{wrapped(text)}\n\n{table(columns, rows)}"


def _causes(runs: Sequence[Run], tables: Tables, results: Path) -> str:
    """Explain every cause, with its evidence from the record."""
    tiny20 = of_experiment(runs, "tiny20")
    evidence: dict[str, Callable[[], list[str]]] = {
        "noise": lambda: [*_noises(tables), *_noise_parts(tables, results)],
        "start": lambda: [_hybrid_start(tables), *_starts(tiny20, tables)],
        "idle": lambda: _idle(tiny20),
        "phantom": lambda: [_below_the_paper(tables)],
        "pmp": lambda: [_joint_sizes(tables), _arithmetic(results), *_joint(tables)],
        "text": lambda: [
            _text_gaps(tables, results),
            *_trials(results / "text_local_vi.json"),
            *_fingerprints(tables["text"]),
        ],
    }
    parts, numbers = ["## Causes"], _numbers()
    for key, (title, where, text) in CAUSES.items():
        parts += [f"### {title}", wrapped(f"*{where}* " + text.format(**numbers)), *evidence[key]()]
    return "\n\n".join(part for part in parts if part)


def _numbers() -> dict[str, float]:
    """Return what the explanations quote: bounds of a model without causes."""
    n, r, noise = 200, 80, NOISE_PROBABILITY
    blank = n * (0.25 * math.log(noise) + 0.75 * math.log1p(-noise))
    charge = -math.log1p(-noise) * r**2
    return {
        "blank": blank,
        "charge": charge,
        "printed": blank - charge,
    }


def _cost(runs: Sequence[Run]) -> str:
    """Format the shortest time of a run of each case, on one thread of a machine with other work.

    If cases differ, the least and the most.
    """
    times: dict[str, float] = {}
    for run in runs:
        seconds = run["seconds"]["total"]
        if seconds > 0:
            times[run["case"]] = min(seconds, times.get(run["case"], math.inf))
    if not times:
        return "not measured"
    least, most = (
        f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        for seconds in (min(times.values()), max(times.values()))
    )
    return least if least == most else f"{least} to {most}"


def _noises(tables: Tables) -> list[str]:
    """Tabulate max-product by the noise at the start: factorizations, then overparametrization."""
    parts = []
    for name, metrics in (
        ("bmf", ("test_elbo", "test_re_pct")),
        ("overparam", ("recovered", "full_recovery_pct")),
    ):
        rows = _noise_rows(tables[name], metrics)
        if rows:
            columns = ["", *(f"{LABELS[m]}: {of}" for m in metrics for of in ("text", "software"))]
            columns[1:] = [f">{column}" for column in columns[1:]]
            for place, metric in enumerate(metrics):
                columns.insert(1 + 3 * place + 2, f">paper, {LABELS[metric]}")
            parts.append(table(columns, rows))
    if parts:
        text = (
            "Mean and, in brackets, standard errors from the paper (p for shares), positive where "
            "ours is better; then start and runs. *text* is N(0, 0.1), *software* is uniform."
        )
        parts = [_noise_counts(tables), _same_start(tables["overparam"]), wrapped(text), *parts]
    return parts


def _by_noise(lines: Sequence[Entry]) -> dict[tuple[str, str, str], Entry]:
    """Return the lines of max-product from the best starts by case, noise and metric."""
    found: dict[tuple[str, str, str], Entry] = {}
    for line in lines:
        group = line.group
        right = (group.method, group.tolerance, group.damping) == ("mp-two-stage", None, None)
        if right and "test" in group.chosen and line.paper is not None:
            found[group.case, group.noise, line.metric] = line
    return found


def _differs(line: Entry) -> bool:
    """Return whether a number is further from the paper's than the rule allows."""
    difference, _, p = line.comparison
    assert difference is not None  # variants have a difference, but no verdict
    return is_apart(difference, p)


def _noise_counts(tables: Tables) -> str:
    """Count the numbers that differ from the paper's with each noise, of those run with both."""
    pairs = []
    for name in ("bmf", "overparam"):
        found = _by_noise(tables[name])
        for (case, noise, metric), line in found.items():
            text = found.get((case, "gaussian", metric))
            if noise == "uniform" and text is not None:
                pairs.append((text, line))
    if not pairs:
        return ""
    far = [line for _, line in pairs if _differs(line)]
    listed = "; ".join(f"{LABELS[line.metric]} of {line.group.case}" for line in far)
    return wrapped(
        f"Of {len(pairs)} numbers that were run with both noises, "
        f"{sum(_differs(line) for line, _ in pairs)} differ from the paper's with the noise of the "
        f"text, and {len(far)} with the noise of the software{f' ({listed})' * bool(far)}. By "
        "chance about "
        f"{chance_beyond_limit() * len(pairs):.0f} would differ. The paper's runs probably had the "
        "noise of its software."
    )


def _same_start(lines: Sequence[Entry]) -> str:
    """Compare full recoveries of the two noises from the same start."""
    found: dict[tuple[str, str], dict[str, Entry]] = {}
    for line in lines:
        group = line.group
        right = (group.method, group.tolerance, group.damping) == ("mp-two-stage", None, None)
        if right and line.metric == "full_recovery_pct":
            found.setdefault((group.case, group.init), {})[group.noise] = line
    shown = []
    for (case, init), own in found.items():
        if {"gaussian", "uniform"} <= set(own):
            text, software = (own[noise].ours for noise in ("gaussian", "uniform"))
            shown.append(
                f"{case} from {init} {text.mean:.0f} ({text.n_runs}) and {software.mean:.0f} "
                f"({software.n_runs})"
            )
    if not shown:
        return ""
    return wrapped(
        "Most columns of the tables differ in the start as well. From the same start, full "
        "recoveries in percent (runs) with the noise of the text and of the software: "
        f"{'; '.join(shown)}."
    )


def _noise_parts(tables: Tables, results: Path) -> list[str]:
    """Tabulate full recoveries from one start by the noise of failures and that of priors."""
    path = results / "overparam_noise.json"
    if not path.is_file():
        return []
    recorded: dict[tuple[str, str], Entry] = {}
    for line in tables["overparam"]:
        group = line.group
        right = (group.method, group.init, group.tolerance) == ("mp-two-stage", "paper-4", None)
        if right and line.metric == "full_recovery_pct":
            recorded[group.case, group.noise] = line
    rows = []
    for case, kinds in json.loads(path.read_text())["recovered"].items():
        between = [list(kinds[kind].values()) for kind in _NOISES_BETWEEN]
        shares = [f"{100 * mine.count(8) / len(mine):.0f}, {len(mine)}" for mine in between]
        ends = [recorded.get((case, noise)) for noise in ("gaussian", "uniform")]
        first, last = ("–" if e is None else f"{e.ours.mean:.0f}, {e.ours.n_runs}" for e in ends)
        rows.append((case, first, *shares, last))
    text = (
        "Full recoveries in percent, and runs, from the same start, paper-4, with normal noise on "
        "both, on the failures, on the priors (failures uniform), and on neither (failures "
        "uniform). The first and last column are from the record, the others from `python "
        "benchmarks/overparam_noise.py`. With noise on the failures only, the seeds that fail "
        "are among those that fail with noise on both; with noise on the priors only, none fails."
    )
    columns = ("", ">both: text", ">failures", ">priors", ">neither: software")
    return [wrapped(text), table(columns, rows)]


_NOISES_BETWEEN = ("failures gaussian, priors none", "failures uniform, priors gaussian")


def _noise_rows(lines: Sequence[Entry], metrics: Sequence[str]) -> list[list[str]]:
    """Return a row for each case that was run with both noises, from the best start of each."""
    found = _by_noise(lines)
    rows = []
    for case in dict.fromkeys(key[0] for key in found):
        if (case, "uniform", metrics[0]) not in found:
            continue
        row = [case]
        for metric in metrics:
            own = [found.get((case, noise, metric)) for noise in ("gaussian", "uniform")]
            row += [_noise_cell(line) for line in own]
            row.append(of_paper(next(line.paper for line in own if line is not None)))
        rows.append(row)
    return rows


def _noise_cell(line: Entry | None) -> str:
    if line is None:
        return "–"
    return f"{number(line.ours.mean)} ({difference(line)}), {line.group.init}, {line.ours.n_runs}"


def _counted(tables: Tables, name: str, method: str, case: str, metric: str) -> Entry | None:
    """Return the line that counts for a number of the paper, with the paper's number of steps."""
    for cell, line in verdict_lines(tables[name]).items():
        usual = cell.steps in (None, experiment(name).steps(method))
        if (cell.method, cell.case, cell.metric) == (method, case, metric) and usual:
            return line
    return None


def _hybrid_start(tables: Tables) -> str:
    """Say which starts of max-product and hybrid count on tiny20, and how they end."""
    parts = []
    for method, name in (("mp", "Max-product"), ("hybrid", "The hybrid")):
        line = _counted(tables, "tiny20", method, "tiny20", "test_elbo_mp")
        if line is not None and line.paper is not None:
            parts.append(
                f"{name} counts from {line.group.init} ({line.ours.n_runs} splits): Elbo^MP "
                f"{number(line.ours.mean)}, {line.ours.mean - line.paper.mean:+.2f} from the "
                f"paper's ({line.comparison.verdict})."
            )
    return wrapped(" ".join(parts))


def _starts(runs: Sequence[Run], tables: Tables) -> list[str]:
    """Tabulate tiny20 by method and start on common splits, the hybrid's phases, and reruns."""
    values: dict[tuple[str, str], dict[int, Run]] = {}
    for run in with_mp_phase(runs):
        usual = run["steps"] == {"mp": 1000}.get(paper_method(run["method"]), 1500)
        stopped = run["method"] != "vi" or run["tolerance"] is not None
        right = order(run) in ("two-stage", None) and run["method"] != "local-vi"
        if run["part"] == "test" and right and usual and stopped:
            key = (paper_method(run["method"]), run["init"])
            values.setdefault(key, {})[run["seed"]] = run
    rows = []
    for (method, init), own in sorted(values.items()):
        main = values.get((method, "paper-3"), {})
        common = sorted(set(own) & set(main))
        if init == "paper-3" or not common:
            continue
        gains = []
        for metric in ("test_elbo_mp", "test_elbo_vi"):
            mean, error, _ = stat(
                [own[s]["metrics"][metric] - main[s]["metrics"][metric] for s in common]
            )
            gains.append(f"{mean:+.3f} ({number(error, 3)})")
        rows.append((method, init, seeds(common), *gains))
    parts = []
    if rows:
        parts.append(
            wrapped("Other starts less paper-3 on the same splits (standard error in brackets):")
        )
        columns = ("", "start", "splits", ">test Elbo^MP", ">test Elbo^VI")
        parts.append(table(columns, rows))
    counted = _counted(tables, "tiny20", "hybrid", "tiny20", "test_elbo_mp")
    start = "paper-3" if counted is None else counted.group.init
    return [*parts, _phases(values, start), _reruns(runs)]


def _phases(values: dict[tuple[str, str], dict[int, Run]], start: str) -> str:
    """Set the phases of the hybrid from a start beside the paper's columns."""
    hybrids = values.get(("hybrid", start), {})
    phases = [run for run in hybrids.values() if "mp_phase_test_elbo_mp" in run["metrics"]]
    if not phases:
        return ""
    paper = {(cell.method, cell.metric): cell for cell in paper_cells("tiny20")}
    rows = []
    for title, prefix, method in (
        ("after max-product", "mp_phase_", "mp"),
        ("after variational inference", "", "hybrid"),
    ):
        row = [title]
        for metric in ("test_elbo_mp", "test_elbo_vi"):
            own = stat([run["metrics"][prefix + metric] for run in phases])
            row += [with_error(own.mean, own.error), of_paper(paper[method, metric])]
        rows.append(row)
    text = f"Phases of the hybrid from {start} over {len(phases)} splits, beside the paper's:"
    columns = ("", ">Elbo^MP", ">paper, mp and hybrid", ">Elbo^VI", ">paper, mp and hybrid")
    return f"{wrapped(text)}\n\n{table(columns, rows)}"


def _reruns(runs: Sequence[Run]) -> str:
    """Report how far two runs with the same settings and seed end from each other."""
    own = {
        (run["init"], run["seed"]): run["metrics"]["test_elbo_mp"]
        for run in runs
        if run["method"] == "mp-two-stage" and run["part"] == "test"
    }
    pairs = [
        (own[run["init"], run["seed"]], run["metrics"]["mp_phase_test_elbo_mp"])
        for run in runs
        if run["method"] == "hybrid-two-stage"
        and "mp_phase_test_elbo_mp" in run["metrics"]
        and (run["init"], run["seed"]) in own
    ]
    if not pairs:
        return ""
    gaps = [abs(first - second) for first, second in pairs]
    spread = math.sqrt(float(np.mean(np.square(gaps))) / 2.0)
    return wrapped(
        f"Reruns: {len(pairs)} max-product runs were made twice, by different versions of the code "
        f"with the same settings and seed. {sum(gap > 1e-6 for gap in gaps)} of the pairs differ, "
        f"by up to {max(gaps):.2f}; the standard deviation of a rerun is {spread:.3f}. A single "
        "split decides nothing below 0.1."
    )


_IDLE_EDGE, _IDLE_PRIOR = 0.05, 0.001


def _idle(runs: Sequence[Run]) -> list[str]:
    """Count idle causes, and set Elbo^MP with their priors at the floor beside it."""
    rows, costliest = [], (0.0, "")
    steps = 1500
    for method, init in product(("vi", "local-vi", "hybrid-two-stage"), ("paper-3", "paper-2")):
        own = [
            run
            for run in runs
            if (run["method"], run["steps"], run["part"]) == (method, steps, "test")
            and run["init"] == init
            and run["tolerance"] is not None
            and "child_ptr" in run["arrays"]
        ]
        if not own:
            continue
        idle = [_idle_costs(run) for run in own]
        for run, costs in zip(own, idle, strict=True):
            if method == "vi" and max(costs, default=0.0) > costliest[0]:
                costliest = (max(costs), f"split {run['seed']} from {init}")
        bounds = [run["metrics"]["test_elbo_mp"] for run in own]
        gaps = [run["metrics"]["test_elbo_vi"] - run["metrics"]["test_elbo_mp"] for run in own]
        paper = {
            cell.metric: cell
            for cell in paper_cells("tiny20")
            if (cell.method, cell.steps) == (paper_method(method), steps)
        }
        mp, vi = paper["test_elbo_mp"], paper["test_elbo_vi"]
        rows.append(
            (
                f"{paper_method(method)}, {init}",
                len(own),
                sum(map(len, idle)),
                f"{max((sum(costs) for costs in idle), default=0.0):.3f}",
                number(float(np.mean(bounds))),
                number(float(np.mean([b + sum(c) for b, c in zip(bounds, idle, strict=True)]))),
                of_paper(mp),
                number(float(np.mean(gaps))),
                number(vi.mean - mp.mean),
            )
        )
    if not rows:
        return []
    text = (
        f"Idle causes (all outgoing theta below {_IDLE_EDGE}, prior above {_IDLE_PRIOR}) in our "
        "runs, and Elbo^MP with their priors at the floor. Starts were run on different splits; "
        "the table of starts above compares them on the same ones."
    )
    if costliest[1]:
        cost, where = costliest
        text = (
            f"The costliest idle cause of full variational inference, on {where}, has a prior of "
            f"{1.0 - math.exp(-cost):.2f} and lowers Elbo^MP by {cost:.2f}. " + text
        )
    columns = (
        *("", ">runs", ">idle causes", ">largest cost in a run", ">Elbo^MP", ">at the floor"),
        *(">paper", ">Elbo^VI - Elbo^MP", ">paper"),
    )
    return [wrapped(text), table(columns, rows)]


def _idle_costs(run: Run) -> list[float]:
    """Return what each idle cause of a tiny20 network costs in Elbo^MP, per row."""
    arrays = run["arrays"]
    theta, parent = np.asarray(arrays["theta"], float), np.asarray(arrays["parent"], int)
    leak = np.asarray(arrays["leak"], float)
    n_hidden = len(arrays["levels"])
    strongest = np.zeros(n_hidden)
    np.maximum.at(strongest, parent, theta)
    prior = 1.0 - np.exp(-leak[len(leak) - n_hidden :])
    idle = prior[(strongest < _IDLE_EDGE) & (prior > _IDLE_PRIOR)]
    return [float(-np.log(max(p, 1.0 - p))) for p in idle]


def _below_the_paper(tables: Tables) -> str:
    """Say at which sizes correct variational inference has a lower bound than the paper's."""
    lines = [
        line
        for cell, line in verdict_lines(tables["bmf"]).items()
        if (cell.method, cell.metric) == ("vi", "test_elbo")
    ]
    below = [line.group.case for line in lines if (line.comparison.difference or 0.0) < 0.0]
    if not lines:
        return ""
    text = (
        f"Correct inference has a higher bound than the paper's at {len(lines) - len(below)} of "
        f"{len(lines)} sizes"
    )
    return wrapped(text + (f", but not at {' and '.join(below)}." if below else "."))


def _joint_sizes(tables: Tables) -> str:
    """Say at which sizes joint max-product in the paper's order agrees with the paper."""
    cases: dict[str, list[str]] = {}
    for cell, line in verdict_lines(tables["bmf"]).items():
        if cell.method == "pmp":
            cases.setdefault(str(line.comparison.verdict), []).append(cell.case.replace(",", " x "))
    if not cases:
        return ""
    shown = "; ".join(f"{verdict}: {', '.join(own)}" for verdict, own in cases.items())
    return wrapped(f"Factorizations in the paper's order: {shown}.")


def _arithmetic(results: Path) -> str:
    """Report the errors of joint max-product by precision and clipping, from the benchmark."""
    path = results / "joint_clipping.json"
    if not path.is_file():
        return ""
    sentences = []
    for size, kinds in json.loads(path.read_text())["runs"].items():
        found = {
            kind: np.array([run["test_re_pct"] for run in runs.values()])
            for kind, runs in kinds.items()
        }
        usual, *others = found
        shown = []
        for kind, wrong in found.items():
            own = stat(wrong)
            shown.append(f"{own.mean:.1f} ({own.error:.1f}) in {kind}")
        apart = " and ".join(f"{np.abs(found[kind] - found[usual]).mean():.1f}" for kind in others)
        sentences.append(
            f"Wrong entries in percent at {size.replace(',', ' x ')} over {len(found[usual])} "
            f"seeds with the same data and noise: {'; '.join(shown)} (`python "
            f"benchmarks/joint_clipping.py`). Single runs differ from the first kind by {apart} on "
            "average."
        )
    return wrapped(
        " ".join(sentences) + " PGMax clipped messages at 1e5 at first, later at 1e20 and 1e32 "
        "(`NEG_INF` and `MSG_NEG_INF` in its `utils`). Which version the paper's runs had is not "
        "known."
    )


def _joint(tables: Tables) -> list[str]:
    """Tabulate joint max-product in the paper's order and ours."""
    cells = [
        (name, cell)
        for name in ("bmf", "deconvolution")
        for cell in paper_cells(name)
        if cell.method == "pmp"
    ]
    rows = []
    for name, cell in cells:
        own = {
            (line.group.method, line.group.init): line
            for line in tables[name]
            if line.paper == cell and line.group.damping is None
        }
        for init in dict.fromkeys(init for _, init in own):
            found = [own.get((method, init)) for method in ("pmp-two-stage", "pmp")]
            shown = [
                "–"
                if line is None
                else f"{with_error(line.ours.mean, line.ours.error)}, {line.ours.n_runs}"
                for line in found
            ]
            case = cell.case if init == "prior" else f"{cell.case}, {init}"
            rows.append((case, LABELS[cell.metric], *shown, of_paper(cell)))
    columns = ("", "metric", ">paper's order, runs", ">collapsed, runs", ">paper")
    return [table(columns, rows)] if rows else []


def _text_gaps(tables: Tables, results: Path) -> str:
    """Set the differences on IMDB beside what the trials move."""
    found = {
        (method, metric): _counted(tables, "text", method, "IMDB", metric)
        for method in ("local-vi", "hybrid", "mp")
        for metric in ("test_elbo_mp", "test_elbo_vi")
    }
    path = results / "text_local_vi.json"
    if None in found.values() or not path.is_file():
        return ""
    lines = {key: line for key, line in found.items() if line is not None}
    gap = {k: line.ours.mean - line.paper.mean for k, line in lines.items() if line.paper}
    trials = json.loads(path.read_text())["trials"]
    first = next(iter(trials["usual"]["after 4,000"]))
    usual, ties, rounds = (trials[name]["after 4,000"][first] for name in trials)
    gained = usual["elbo_vi"] - trials["usual"]["after 3,600"]["elbo_vi"]
    return wrapped(
        f"Elbo^MP of local variational inference is {gap['local-vi', 'test_elbo_mp']:+.2f} nats "
        f"from the paper's; another order of the ties moves it by "
        f"{ties['elbo_mp'] - usual['elbo_mp']:+.2f}. Elbo^VI is "
        f"{gap['local-vi', 'test_elbo_vi']:+.2f} from the paper's for local variational inference "
        f"and {gap['hybrid', 'test_elbo_vi']:+.2f} for the hybrid. Ties move it by "
        f"{ties['elbo_vi'] - usual['elbo_vi']:+.2f}, fewer rounds in training by "
        f"{rounds['elbo_vi'] - usual['elbo_vi']:+.2f}, and the last 400 of the 4,000 updates by "
        f"{gained:+.2f}. Neither ties nor rounds explain the difference; it is as large as the "
        f"gain of some hundred updates. Max-product is {gap['mp', 'test_elbo_mp']:+.2f} nats from "
        f"the paper's Elbo^MP, {difference(lines['mp', 'test_elbo_mp'])} standard errors; the "
        "paper does not say after how many updates its column was taken."
    )


def _trials(path: Path) -> list[str]:
    """Tabulate local variational inference on IMDB with one thing changed at a time."""
    if not path.is_file():
        return []
    rows = []
    for name, trial in json.loads(path.read_text())["trials"].items():
        for rounds, last in trial["after 4,000"].items():
            first = rounds == next(iter(trial["after 4,000"]))
            before = number(trial["after 3,600"]["elbo_vi"]) if first else ""
            last = [number(last[bound]) for bound in ("elbo_vi", "elbo_mp")]
            rows.append((name, f"{trial['n_edges']:,}", rounds, before, *last))
    text = (
        "One training each, seed 0 (`python benchmarks/text_local_vi.py`). *ties* numbers the "
        "words in another order, which resolves ties of the clustering in another way; *rounds* "
        "trains with 5 rounds of the E-step of 5 + 5 steps instead of 10 of 10 + 10."
    )
    columns = ("trial", ">edges", "rounds at test", ">Elbo^VI after 3,600", ">after 4,000")
    return [wrapped(text), table((*columns, ">Elbo^MP"), rows)]


def _fingerprints(lines: Sequence[Entry]) -> list[str]:
    """Tabulate Elbo^VI - Elbo^MP on IMDB by method and start: it identifies the paper's starts."""
    means: dict[tuple[str, int, str], dict[str, tuple[float, int]]] = {}
    for line in lines:
        group = line.group
        if group.case == "IMDB" and group.reproduction:
            key = (paper_method(group.method), group.steps, group.init)
            own = means.setdefault(key, {})
            if own.get(line.metric, (0.0, 0))[1] < line.ours.n_runs:
                own[line.metric] = (line.ours.mean, line.ours.n_runs)
    paper = {
        (cell.method, cell.metric): cell.mean for cell in paper_cells("text") if cell.case == "IMDB"
    }
    rows = []
    for (method, steps, init), own in sorted(means.items()):
        if not {"test_elbo_mp", "test_elbo_vi"} <= set(own):
            continue
        bounds = [own[metric][0] for metric in ("test_elbo_mp", "test_elbo_vi")]
        theirs = [paper[method, metric] for metric in ("test_elbo_mp", "test_elbo_vi")]
        rows.append(
            (
                f"{method}, {steps:,}",
                init,
                own["test_elbo_mp"][1],
                *(number(bound) for bound in bounds),
                number(bounds[1] - bounds[0]),
                *(number(bound) for bound in theirs),
                number(theirs[1] - theirs[0]),
            )
        )
    if not rows:
        return []
    text = (
        "Elbo^VI - Elbo^MP depends on the start, so it shows which start a number of the paper is "
        "from: max-product paper-1, local variational inference paper-3. The hybrid was run from "
        "paper-4; in our default order of messages, seed 0 ends 2.2 nats lower from paper-3 "
        "(appendix)."
    )
    columns = (
        *("IMDB", "start", ">runs", ">Elbo^MP", ">Elbo^VI", ">VI - MP"),
        *(">paper, Elbo^MP", ">paper, Elbo^VI", ">paper, VI - MP"),
    )
    return [wrapped(text), table(columns, rows)]


# ---- claims of the paper that are no numbers


def _claims(runs: Sequence[Run], tables: Tables) -> str:
    """Report what the paper says in words: the hybrid is best, the spare feature has no prior."""
    parts = ["## Claims in words"]
    parts += [_paired(of_experiment(runs, "tiny20")), _spare(of_experiment(runs, "deconvolution"))]
    counted = {
        method: _counted(tables, "deconvolution", method, "BD", "features_iou")
        for method in ("mp", "vi", "pmp")
    }
    n_seeds = ", ".join(f"{m} {line.ours.n_runs}" for m, line in counted.items() if line)
    figures = "../reproduction/figures"
    parts.append(
        f"Figures: overparametrization ([curves]({figures}/overparam_curves.png),\n"
        f"[every run]({figures}/overparam_runs.png),\n"
        f"[causes]({figures}/overparam_features.png)); deconvolution\n"
        f"([data]({figures}/deconvolution_example.png),\n"
        f"[features of every seed]({figures}/deconvolution_seeds.png) (seeds: {n_seeds or 0}),\n"
        f"[median runs]({figures}/deconvolution_features.png),\n"
        f"[spare feature]({figures}/deconvolution_spare.png),\n"
        f"[reconstructions]({figures}/deconvolution_reconstructions.png));\n"
        f"[network of tiny20]({figures}/network.png)."
    )
    return "\n\n".join(part for part in parts if part)


def _paired(runs: Sequence[Run]) -> str:
    """Compare hybrid and variational inference on the same splits from paper-3."""
    found: dict[int, dict[str, float]] = {}
    for run in runs:
        right = (run["part"], run["steps"], run["init"]) == ("test", 1500, "paper-3")
        if right and run["tolerance"] is not None:
            found.setdefault(run["seed"], {})[run["method"]] = run["metrics"]["test_elbo"]
    answers = []
    for other, name in (("vi", "full"), ("local-vi", "local")):
        gains = [
            bounds["hybrid-two-stage"] - bounds[other]
            for bounds in found.values()
            if {"hybrid-two-stage", other} <= set(bounds)
        ]
        if len(gains) >= runs_needed(10):
            mean, error, n = stat(gains)
            word = (
                "not decided" if abs(mean) <= LIMIT * error else "better" if mean > 0 else "worse"
            )
            answers.append(f"{mean:+.3f} ({error:.3f}) beside {name} on {n} splits ({word})")
    if not answers:
        return ""
    return wrapped(
        "The paper says that the hybrid beats variational inference on tiny20. Difference of the "
        "test Elbo on the same splits from paper-3 (standard error): "
        f"{'; '.join(answers)}."
    )


def _spare(runs: Sequence[Run]) -> str:
    """Report whether the unmatched feature has the lowest prior, as the paper says."""
    found = spare_features([run for run in runs if run["part"] == "test"])
    if not found:
        return ""
    lowest = sum(spare.is_lowest for spare in found)
    return wrapped(
        "It says that the spare fifth feature of deconvolution always has the lowest prior. That "
        f"is so in {lowest} of our {len(found)} max-product runs, of all kinds."
    )


# ---- rules, limits, times


def _brackets(lines: Sequence[Entry]) -> str:
    """Compare our standard deviations with the paper's brackets."""
    ratios = [
        line.ours.error * math.sqrt(line.ours.n_runs) / line.paper.printed
        for line in lines
        if line.paper is not None
        and line.paper.n_runs == 10
        and line.paper.printed
        and paper_method(line.group.method) != "pmp"
        and line.ours.n_runs >= 5
    ]
    if not ratios:
        return ""
    return (
        f"Our standard deviations are {np.median(ratios):.1f} times these brackets (median of "
        f"{len(ratios)} numbers with five runs or more); the root of the paper's ten runs is 3.2."
    )


def _limits(runs: Sequence[Run], results: Path) -> str:
    edges = {
        run["case"]: int(run["metrics"]["n_edges"]) for run in runs if "n_edges" in run["metrics"]
    }
    ancestors = "What that changes was not measured."
    path = results / "paper_update_times.json"
    found = json.loads(path.read_text()).get("ancestors_only") if path.is_file() else None
    if found:
        ancestors = (
            f"On {found['rows']:,} test documents of IMDB the mean Elbo^MP is "
            f"{found['elbo_mp_ancestors']:.2f} with the restriction and {found['elbo_mp_all']:.2f} "
            f"without."
        )
    numbers = {
        "ancestors": ancestors,
        "edges": f"{edges['IMDB']:,}" if "IMDB" in edges else "–",
        "paper_edges": f"{EDGES['IMDB']:,}",
    }
    listed = bullets(limit.format(**numbers) for limit in LIMITS)
    return f"## Other differences from the paper\n\n{listed}"


def _substitutes(lines: Sequence[Entry]) -> str:
    """Tabulate the runs on texts that replace the paper's, beside the numbers of the originals."""
    replaced = experiment("text").substitutes
    bounds: dict[tuple[str, str, str], dict[str, Entry]] = {}
    for line in lines:
        group = line.group
        if group.case in replaced and group.reproduction:
            method = f"{paper_method(group.method)}, {group.steps:,}"
            bounds.setdefault((group.case, method, group.init), {})[line.metric] = line
    rows = []
    for (case, method, init), own in bounds.items():
        row = [f"{case} (paper: {replaced[case]})", method, init]
        for metric in ("test_elbo_mp", "test_elbo_vi"):
            line = own[metric]
            row += [with_error(line.ours.mean, line.ours.error), of_paper(line.paper)]
        rows.append([*row, number(own["test_elbo_mp"].trivial)])
    if not rows:
        return ""
    text = (
        "Runs on the texts that replace the paper's. *Agnews-77006* are 77,006 of the 120,000 "
        "training items of AG News with its test set; *Abstract-years* are arXiv abstracts of the "
        "same years as the paper's. They are not judged."
    )
    columns = (
        *("data", "method, steps", "start", ">Elbo^MP", ">paper", ">Elbo^VI", ">paper"),
        ">independent words",
    )
    return f"{wrapped(text)}\n\n{table(columns, rows)}"


def _update_times(path: Path) -> str:
    """Tabulate update times beside the paper's, from the benchmark."""
    if not path.is_file():
        return ""
    content = json.loads(path.read_text())
    rows = []
    for name, case in content["cases"].items():
        row: list[object] = [name]
        for method in ("mp", "vi"):
            times = case.get(method, {})
            row += [
                f"{times[key] / 1e3:.2g}" if times.get(key) else "–"
                for key in ("paper", "defaults")
            ]
            row.append(number(case["paper_seconds"].get(method)))
        rows.append(row)
    columns = (
        *("", ">MP, ours", ">MP, defaults", ">MP, paper"),
        *(">VI, ours", ">VI, defaults", ">VI, paper"),
    )
    load = content["machine"]["share_of_cpu_used_by_others"]
    note = (
        f"Measured while other programs used {100 * load:.0f} % of the two cores." if load else ""
    )
    return f"## Update times\n\n{wrapped(UPDATE_TIMES + ' ' + note)}\n\n{table(columns, rows)}"


# ---- what is missing


def _missing_variants(tables: Tables) -> str:
    """Say which cases lack runs that would confirm a cause: the noise of the software."""
    parts = []
    for name in ("overparam", "bmf"):
        cases = {cell.case for cell in paper_cells(name) if cell.method == "mp"}
        right = {
            line.group.case
            for line in tables[name]
            if (line.group.method, line.group.noise) == ("mp-two-stage", "uniform")
        }
        if cases - right:
            parts.append(
                f"{len(cases - right)} of the {len(cases)} cases of {experiment(name).title}"
            )
    if not parts:
        return ""
    return (
        f"The noise of the software (`--noise uniform`) has not been run on {' and '.join(parts)}."
    )


def _missing(runs: Sequence[Run], tables: Tables) -> str:
    """List the numbers without a verdict or with too few runs, the cost of a run and a command."""
    groups: dict[tuple[str, str, int | None], list[PaperCell]] = {}
    for name, lines in tables.items():
        chosen = verdict_lines(lines)
        for cell in _judged(name):
            line = chosen.get(cell)
            if line is None or line.comparison.verdict == TOO_FEW:
                groups.setdefault((name, cell.method, cell.steps), []).append(cell)
    rows = []
    for (name, method, steps), cells in groups.items():
        about = experiment(name)
        cases = list(dict.fromkeys(cell.case for cell in cells))
        own = [
            run
            for run in of_experiment(runs, name)
            if paper_method(run["method"]) == method
            and run["case"] in cases
            and run["steps"] == (steps or about.steps(method))
            and order(run) in ("two-stage", None)
        ]
        flag = {"bmf": "--size", "text": "--dataset", "overparam": "--dataset"}.get(name)
        which = ""
        if flag and cases:
            first = "IMDB" if "IMDB" in cases else cases[0]
            which = f" {flag} {first.split(',')[0] if name == 'overparam' else first}"
        full = method if method in ("vi", "local-vi") else f"{method}-two-stage"
        command = f"python -m reproduction run {name} --method {full}{which}"
        if steps is not None and steps != about.steps(method):
            command += f" --steps {steps}"
        shown = ", ".join(case.replace(",", " x ") for case in cases)
        rows.append((about.title, method, shown, len(cells), _cost(own), f"`{command}`"))
    if not rows:
        return ""
    text = (
        "Numbers of the paper with too few runs for a match, or with none. Time is that of the "
        "shortest recorded run of a case, on one thread. A sweep that was stopped continues "
        "when the same command is given again. Abstract, Agnews, Patent and Yelp need their "
        f"original data. {_missing_variants(tables)}"
    )
    columns = ("experiment", "method", "cases", ">numbers", ">time of a run", "continue with")
    return f"## What is missing\n\n{wrapped(text)}\n\n{table(columns, rows)}"
