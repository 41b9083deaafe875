"""Commands on a model file: evaluate, sample, export, info."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor.cli.options import (
    PATH,
    check_output,
    data_argument,
    engine_with,
    force_option,
    json_option,
    model_argument,
    open_model,
    out_option,
    print_json,
    quiet_option,
    read_for,
    reading_options,
    seed_option,
    threads_option,
    top_option,
)
from noisyor.cli.run import printable
from noisyor.errors import InvalidSettingError

if TYPE_CHECKING:
    from noisyor.inference.evaluate import Score

__all__ = ["evaluate", "export", "info", "sample"]

_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".npz": "npz", ".npy": "npy"}
_TARGETS = ("graphml", "json", "bif", "csv")
_SHOWN = 20


@click.command()
@model_argument
@data_argument
@click.option("--quick", is_flag=True, help="Skip the mean-field bound, which takes longer.")
@threads_option()
@reading_options
@json_option
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
    is log p(causes, row) at the most likely causes, Elbo^VI is the mean-field bound. The reference
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

    saved = open_model(model, data)
    network = saved.network
    rows = read_for(saved, data, reading).observations
    mode = method_for(network)
    methods: list[MaxProduct | MeanField] = [mode]
    if not quick:
        methods.append(MeanField(local=mode.ancestors_only, tolerance=1e-4))
    result = bounds(
        network,
        rows,
        methods,
        engine=engine_with(threads),
        progress=False if as_json else None,
    )
    log_p = log_probability(
        network, rows, engine=engine_with(threads), progress=False if as_json else None
    )
    independent = independent_columns(rows).log_probability(rows)
    reference = Score(independent, weights=rows.weights)
    if as_json:
        print_json(
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
    click.echo(printable("\n".join(lines)))


def _score(score: Score) -> dict[str, float]:
    return {"mean": score.mean, "standard_error": score.standard_error}


@click.command()
@model_argument
@click.option(
    "-n",
    "--rows",
    "n_rows",
    type=click.IntRange(min=1, max=10_000_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Rows to draw.",
)
@out_option("Where they go: .csv, .jsonl, .npz (sparse) or .npy.", required=True)
@click.option(
    "--causes",
    type=PATH,
    metavar="FILE",
    help="Also write the causes of the rows, in the same formats.",
)
@force_option("Replace the files if they exist.")
@seed_option
@json_option
@quiet_option
def sample(
    model: Path,
    n_rows: int,
    out: Path,
    causes: Path | None,
    force: bool,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Draw rows from MODEL: causes first, then what they switch on.

    \b
    Examples:
      noisyor sample zoo.safetensors -n 1000 --out animals.csv
      noisyor sample zoo.safetensors --out x.npz --causes h.npz
    """
    targets = [out] if causes is None else [out, causes]
    for path in targets:
        if path.suffix.lower() not in _ENDINGS:
            raise InvalidSettingError(
                f"{path}: rows are written to {', '.join(_ENDINGS)}, not to {path.suffix!r}"
            )
        check_output(path, force=force, inputs=[model])
    if causes is not None and causes.resolve() == out.resolve():
        raise InvalidSettingError(f"{out} cannot hold both the rows and the causes")

    from noisyor._util.files import real_path, write_atomically
    from noisyor.io.model_file import load_network
    from noisyor.model.forward import sample as draw
    from noisyor.model.names import hidden_label, visible_label

    network = load_network(model)
    if any(path.suffix.lower() in (".npy", ".csv") for path in targets):
        cells = n_rows * max(network.n_visible, network.n_hidden)
        if cells > 2 * 10**9:
            raise InvalidSettingError(f"{cells:,} numbers are too many for {out.suffix}; take .npz")
    drawn = draw(network, n_rows, seed)
    names = [visible_label(network, i) for i in range(network.n_visible)]
    shape = network.visible_shape if len(network.visible_shape) == 2 else None
    write_atomically(real_path(out), _rows_as(out, drawn.visible, names, shape))
    if causes is not None:
        names = [hidden_label(network, k) for k in range(network.n_hidden)]
        write_atomically(real_path(causes), _rows_as(causes, drawn.hidden, names, None))
    if as_json:
        print_json({"rows": n_rows, "files": [str(path) for path in targets], "seed": seed})
    elif not quiet:
        click.echo(f"{n_rows:,} rows: {', '.join(str(path) for path in targets)}")


def _rows_as(path: Path, matrix: Any, names: list[str], shape: tuple[int, ...] | None) -> bytes:
    """Return sparse 0/1 rows as the content of a file."""
    import io
    import itertools
    import json

    import numpy as np
    import scipy.sparse as sp

    from noisyor._util.files import csv_content

    kind = _ENDINGS[path.suffix.lower()]
    if kind == "csv":
        rows = (matrix[[row]].toarray()[0].tolist() for row in range(matrix.shape[0]))
        return csv_content(itertools.chain([names], rows))
    if kind == "jsonl":
        lines = (
            json.dumps([names[k] for k in matrix.indices[begin:end]])
            for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
        )
        return ("\n".join(lines) + "\n").encode()
    stream = io.BytesIO()
    if kind == "npz":
        sp.save_npz(stream, matrix)
    else:
        dense = matrix.toarray()
        np.save(stream, dense if shape is None else dense.reshape(-1, *shape))
    return stream.getvalue()


@click.command()
@model_argument
@click.option("--to", type=click.Choice(_TARGETS), required=True, help="Format.")
@out_option("File to write.", required=True)
@force_option()
@json_option
@quiet_option
def export(model: Path, to: Any, out: Path, force: bool, as_json: bool, quiet: bool) -> None:
    """Write MODEL for other programs.

    graphml and json are for NetworkX (and Gephi, D3) and keep everything; csv lists all parameters;
    bif is for general programs for Bayesian networks, where no node has more than 12 parents.

    \b
    Examples:
      noisyor export zoo.safetensors --to graphml --out zoo.graphml
      noisyor export zoo.safetensors --to csv --out zoo-parameters.csv
    """
    check_output(out, force=force, inputs=[model])

    from noisyor._util.files import real_path, write_atomically
    from noisyor.io.export import export_network
    from noisyor.io.model_file import load_network

    content = export_network(load_network(model), to)
    write_atomically(real_path(out), content)
    if as_json:
        print_json({"file": str(out), "format": to, "bytes": len(content)})
    elif not quiet:
        click.echo(f"{out}: {len(content):,} bytes")


@click.command()
@model_argument
@top_option(_SHOWN, least=0)
@json_option
def info(model: Path, top: int, as_json: bool) -> None:
    """Describe MODEL: its size, origin and quality, and its causes.

    The whole file is checked. Causes are listed by falling prior probability, each with what it
    switches on and the probabilities; topics of one layer with descriptive words.

    \b
    Examples:
      noisyor info zoo.safetensors
      noisyor info zoo.safetensors --top 100 --json
    """
    from noisyor.io.model_file import load_model
    from noisyor.io.provenance import recurrence_of, topic_words_of
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
        print_json(record)
        return
    click.echo(printable("\n".join(_info_lines(record))))


def _info_lines(record: dict[str, Any]) -> list[str]:
    from noisyor._util.validation import is_whole
    from noisyor.io.provenance import kind_of, mapping_in, metrics_of

    metadata = record["metadata"]
    data, metrics = mapping_in(metadata, "data"), metrics_of(metadata)
    lines = [
        f"{record['model']}: {kind_of(metadata)}, {record['bytes']:,} bytes",
        f"nodes     {record['visible']:,} findings, {record['hidden']:,} causes in "
        f"{record['layers']} layer{'s' * (record['layers'] > 1)}, {record['edges']:,} edges",
        f"parameters {record['parameters']:,}, of which {record['free']:,} are free; "
        f"mean noise {record['mean_noise']:.4f}",
    ]
    if is_whole(data.get("rows")) and is_whole(data.get("columns")):
        hashed = f", SHA-256 {str(data['sha256'])[:12]}" if "sha256" in data else ""
        lines.append(
            f"data      {data['rows']:,} rows of {data['columns']:,} columns from "
            f"{data.get('source') or 'an unnamed source'}{hashed}"
        )
    if isinstance(metadata.get("created"), str):
        version = mapping_in(metadata, "versions").get("noisyor", "?")
        lines.append(f"created   {metadata['created']} by noisyor {version}")
    leading = sorted(metrics, key=lambda name: "log_p" not in name)  # log p, then its bounds
    lines += [f"{name:<32} {metrics[name]:.4f}" for name in leading]
    for cause in record["causes"]:
        words = ", ".join(
            f"{item['name']} {item['probability']:.2f}" for item in cause["switches_on"][:6]
        )
        share = cause["recurrence"]
        mark = "" if share is None else f"  [recurs in {100 * share:.0f} % of the resamples]"
        lines.append(f"  {cause['prior']:.3f}  {cause['name']}{mark}")
        if words:
            lines.append(f"         {words}")
    left = record["hidden"] - len(record["causes"])
    if left:
        lines.append(f"  ... and {left:,} more (--top)")
    return lines
