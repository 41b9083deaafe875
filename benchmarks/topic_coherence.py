"""Compare coherence and diversity of topics with NMF, LDA and CorEx on long and short texts.

Coherence is the mean normalized pointwise mutual information (NPMI) of the pairs of a topic's ten
words in documents that no model has seen; a pair that never occurs together has -1. Diversity is
the share of distinct words among all words of all topics. LDA uses counts, NMF tf-idf weights,
CorEx and noisy-OR the set of words. Words of noisy-OR are chosen by `topic_words`. Variants:
"noisy-OR, distinctive" chooses words by the parameters of the model alone; "noisy-OR, before" does
the same without additional candidate topics; "NMF, our words" lists ten of NMF's 80 words by
the rule of `topic_words`; "by gain" chooses words by p(w | t) log(p(w | t) / p(w)).

The recipe was chosen on the corpora in `CHOSEN_ON`. With `--titles`, the script measures instead
how many unseen titles have a topic, and how often it is the topic of their abstract.

    python benchmarks/topic_coherence.py --data FOLDER --out results/topic_coherence.json
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import noisyor as nor
from noisyor.data.vocabulary import words_of
from noisyor.model.names import coherent_words, distinctive_visibles, topic_words
from noisyor.search.starts import start_from_topics
from noisyor.tables import ReadOptions
from noisyor.tables.documents import rows_of_texts

WORDS = 10
SIZES = (20, 50)
SEEDS = (0, 1, 2)
LOG_P_ROWS = 300


class Corpus(NamedTuple):
    """A file, its field, the numbers of training and evaluation documents, and of words."""

    file: str
    field: str
    n_train: int
    n_test: int
    vocabulary: int


SUBJECT = "subject"
"""The line of a message's head, which is in no field of its own."""

CORPORA = {
    "20 newsgroups": Corpus("20newsgroups_bydate.jsonl.xz", "text", 11314, 7532, 2000),
    "arXiv abstracts": Corpus("arxiv_abstracts.jsonl.xz", "abstract", 10000, 30000, 2000),
    "AG news": Corpus("ag_news_train_partial.jsonl.xz", "text", 10000, 10000, 2000),
    "20 newsgroups, subjects": Corpus("20newsgroups_bydate.jsonl.xz", SUBJECT, 11314, 7532, 1000),
    "arXiv titles": Corpus("arxiv_abstracts.jsonl.xz", "title", 20000, 50000, 1000),
    "Reuters": Corpus("reuters21578.jsonl.xz", "body", 10000, 6000, 2000),
    "Reuters titles": Corpus("reuters21578.jsonl.xz", "title", 10000, 6000, 1000),
    "IMDB": Corpus("imdb_reviews_train.jsonl.xz", "text", 10000, 15000, 2000),
}
READ = ("noisy-OR", "NMF")
"""Models whose words are kept, to be read side by side."""

CHOSEN_ON = ("Reuters", "Reuters titles", "IMDB", "arXiv titles", "20 newsgroups, subjects")
"""Corpora on which the recipe was chosen: steps 1 to 3 on training documents of Reuters and IMDB,
step 4 also on unseen documents of these corpora. All others only judge it."""

Matrix = Any
Topics = list[list[int]]


def documents(corpus: Corpus, folder: Path) -> tuple[list[str], list[str]]:
    """Return training and evaluation texts, by the file's own split or a fixed shuffle."""
    with lzma.open(folder / corpus.file, "rt", encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    if corpus.field == SUBJECT:
        for record in records:
            line = re.search(r"^Subject:(.*)$", record["text"], flags=re.MULTILINE)
            record[SUBJECT] = line.group(1) if line else ""
    key = next((name for name in ("split", "lewissplit") if name in records[0]), None)
    if key is not None:
        parts: dict[str, list[str]] = {"train": [], "test": []}
        for record in records:
            if record[corpus.field]:
                parts.get(record[key].lower(), []).append(record[corpus.field])
        return parts["train"][: corpus.n_train], parts["test"][: corpus.n_test]
    order = np.random.default_rng(0).permutation(len(records))
    texts = [records[k].get(corpus.field) or "" for k in order]
    return texts[: corpus.n_train], texts[corpus.n_train : corpus.n_train + corpus.n_test]


def coherence(topics: Topics, judges: Matrix) -> float:
    """Return the mean over topics of the mean NPMI of pairs of words."""
    share = np.asarray(judges.mean(axis=0)).ravel()
    found = []
    for words in topics:
        chosen = judges[:, words]
        both = np.asarray((chosen.T @ chosen).todense()) / judges.shape[0]
        pairs = [(i, j) for i in range(len(words)) for j in range(i)]
        found.append(
            np.mean([_npmi(both[i, j], share[words[i]], share[words[j]]) for i, j in pairs])
        )
    return float(np.mean(found))


def _npmi(both: float, one: float, other: float) -> float:
    if both == 0:
        return -1.0
    return 1.0 if both == 1 else float(np.log(both / (one * other)) / -np.log(both))


def diversity(topics: Topics) -> float:
    """Return the share of distinct words."""
    return len({word for topic in topics for word in topic}) / sum(map(len, topics))


def by_weight(weights: Matrix, n: int = WORDS) -> Topics:
    order: Topics = np.argsort(-weights, axis=1, kind="stable")[:, :n].tolist()
    return order


def by_gain(weights: Matrix, counts: Matrix) -> Topics:
    """Return words sorted by p(w | topic) log(p(w | topic) / p(w))."""
    own = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    usual = (np.asarray(counts.sum(axis=0)).ravel() + 1.0) / counts.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.nan_to_num(own * np.log(own / usual), nan=-1.0)
    return by_weight(gain)


class Found(NamedTuple):
    """Topics of a method and seed, and their network, if any."""

    model: str
    topics: Topics
    seed: int = 0
    network: nor.Network | None = None


def noisy_or(binary: Matrix, counts: Matrix, size: int) -> Iterator[Found]:
    for seed in SEEDS:
        network = nor.learn_topics(binary, n_components=size, seed=seed, progress=False).network
        yield Found("noisy-OR", topic_words(network, binary, WORDS), seed, network)
        yield Found("noisy-OR, distinctive", distinctive_visibles(network, WORDS), seed)


def before(binary: Matrix, counts: Matrix, size: int) -> Iterator[Found]:
    for seed in SEEDS:
        start = start_from_topics(binary, size, seed=seed)
        network = nor.learning.learn_by_gibbs(start, binary, sweeps=30, smoothing=1.0, seed=seed)
        yield Found("noisy-OR, before", distinctive_visibles(network, WORDS), seed, network)


def nmf(binary: Matrix, counts: Matrix, size: int) -> Iterator[Found]:
    from sklearn.decomposition import NMF
    from sklearn.feature_extraction.text import TfidfTransformer

    weighted = TfidfTransformer().fit_transform(counts)
    model = NMF(size, init="nndsvd", max_iter=400, random_state=0).fit(weighted)
    yield Found("NMF", by_weight(model.components_))
    yield Found("NMF, by gain", by_gain(model.components_, counts))
    more = by_weight(model.components_, 8 * WORDS)
    yield Found("NMF, our words", coherent_words(binary, more, WORDS))


def lda(binary: Matrix, counts: Matrix, size: int) -> Iterator[Found]:
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        size, learning_method="online", batch_size=512, max_iter=10, random_state=0
    ).fit(counts)
    yield Found("LDA", by_weight(model.components_))
    yield Found("LDA, by gain", by_gain(model.components_, counts))


def corex(binary: Matrix, counts: Matrix, size: int) -> Iterator[Found]:
    from corextopic.corextopic import Corex

    model = Corex(n_hidden=size, seed=0, max_iter=50).fit(binary)
    topics = [[int(item[0]) for item in topic] for topic in model.get_topics(n_words=WORDS)]
    yield Found("CorEx", [topic for topic in topics if len(topic) > 1])


MODELS: dict[str, Callable[[Matrix, Matrix, int], Iterator[Found]]] = {
    "noisy-OR": noisy_or,
    "before": before,
    "NMF": nmf,
    "LDA": lda,
    "CorEx": corex,
}


class Prepared(NamedTuple):
    """A corpus in the forms that the models need, its unseen documents, and a description."""

    binary: Matrix
    counts: Matrix
    unseen: nor.Observations
    facts: dict[str, Any]

    def named(self, topics: Topics) -> list[str]:
        """Return the words of each topic in one string."""
        names = self.unseen.column_names
        assert names is not None
        return [" ".join(names[i] for i in topic) for topic in topics]


def prepare(name: str, folder: Path) -> Prepared:
    """Read a corpus; the vocabulary is that of the training documents."""
    from sklearn.feature_extraction.text import CountVectorizer

    corpus = CORPORA[name]
    train, test = documents(corpus, folder)
    options = ReadOptions(vocabulary=corpus.vocabulary)
    rows = rows_of_texts(((None, text) for text in train), name, options).observations
    words = rows.column_names
    unseen = rows_of_texts(((None, text) for text in test), name, options, words).observations
    number = {word.encode(): k for k, word in enumerate(words or ())}
    same_words = CountVectorizer(vocabulary=number, analyzer=lambda text: words_of(text)[:500])
    facts = {
        "documents": [len(train), len(test)],
        "words": corpus.vocabulary,
        "words_per_document": round(float(rows.n_active) / len(train), 1),
    }
    return Prepared(rows.to_csr(), same_words.transform(train), unseen, facts)


def run(name: str, texts: Prepared, out: Path, models: list[str], sizes: list[int]) -> None:
    """Run all methods on one corpus, and add each result to the record."""
    judges = texts.unseen.to_csr().astype(np.float64)
    for size in sizes:
        for model in models:
            began, cpu = time.perf_counter(), time.process_time()
            for found in MODELS[model](texts.binary, texts.counts, size):
                row = {
                    "corpus": name,
                    "n_topics": size,
                    "model": found.model,
                    "seed": found.seed,
                    "npmi": round(coherence(found.topics, judges), 4),
                    "diversity": round(diversity(found.topics), 4),
                    "topics_with_words": len(found.topics),
                    "seconds": round(time.perf_counter() - began, 1),
                    "cpu_seconds": round(time.process_time() - cpu, 1),
                    **texts.facts,
                }
                if found.model in READ and found.seed == 0:
                    row["topics"] = texts.named(found.topics)
                if found.network is not None and found.seed == 0:
                    row |= of_unseen(found.network, texts.unseen)
                print(json.dumps(row), flush=True)
                keep(row, out)
                began, cpu = time.perf_counter(), time.process_time()


def of_unseen(network: nor.Network, rows: nor.Observations) -> dict[str, float]:
    """Return log p of some unseen documents, and the share of them that have a topic."""
    some = rows.take(np.arange(LOG_P_ROWS))
    estimate = nor.inference.log_probability(network, some)
    short = rows.take(np.arange(min(2000, rows.n_rows)))
    states = nor.explain(network, short).states
    return {
        "log_p": round(float(estimate.mean), 3),
        "log_p_error": round(float(estimate.mean_error), 3),
        "with_a_topic": _share(states.sum(axis=1) > 0),
    }


def keep(row: dict[str, Any], out: Path) -> None:
    """Add a row to the record; it replaces an earlier row of the same kind."""
    record = json.loads(out.read_text()) if out.exists() else {"rows": []}
    same = ("corpus", "n_topics", "model", "seed")
    kept = [r for r in record["rows"] if any(r.get(k, 0) != row[k] for k in same)]
    record = {
        **record,
        "versions": {"noisyor": nor.__version__},
        "chosen_on": list(CHOSEN_ON),
        "rows": [*kept, row],
    }
    out.write_text(json.dumps(record, indent=1) + "\n")


def titles(folder: Path, out: Path, size: int = 20, n_unseen: int = 2000) -> None:
    """Compare topics of unseen titles with topics of their abstracts, by a model of abstracts."""
    corpus = CORPORA["arXiv abstracts"]
    train, unseen = documents(corpus, folder)
    # The same shuffle, so that title k is that of abstract k.
    _, names = documents(corpus._replace(field="title"), folder)
    options = ReadOptions(vocabulary=corpus.vocabulary)
    rows = rows_of_texts(((None, text) for text in train), "abstracts", options).observations

    def known(texts: list[str]) -> nor.Observations:
        some = ((None, text) for text in texts[:n_unseen])
        return rows_of_texts(some, "texts", options, rows.column_names).observations

    long, short = known(unseen), known(names)
    model = nor.TopicModel(n_components=size).fit(rows)
    whole = model.main_topic(long)
    some = np.diff(short.ptr) > 0
    record: dict[str, Any] = {
        "titles": n_unseen,
        "words_in_a_title": round(float(short.n_active) / n_unseen, 1),
        "with_a_known_word": round(float(some.mean()), 4),
        "with_a_topic_by_transform": _share(model.transform(short).sum(axis=1) > 0),
        "most_frequent_topic_of_abstracts": _share(
            whole == np.bincount(whole[whole >= 0]).argmax()
        ),
    }
    for absent in ("off", "unknown"):
        found = model.main_topic(short, absent=absent)
        record |= {
            f"main_topic_{absent}": _share(found >= 0),
            f"as_the_abstract_{absent}": _share(found[some] == whole[some]),
        }
    print(json.dumps(record))
    kept = json.loads(out.read_text()) if out.exists() else {"rows": []}
    out.write_text(json.dumps({**kept, "titles_by_abstracts": record}, indent=1) + "\n")


def timing(texts: Prepared, out: Path) -> None:
    """Return median wall and CPU seconds of learning, after a first run that compiles."""

    def now(size: int) -> None:
        nor.learn_topics(texts.binary, n_components=size, progress=False)

    def earlier(size: int) -> None:
        start = start_from_topics(texts.binary, size)
        nor.learning.learn_by_gibbs(start, texts.binary, sweeps=30, smoothing=1.0)

    now(5)
    record: dict[str, Any] = {}
    for size, repeats in zip(SIZES, (3, 1), strict=True):
        for name, learn in (("now", now), ("before", earlier)):
            took = []
            for _ in range(repeats):
                began, cpu = time.perf_counter(), time.process_time()
                learn(size)
                took.append([time.perf_counter() - began, time.process_time() - cpu])
            record[f"{size}, {name}"] = np.median(took, axis=0).round(1).tolist()
    print(json.dumps(record))
    kept = json.loads(out.read_text()) if out.exists() else {"rows": []}
    out.write_text(json.dumps({**kept, "seconds_and_cpu_seconds": record}, indent=1) + "\n")


def table(record: dict[str, Any]) -> Iterator[str]:
    """Return the table of the page: mean coherence and diversity over the seeds."""
    shown = ("noisy-OR", "NMF", "LDA", "CorEx", "noisy-OR, distinctive", "NMF, our words")
    yield f"| documents (words in each) | topics | {' | '.join(shown)} |"
    yield "| --- " * (len(shown) + 2) + "|"
    for name in CORPORA:
        for size in SIZES:
            rows = [r for r in record["rows"] if (r["corpus"], r["n_topics"]) == (name, size)]
            cells = []
            for model in shown:
                ours = [r for r in rows if r["model"] == model]
                if ours:
                    npmi, distinct = (np.mean([r[k] for r in ours]) for k in ("npmi", "diversity"))
                    cells.append(f"{npmi:.3f}, {distinct:.2f}")
                else:
                    cells.append("not run")
            if rows:
                words = round(rows[0]["words_per_document"])
                yield f"| {name} ({words}) | {size} | {' | '.join(cells)} |"


def _share(which: Any) -> float:
    return round(float(np.mean(which)), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path, default=Path("results/topic_coherence.json"))
    parser.add_argument("--corpus", nargs="*", default=list(CORPORA), choices=list(CORPORA))
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--titles", action="store_true")
    parser.add_argument("--timing", action="store_true", help="only time 20 newsgroups")
    parser.add_argument(
        "--table", action="store_true", help="print the table of the page from --out"
    )
    arguments = parser.parse_args()
    if arguments.table:
        print("\n".join(table(json.loads(arguments.out.read_text()))))
        return
    if arguments.timing:
        timing(prepare("20 newsgroups", arguments.data), arguments.out)
        return
    if arguments.titles:
        titles(arguments.data, arguments.out)
        return
    warnings.filterwarnings("ignore", module="sklearn")
    for name in arguments.corpus:
        texts = prepare(name, arguments.data)
        run(name, texts, arguments.out, arguments.models, arguments.sizes)


if __name__ == "__main__":
    main()
