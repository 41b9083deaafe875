"""Commands on a model file: evaluate and info."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor.cli import common

if TYPE_CHECKING:
    from noisyor.inference.evaluate import Score

_SHOWN = 20


@click.command()
@common.model_argument
@common.data_argument
@click.option("--quick", is_flag=True, help="Skip the mean-field bound, which takes longer.")
@common.threads_option
@common.reading_options
@common.json_option
def evaluate(
    model: Path,
    data: Path,
    quick: bool,
    threads: int | None,
    reading: dict[str, Any],
    as_json: bool,
) -> None:
    """Score MODEL on the rows of DATA: log p in nats a row, and bounds on it.

    log p is exact for few causes and an estimate with a lower bound otherwise. Elbo^MP of the paper
    is log p(causes, row) at the most likely causes, Elbo^VI is the mean-field bound. The baseline
    treats all columns as independent.

    \b
    Examples:
      noisyor evaluate zoo.safetensors zoo-test.csv
      noisyor evaluate mails.safetensors new-mails.jsonl --quick --json
    """
    from noisyor.baselines import independent_columns
    from noisyor.inference.evaluate import Score
    from noisyor.inference.evaluate import evaluate as bounds
    from noisyor.inference.max_product import MaxProduct, method_for
    from noisyor.inference.mean_field import MeanField
    from noisyor.inference.sampling import log_probability

    saved = common.open_model(model, data)
    network = saved.network
    rows = common.read_for(saved, data, reading).observations
    mode = method_for(network)
    methods: list[MaxProduct | MeanField] = [mode]
    if not quick:
        methods.append(MeanField(local=mode.ancestors_only, tolerance=1e-4))
    result = bounds(
        network,
        rows,
        methods,
        engine=common.engine_with(threads),
        progress=False if as_json else None,
    )
    log_p = log_probability(
        network, rows, engine=common.engine_with(threads), progress=False if as_json else None
    )
    independent = independent_columns(rows).log_probability(rows)
    reference = Score(independent, weights=rows.weights)
    if as_json:
        common.print_json(
            {
                "model": str(model),
                "data": str(data),
                "rows": rows.n_rows,
                "log_p": {**_score(log_p), "exact": log_p.exact, "error": log_p.mean_error},
                "log_p_bound": log_p.bound_mean,
                "elbo_mp": _score(result.elbo_mp),
                "elbo_vi": None if result.elbo_vi is None else _score(result.elbo_vi),
                "independent": _score(reference),
            }
        )
        return
    lines = [f"{rows.n_rows:,} rows of {data}, nats a row ± standard error", ""]
    set_bound = None if log_p.exact else Score(log_p.bound, weights=rows.weights)
    for name, score in (
        ("log p, exact" if log_p.exact else "log p, estimated", log_p),
        ("independent columns", reference),
        ("bound by the explanations found", set_bound),
        ("Elbo^MP, one explanation (paper)", result.elbo_mp),
        ("Elbo^VI, mean-field (paper)", result.elbo_vi),
    ):
        if score is not None:
            spread = f" ± {score.standard_error:.4f}" if rows.n_rows > 1 else ""
            lines.append(f"{name:<33} {score.mean:12.4f}{spread}")
    if not log_p.exact:
        lines.append(f"\nThe estimate itself is good to ± {log_p.mean_error:.4f}.")
    click.echo(common.printable("\n".join(lines)))


def _score(score: Score) -> dict[str, float]:
    return {"mean": score.mean, "standard_error": score.standard_error}


@click.command()
@common.model_argument
@common.top_option(_SHOWN, least=0)
@common.json_option
def info(model: Path, top: int, as_json: bool) -> None:
    """Describe MODEL: its size, origin and quality, and its causes.

    The whole file is checked. Causes are listed by falling prior probability, each with what it
    switches on and the probabilities; topics of one layer with descriptive words.

    \b
    Examples:
      noisyor info zoo.safetensors
      noisyor info zoo.safetensors --top 100 --json
    """
    from noisyor.io.model_file import load_model, recurrence_of, topic_words_of
    from noisyor.model.forward import edge_matrix
    from noisyor.model.names import hidden_label, strongest_visibles, visible_label

    network, metadata = load_model(model)
    prior = network.prior_probability
    words = topic_words_of(metadata, network) if network.n_layers == 1 else None
    if words is None:
        strongest = strongest_visibles(network)
    else:
        chance = edge_matrix(network, probability=True)
        strongest = [[(i, float(chance[i, k])) for i in best] for k, best in enumerate(words)]
    recurrence = recurrence_of(metadata, network)
    causes = [
        {
            "index": int(k),
            "name": hidden_label(network, int(k)),
            "prior": float(prior[k]),
            "recurrence": None if recurrence is None else recurrence[int(k)],
            "switches_on": [
                {"name": visible_label(network, i), "probability": chance}
                for i, chance in strongest[int(k)]
            ],
        }
        for k in (-prior).argsort(kind="stable")[:top]
    ]
    record = {
        "model": str(model),
        "bytes": model.stat().st_size,
        "visible": network.n_visible,
        "hidden": network.n_hidden,
        "layers": network.n_layers,
        "edges": network.n_edges,
        "parameters": network.n_params,
        "free": int(network.free.sum()),
        "mean_noise": float(network.noise_probability.mean()),
        "metadata": metadata,
        "causes": causes,
    }
    if as_json:
        common.print_json(record)
        return
    click.echo(common.printable("\n".join(_info_lines(record))))


def _info_lines(record: dict[str, Any]) -> list[str]:
    from noisyor._util.validation import is_whole
    from noisyor.io.model_file import kind_of, mapping_in, metrics_of

    metadata = record["metadata"]
    data, metrics = mapping_in(metadata, "data"), metrics_of(metadata)
    lines = [
        f"{record['model']}: {kind_of(metadata)}, {record['bytes']:,} bytes",
        f"nodes       {record['visible']:,} findings, {record['hidden']:,} causes in "
        f"{record['layers']} layer{'s' * (record['layers'] > 1)}, {record['edges']:,} edges",
        f"parameters  {record['parameters']:,}, of which {record['free']:,} are free; "
        f"mean noise {record['mean_noise']:.4f}",
    ]
    if is_whole(data.get("rows")) and is_whole(data.get("columns")):
        hashed = f", SHA-256 {str(data['sha256'])[:12]}" if "sha256" in data else ""
        lines.append(
            f"data        {data['rows']:,} rows of {data['columns']:,} columns from "
            f"{data.get('source') or 'an unnamed source'}{hashed}"
        )
    if isinstance(metadata.get("created"), str):
        version = mapping_in(metadata, "versions").get("noisyor", "?")
        lines.append(f"created     {metadata['created']} by noisyor {version}")
    leading = sorted(metrics, key=lambda name: "log_p" not in name)  # log p, then its bounds
    lines += [f"{name:<32} {metrics[name]:.4f}" for name in leading]
    for cause in record["causes"]:
        words = ", ".join(
            f"{item['name']} {item['probability']:.2f}" for item in cause["switches_on"][:6]
        )
        mark = "" if cause["recurrence"] is None else common.recurs(cause["recurrence"])
        lines.append(f"  {cause['prior']:.3f}  {cause['name']}{mark}")
        if words:
            lines.append(f"         {words}")
    left = record["hidden"] - len(record["causes"])
    if left:
        lines.append(f"  ... and {left:,} more (--top)")
    return lines
