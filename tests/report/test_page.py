from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from report_examples import NASTY, QUOTES

import noisyor as nor
from noisyor.cli.main import main
from noisyor.errors import InvalidDataError, InvalidSettingError, NoisyOrError
from noisyor.report.inputs import kind_of, read_model, rows_for
from noisyor.report.page import model_page, write_report

VOID = {"meta", "input", "br"}


class Checker(HTMLParser):
    """Elements that close in order, and the attributes that must fit together."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.pointed: list[str] = []
        self.unlabelled: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        for name in ("aria-labelledby", "aria-describedby", "for"):
            if name in given:
                self.pointed.append(given[name])
        if (given.get("href") or "").startswith("#"):
            self.pointed.append(given["href"][1:])
        if given.get("role") == "img" and not given.get("aria-label"):
            self.unlabelled.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(example, data=True, **options):
    model = read_model(example.model)
    return model_page(model, rows_for(model, example.data) if data else None, **options)


def embedded(html: str) -> dict:
    pattern = r'<script type="application/json" id="report-data">(.*?)</script>'
    return json.loads(re.search(pattern, html, re.DOTALL)[1])


@pytest.fixture(scope="module")
def pages(topics, factors, features) -> dict:
    return {
        (name, data): page_of(example, data)
        for name, example in (("topics", topics), ("factors", factors), ("features", features))
        for data in (True, False)
    }


@pytest.fixture(params=["topics", "factors", "features"])
def kind(request) -> str:
    return request.param


class TestPage:
    @pytest.mark.parametrize("data", [True, False])
    def test_it_is_well_formed(self, pages, kind, data):
        checked = Checker(pages[kind, data].html)
        assert len(checked.ids) == len(set(checked.ids))
        # The explorer answers to the addresses of causes.
        causes = {f"cause-{k}" for k in range(6)}
        assert set(checked.pointed) - causes <= set(checked.ids)
        assert not checked.unlabelled
        assert checked.tags.count("h1") == checked.tags.count("main") == 1
        assert checked.tags.count("script") == 2

    def test_it_needs_nothing_from_outside(self, pages, kind):
        html = re.sub(r"<script.*?</script>", "", pages[kind, True].html, flags=re.DOTALL)
        assert not re.search(r"(?i)https?:|url\(|@import|<link|<img|src=", html)
        assert "default-src 'none'" in html

    def test_names_are_escaped(self, pages):
        for name in ("topics", "factors"):
            html = pages[name, True].html
            assert NASTY not in html
            assert QUOTES not in html
            assert NASTY in embedded(html)["explorer"]["visible"]
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html  # from the settings
        assert QUOTES in embedded(pages["topics", True].html)["explorer"]["visible"]

    def test_the_numbers_are_on_it(self, pages, kind):
        page = pages[kind, True]
        own = (page.summary[name] for name in ("log_p", "elbo", "independent_log_p"))
        for value in (*own, -21.0, -25.0):
            assert f"{value:.2f}".replace("-", "−") in page.html
        assert page.summary["kind"] == kind
        assert pages[kind, False].summary["elbo"] is None

    def test_the_headline_agrees_with_the_numbers_below_it(self, pages, kind):
        page = pages[kind, True]
        share = page.summary["ones_explained" if kind == "topics" else "ones_reconstructed"]
        verb = "explain" if kind == "topics" else "reconstruct"
        top = re.search(r"<h1>(.*?)</h1>", page.html)[1]
        assert f"{verb} " in top
        assert int(re.search(r"(\d+)(?:\.\d)?\u00a0%", top)[1]) == pytest.approx(100 * share, abs=1)
        card = re.search(rf"{verb}ed</span><strong>(\d+) %", page.html)
        assert int(card[1]) == pytest.approx(100 * share, abs=1)

    def test_scores_can_be_skipped(self, factors):
        page = page_of(factors, scores=False)
        Checker(page.html)
        assert page.summary["log_p"] is page.summary["mixture"] is None
        assert page.summary["ones_reconstructed"] > 0.5

    def test_it_is_small(self, pages, kind):
        assert len(pages[kind, True].html.encode()) < 200_000

    def test_dead_and_duplicate_factors_are_named(self, pages):
        summary = pages["factors", True].summary
        assert any(name.startswith("cause 3") for name in summary["dead"])
        without = pages["factors", False]
        groups = without.summary["duplicates"]
        assert [[name.split(" (")[0] for name in group] for group in groups] == [
            ["cause 0", "cause 4"]
        ]
        assert " = ".join(groups[0]) in without.html

    def test_pixels_of_the_images_add_up(self, features, pages):
        html = pages["features", True].html
        explained = residual = 0
        for label in re.findall(r'aria-label="residuals of image \d+: (\d+) pixels missed', html):
            residual += int(label)
            explained += 1
        assert explained == 24
        assert html.count('class="stamp ') > 20
        assert residual / (24 * 81) < 0.05

    def test_the_same_input_gives_the_same_page(self, factors):
        assert page_of(factors).html == page_of(factors).html

    def test_fewer_rows_are_said(self, topics):
        html = page_of(topics, max_rows=20).html
        assert "20 of the 300 documents given" in html


class TestKinds:
    def test_without_metadata_the_network_tells(self, topics, factors, features, tmp_path):
        for example, kind in ((topics, "topics"), (factors, "factors"), (features, "features")):
            assert kind_of(example.network) == kind
            plain = tmp_path / f"{kind}.safetensors"
            nor.save_network(plain, example.network)
            model = read_model(plain)
            assert model.kind == kind
            page = model_page(model, rows_for(model, example.data))
            Checker(page.html)
            assert "The model file says nothing about its origin." in page.html

    @pytest.mark.parametrize(
        "metadata",
        [
            {"kind": "features"},
            {"kind": 7, "curve": [1, 2], "metrics": "good", "data": None, "reading": 3},
            {"curve": {"step": [1, 2], "elbo": [1]}, "metrics": {"held_out_elbo": None}},
            {"curve": {"step": ["a"], "elbo": ["b"], "held_out_step": [1], "held_out_elbo": [-3]}},
            {"curve": {"step": [5], "elbo": [-3.0]}, "settings": {"deep": {"er": [1, {"x": 2}]}}},
        ],
    )
    def test_odd_metadata_do_no_harm(self, factors, tmp_path, metadata):
        path = tmp_path / "odd.safetensors"
        nor.save_network(path, factors.network, metadata=metadata)
        model = read_model(path)
        assert model.kind == "factors"
        Checker(model_page(model, rows_for(model, factors.data)).html)

    def test_any_network(self, topics, tmp_path):
        path = tmp_path / "any.safetensors"
        nor.save_network(path, topics.network, metadata={"kind": "network"})
        assert "6 causes in 2 layers above 12 findings" in model_page(read_model(path)).html

    def test_the_kind_comes_from_the_layout(self, features):
        assert kind_of(features.network) == "features"
        assert kind_of(replace(features.network, layout=None)) == "factors"
        assert kind_of(nor.bipartite(9, 2)) == "factors"

    def test_one_cause_one_column_one_row(self, tmp_path):
        path = tmp_path / "tiny.safetensors"
        nor.save_network(path, nor.bipartite(1, 1))
        for X in ([[1]], [[0]], [[np.nan]]):
            Checker(model_page(read_model(path), rows_for(read_model(path), np.array(X))).html)

    def test_columns_of_a_file_are_found_by_name(self, factors):
        model = read_model(factors.model)
        names = factors.observations.column_names
        order = np.random.default_rng(0).permutation(9)
        shuffled = nor.Observations.of(
            factors.observations.to_dense()[:, order], column_names=[names[i] for i in order]
        )
        found = rows_for(model, shuffled).observations
        assert found.fingerprint() == factors.observations.fingerprint()
        with pytest.raises(InvalidDataError, match="columns"):
            rows_for(model, np.zeros((3, 8)))


class TestFiles:
    def test_a_fitted_estimator_has_a_report(self, tmp_path):
        X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
        model = nor.BooleanMatrixFactorization(2).fit(X)
        result = write_report(model, X, tmp_path / "page.html", scores=False)
        assert (result["hidden"], result["kind"], result["rows_explained"]) == (2, "factors", 20)
        result = write_report(model.network_, out=tmp_path / "page.html")
        assert result["hidden"] == 2
        with pytest.raises(InvalidSettingError, match=r"page\.html"):
            write_report(model, tmp_path / "page.html", X)

    def test_recurrence_number_of_causes_and_odd_rows_are_shown(self, tmp_path):
        X = np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], 40, axis=0)
        X[7] = [1, 1, 1, 0, 0, 1]
        model = nor.BooleanMatrixFactorization(2).fit(X)
        model.provenance_["stability"] = {"recurrence": [1.0, 0.2], "n_resamples": 5}
        sizes = {"n_components": [1, 2, 4], "log_p": [-4.0, -2.0, -1.9]}
        curve = {**sizes, "standard_error": [0.2, 0.2, 0.2], "chosen": 2, "n_rows": 20}
        model.provenance_["settings"] = {"n_components_curve": curve}
        result = write_report(model, X, tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text("utf-8")
        Checker(text)
        assert next(iter(result["odd"])) == 7
        assert "1 of 2 causes were found again" in text
        assert "2 were chosen" in text
        assert text.count("doubtful") > 1
        for broken in ({"recurrence": ["x", 2]}, {"recurrence": [0.5]}, 7):
            model.provenance_["stability"] = broken
            model.provenance_["settings"] = {"n_components_curve": {**curve, "log_p": "x"}}
            write_report(model, X, tmp_path / "page.html", scores=False)
            text = (tmp_path / "page.html").read_text("utf-8")
            assert "found again" not in text
            assert "were chosen" not in text

    def test_a_report_is_replaced_but_nothing_else(self, factors, tmp_path):
        out = tmp_path / "new" / "report.html"
        result = write_report(factors.model, factors.data, out)
        assert out.stat().st_size == result["bytes"]
        write_report(factors.model, out=out)
        other = tmp_path / "mine.html"
        other.write_text("mine")
        with pytest.raises(InvalidSettingError, match="not written by a report"):
            write_report(factors.model, out=other)
        assert other.read_text() == "mine"
        write_report(factors.model, out=other, force=True)
        assert "noisyor report" in other.read_text(encoding="utf-8")
        for path in (factors.model, factors.data):
            before = path.read_bytes()
            with pytest.raises(InvalidSettingError, match="cannot be written"):
                write_report(factors.model, factors.data, path, force=True)
            assert path.read_bytes() == before

    def test_wrong_data_leave_no_page(self, factors, topics, tmp_path):
        for data in (topics.data, tmp_path / "absent.csv"):
            with pytest.raises(NoisyOrError):
                write_report(factors.model, data, tmp_path / "r.html")
        assert list(tmp_path.iterdir()) == []


class TestCommand:
    def test_text_and_json(self, factors, tmp_path, capsys):
        out = tmp_path / "r.html"
        assert main(["report", str(factors.model), str(factors.data), "--out", str(out)]) == 0
        text = capsys.readouterr().out
        assert str(out) in text
        assert "nats a row" in text
        arguments = ["report", str(factors.model), str(factors.data), "--out", str(out), "--json"]
        assert main(arguments) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["rows_explained"] == 200
        assert record["bytes"] == out.stat().st_size
        assert main(["report", str(factors.model), "--out", str(out), "--quiet"]) == 0
        assert capsys.readouterr().out == ""

    def test_errors_are_one_line(self, factors, topics, tmp_path, capsys):
        out = str(tmp_path / "r.html")
        for arguments in (
            ["report", str(tmp_path / "no.safetensors"), "--out", out],
            ["report", str(factors.data), "--out", out],
            ["report", str(factors.model), str(topics.data), "--out", out],
            ["report", str(factors.model), "--out", str(factors.data)],
            ["report", str(factors.model), "--max-rows", "0"],
        ):
            assert main(arguments) == 2
            captured = capsys.readouterr()
            assert captured.err.startswith("noisyor: error: ")
            assert captured.err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []
