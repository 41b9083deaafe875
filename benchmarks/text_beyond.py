"""Compare settings for large vocabularies, and score `learn_topics` on test documents.

    python benchmarks/text_beyond.py [--data DIR] [--dataset IMDB] [--words N] [--only NAME ...]
        [--test] [--threads N] [--json results/text_beyond.json]
    python benchmarks/text_beyond.py --table results/text_beyond.json

Settings learn from nine tenths of the training documents and are compared by the bound of the other
tenth. With ``--test``, `learn_topics` with its defaults and with local mean-field learns from all
training documents and is scored on the test documents, as in the paper's table. Finished runs are
stored in the JSON file and skipped later. ``--table`` prints the tables of
``docs/beyond_topics.md``.
"""

from __future__ import annotations

import json
import lzma
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import _root  # noqa: F401
from _measure import Machine, earlier, idea_arguments, write
from _problems import use_data
from noisyor.baselines import independent_columns
from noisyor.data.observations import Observations
from noisyor.data.vocabulary import TextData, vectorize
from noisyor.engines.registry import get_engine
from noisyor.inference.evaluate import evaluate
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.learning.train import train
from noisyor.model.layered import layered
from noisyor.model.network import Network
from noisyor.search.starts import start_from_counts
from reproduction import datasets
from reproduction.datasets.download import data_folder
from reproduction.layered import LOADERS

KEPT_SHARE = 0.9
NEWSGROUPS, NEWSGROUPS_FILE = "20 newsgroups", "20newsgroups_bydate.jsonl.xz"
MAX_PRODUCT = MaxProduct(ancestors_only=True)
MEAN_FIELD = MeanField(local=True, tolerance=1e-4)
PAPER = {"IMDB": -428.40}  # its best, max-product and then local mean-field


@dataclass(frozen=True)
class Arm:
    """Settings of a run: updates of max-product, then of local mean-field, from counts."""

    what: str
    mp_steps: int = 100
    vi_steps: int = 0
    parameterization: Literal["theta", "log"] = "log"
    learning_rate: float = 0.05
    final_share: float = 0.1
    graph: dict[str, Any] = field(default_factory=lambda: {"n_layers": 3})


ARMS = {
    "start": Arm("counts alone, not trained", mp_steps=0),
    "absolute": Arm(
        "100 updates, absolute steps of 0.01", parameterization="theta", learning_rate=0.01
    ),
    "relative": Arm("100 updates, steps of 5 %"),
    "faster": Arm("100 updates, steps of 10 %", learning_rate=0.1),
    "default": Arm("200 updates, steps of 5 % (`learn_topics`)", mp_steps=200),
    "five layers": Arm("100 updates, five layers", graph={"n_layers": 5}),
    "ten parents": Arm("100 updates, ten parents", graph={"n_layers": 3, "n_parents": 10}),
    "hybrid": Arm("100 updates, then 100 of local mean-field", vi_steps=100),
    "mean-field": Arm(
        "200 updates of local mean-field (`learn_topics` with it)", mp_steps=0, vi_steps=200
    ),
}
TESTED = ("default", "mean-field")


def load(dataset: str, words: int | None) -> TextData:
    """Load a data set of the paper or a substitute, or 20 newsgroups from the data folder."""
    options: dict[str, Any] = {} if words is None else {"max_words": words}
    if dataset != NEWSGROUPS:
        loaded: TextData = getattr(datasets, LOADERS[dataset])(**options)
        return loaded
    folder = data_folder()
    if folder is None or not (folder / NEWSGROUPS_FILE).exists():
        raise SystemExit(f"{NEWSGROUPS_FILE} is not in the folder of --data or NOISYOR_DATA")
    with lzma.open(folder / NEWSGROUPS_FILE, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    train, test = ([r["text"] for r in records if r["split"] == s] for s in ("train", "test"))
    return vectorize(train, test, **options)


def learned(arm: Arm, rows: Observations, threads: int) -> Network:
    """Return the network that a setting learns from rows."""
    network = start_from_counts(layered(rows, **arm.graph), rows)
    for method, steps in ((MAX_PRODUCT, arm.mp_steps), (MEAN_FIELD, arm.vi_steps)):
        network = train(
            network,
            rows,
            method,
            steps=steps,
            batch_size=1024,
            learning_rate=arm.learning_rate,
            final_learning_rate=arm.learning_rate * arm.final_share,
            parameterization=arm.parameterization,
            smoothing=1.0,
            engine=get_engine(n_threads=threads),
            progress=False,
        ).network
    return network


def run(
    name: str, dataset: str, train_rows: Observations, score_rows: Observations, threads: int
) -> dict[str, Any]:
    """Run one setting: time, both bounds of unseen rows, and the bound of independent words."""
    began, began_cpu = time.perf_counter(), time.process_time()
    network = learned(ARMS[name], train_rows, threads)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    methods = (MAX_PRODUCT, MeanField(local=True))
    result = evaluate(network, score_rows, methods, engine=get_engine(n_threads=threads))
    assert result.elbo_vi is not None
    return {
        "arm": name,
        "dataset": dataset,
        "settings": asdict(ARMS[name]),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "elbo_mp": result.elbo_mp.mean,
        "elbo_vi": result.elbo_vi.mean,
        "independent": float(independent_columns(train_rows).log_probability(score_rows).mean()),
    }


def table(found: dict[str, Any]) -> str:
    """Return the tables of the documentation from the JSON file."""
    lines = []
    for part in ("validation", "test"):
        lines += [
            f"| {part} | independent words | of the mode | mean-field | seconds of CPU |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        lines += [
            f"| {entry['dataset']}: {entry['settings']['what']} | {entry['independent']:.2f} "
            f"| {entry['elbo_mp']:.2f} | {entry['elbo_vi']:.2f} | {entry['cpu_seconds']:.0f} |"
            for entry in found[part]
        ]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = idea_arguments(__doc__ or "", ARMS)
    parser.add_argument("--dataset", choices=[*LOADERS, NEWSGROUPS], default="IMDB")
    parser.add_argument("--words", type=int, help="size of the vocabulary (default: the paper's)")
    parser.add_argument("--test", action="store_true", help="also score on the test documents")
    options = parser.parse_args()
    if options.table is not None:
        print(table(json.loads(options.table.read_text())))
        return
    use_data(options.data)
    data = load(options.dataset, options.words)
    label = options.dataset + (f", {options.words:,} words" if options.words else "")
    rows = Observations.of(data.train)
    parts = {
        "validation": rows.split(KEPT_SHARE, 0),
        "test": (rows, Observations.of(data.test)),
    }
    machine = Machine()
    found = earlier(options.json, {"paper": PAPER, "validation": [], "test": []})
    wanted = [("validation", name) for name in (ARMS if options.only is None else options.only)]
    wanted += [("test", name) for name in TESTED if options.test]
    for part, name in wanted:
        key = {"settings": asdict(ARMS[name]), "dataset": label}
        if any(key.items() <= entry.items() for entry in found[part]):
            continue
        entry = run(name, label, *parts[part], options.threads)
        found[part].append(entry)
        found["environment"] = machine.describe()
        write(options.json, found)
        print(
            f"{part:10s} {label} {name:18s} mode {entry['elbo_mp']:.2f} "
            f"mean-field {entry['elbo_vi']:.2f} CPU {entry['cpu_seconds']:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
