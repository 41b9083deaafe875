"""The commands on users' files, through the real entry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from patients_table import FIT, NAMES, patients, run

import noisyor as nor
from noisyor.cli.main import main
from noisyor.io.model_file import load_model
from noisyor.tables import ReadOptions
from noisyor.tables.table import read_table

COMMANDS = ("fit", "explain", "evaluate", "info")
pytestmark = pytest.mark.usefixtures("patients_folder")


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_shows_examples_and_json(self, capsys, command):
        text = run(capsys, command, "--help")
        assert f"noisyor {command} " in text.partition("Examples:")[2]
        assert "--json" in text


class TestFit:
    def test_the_model_says_where_it_comes_from(self):
        told = load_model("patients.safetensors").metadata
        data = read_table("patients.csv", ReadOptions(id_column="patient")).observations
        assert told["kind"] == "factors"
        assert told["data"]["sha256"] == data.fingerprint()
        assert told["data"]["source"] == "patients.csv"
        assert told["reading"] == {"id_column": "patient"}
        assert told["settings"]["steps"] == 300
        assert told["settings"]["n_components"] == 3
        assert told["metrics"]["held_out_elbo"] > told["metrics"]["held_out_independent"]
        assert told["curve"]["held_out_elbo"]
        assert told["versions"]["noisyor"] == nor.__version__

    def test_names(self):
        network = nor.load_network("patients.safetensors")
        assert network.visible_names == NAMES
        for name in network.hidden_names or ():
            words = name.partition(": ")[2].split(", ")
            assert len(words) == 3
            assert len({NAMES.index(word) // 4 for word in words}) == 1  # of one disease

    def test_text_and_files(self, capsys):
        text = run(capsys, *FIT, "--out", "m.safetensors")
        assert "120 rows, 12 columns" in text
        assert "12 held-out rows" in text
        assert "cause 0: " in text
        again, first = Path("m.safetensors"), Path("patients.safetensors")
        theta = nor.load_network(again).theta
        assert theta.tobytes() == nor.load_network(first).theta.tobytes()
        assert sorted(path.name for path in Path().iterdir()) == [
            "m.safetensors",
            "patients.csv",
            "patients.safetensors",
        ]

    def test_json(self, capsys):
        record = json.loads(run(capsys, *FIT, "--force", "--json", "--held-out", "0.25"))
        assert record["held_out_rows"] == 30
        assert record["elbo"] > record["independent"]

    def test_nothing_held_out(self, capsys):
        text = run(capsys, *FIT, "--force", "--held-out", "0")
        assert "on the training rows" in text
        assert "training_elbo" in load_model("patients.safetensors").metadata["metrics"]

    def test_an_aggregated_table(self, capsys):
        top, *lines = patients().splitlines()
        counts = np.arange(len(lines)) % 3
        Path("counts.csv").write_text(
            "\n".join([f"{top},n", *(f"{a},{n}" for a, n in zip(lines, counts, strict=True))])
        )
        Path("long.csv").write_text("\n".join([top, *np.repeat(lines, counts).tolist()]))
        arguments = ["--id-column", "patient", "--weights", "n", "--components", "3"]
        text = run(capsys, "fit", "counts.csv", *arguments, "--steps", "20")
        assert "80 rows that stand for 120, 12 columns" in text
        assert "12 held-out rows" in text
        assert load_model("counts.safetensors").metadata["reading"]["weights"] == "n"
        records = [
            json.loads(run(capsys, "evaluate", "counts.safetensors", data, "--json"))
            for data in ("counts.csv", "long.csv")  # the model knows the column, if there is one
        ]
        for record in records:
            assert record["elbo_mp"]["mean"] == pytest.approx(records[0]["elbo_mp"]["mean"])
            assert record["independent"] == pytest.approx(records[0]["independent"])

    def test_a_link_stays_one(self, capsys):
        Path("link.safetensors").symlink_to("patients.safetensors")
        run(capsys, *FIT, "--steps", "5", "--out", "link.safetensors", "--force", "--quiet")
        assert Path("link.safetensors").is_symlink()
        assert load_model("patients.safetensors").metadata["settings"]["steps"] == 5

    def test_topics(self, capsys):
        random = np.random.default_rng(1)
        subjects = [
            ("goal", "team", "coach", "league", "player", "match"),
            ("oven", "bread", "flour", "sugar", "recipe", "cake"),
            ("planet", "orbit", "rocket", "galaxy", "comet", "probe"),
        ]
        lines = [
            json.dumps({"text": " ".join(random.choice(subjects[k % 3], 5)), "id": f"d{k}"})
            for k in range(150)
        ]
        Path("texts.jsonl").write_text("\n".join(lines))
        arguments = ["--layers", "3", "--steps", "60", "--id-column", "id"]
        assert main(["fit", "texts.jsonl", *arguments]) in (0, 1)  # a short run may find nothing
        assert "topics" in capsys.readouterr().out
        network = nor.load_network("texts.safetensors")
        assert {name.partition("-")[0] for name in network.hidden_names or ()} == {
            "layer1",
            "layer2",
        }
        Path("new.txt").write_text("the coach of the team\nflour and sugar\n")
        assert main(["explain", "texts.safetensors", "new.txt"]) in (0, 1)
        assert "row 1: " in capsys.readouterr().out
        Path("other.jsonl").write_text('{"text": "a comet in orbit"}\n')  # without ids
        assert main(["explain", "texts.safetensors", "other.jsonl", "--json"]) in (0, 1)
        record = json.loads(capsys.readouterr().out)
        assert set(record["rows"][0]["present"]) == {"comet", "orbit"}

    def test_a_number_of_topics(self, capsys):
        lines = ["wave sail boat storm", "king crown court throne"] * 15 + [
            "sail boat",
            "king crown",
        ]
        Path("tales.txt").write_text("\n".join(lines))
        text = run(capsys, "fit", "tales.txt", "--topics", "2", "--held-out", "0")
        assert "topics, 2 causes in 1 layer" in text
        model = nor.TopicModel.load("tales.safetensors")
        told = json.loads(run(capsys, "info", "tales.safetensors", "--json"))["causes"]
        shown = {cause["index"]: [item["name"] for item in cause["switches_on"]] for cause in told}
        assert [shown[0], shown[1]] == model.topic_words_
        assert "topic 0: " in text
        assert main(["fit", "tales.txt", "--topics", "2", "--layers", "3", "--out", "n"]) == 2
        assert "--topics" in capsys.readouterr().err

    def test_images(self, capsys):
        random = np.random.default_rng(0)
        images = np.zeros((30, 6, 6), dtype=np.uint8)
        for image in images:
            y, x = random.integers(0, 5, 2)
            image[y : y + 2, x : x + 2] = 1
        np.save("images.npy", images)
        arguments = ["--components", "1", "--feature-shape", "2x2", "--steps", "200"]
        assert main(["fit", "images.npy", *arguments]) in (0, 1)
        network = nor.load_network("images.safetensors")
        assert network.visible_shape == (6, 6)
        assert network.hidden_names is not None
        assert network.hidden_names[0].startswith("feature 0 at ")


class TestExplain:
    def test_rows(self, capsys):
        text = run(capsys, "explain", "patients.safetensors", "patients.csv", "--rows", "0,2-3")
        assert text.count("best explanation") == 3
        assert "row 2 (p002)" in text
        assert "exact: all 8 combinations of 3 causes" in text

    def test_what_is_said_is_what_is_computed(self, capsys):
        out = run(
            capsys, "explain", "patients.safetensors", "patients.csv", "--rows", "0-4", "--json"
        )
        network = nor.load_network("patients.safetensors")
        data = read_table("patients.csv", ReadOptions(id_column="patient")).observations
        expected = nor.inference.enumerate_posterior(network, data.take(slice(0, 5)))
        for number, row in enumerate(json.loads(out)["rows"]):
            for cause in row["causes"]:
                exact = expected.marginals[number, cause["index"]]
                assert cause["probability"] == pytest.approx(exact)

    @pytest.mark.parametrize("command", ["explain", "evaluate"])
    def test_the_model_file_is_read_once(self, capsys, monkeypatch, command):
        import noisyor.io.model_file as model_file

        opened, content = [], model_file._content
        monkeypatch.setattr(
            model_file, "_content", lambda path: opened.append(path) or content(path)
        )
        run(capsys, command, "patients.safetensors", "patients.csv")
        assert len(opened) == 1

    def test_findings(self, capsys):
        arguments = ["--observe", "fever,cough", "--absent", "rash", "--what-if", "Red Eyes"]
        text = run(capsys, "explain", "patients.safetensors", *arguments)
        assert "2 present, 1 absent, 9 unknown" in text
        assert "if 'red eyes' were present (now unknown)" in text

    def test_nothing_found(self, capsys):
        Path("none.csv").write_text(",".join(NAMES) + "\n" + ",".join("0" * 12) + "\n")
        text = run(capsys, "explain", "patients.safetensors", "none.csv", code=1)
        assert "no cause, noise" in text

    def test_more_rows_than_are_shown(self, capsys):
        assert main(["explain", "patients.safetensors", "patients.csv"]) == 0
        captured = capsys.readouterr()
        assert captured.out.count("best explanation") == 10
        assert "110 more rows" in captured.err


class TestEvaluate:
    def test_the_numbers_are_those_of_the_library(self, capsys):
        out = run(capsys, "evaluate", "patients.safetensors", "patients.csv", "--json")
        record = json.loads(out)
        network = nor.load_network("patients.safetensors")
        data = read_table("patients.csv", ReadOptions(id_column="patient")).observations
        expected = nor.evaluate(network, data, nor.MaxProduct(icm=20)).elbo_mp
        assert record["elbo_mp"]["mean"] == pytest.approx(expected.mean)
        assert record["elbo_mp"]["standard_error"] == pytest.approx(expected.standard_error)
        assert record["elbo_vi"]["mean"] > record["independent"]["mean"]
        assert record["rows"] == 120

    def test_text(self, capsys):
        text = run(capsys, "evaluate", "patients.safetensors", "patients.csv", "--quick")
        assert "Elbo^MP" in text
        assert "Elbo^VI" not in text
        assert "independent columns" in text


class TestInfo:
    def test_info(self, capsys):
        text = run(capsys, "info", "patients.safetensors", "--top", "1")
        for word in ("factors", "12 findings", "3 causes", "120 rows", "held_out_elbo", "2 more"):
            assert word in text
        record = json.loads(run(capsys, "info", "patients.safetensors", "--json"))
        assert record["metadata"]["kind"] == "factors"
        assert len(record["causes"]) == 3

    def test_any_model_of_the_library(self, capsys):
        nor.save_network("bare", nor.bipartite(4, 2), metadata={"data": "strange", "metrics": 3})
        assert "4 findings, 2 causes" in run(capsys, "info", "bare")

    @pytest.mark.skipif(os.name == "nt", reason="pipes differ")
    def test_a_reader_that_stops_early(self):
        code = (
            "import sys; from noisyor.cli.main import main;"
            "sys.exit(main(['info', 'patients.safetensors', '--json']))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.stderr.close()
        process.wait(timeout=60)
        assert errors == ""


class TestRemembered:
    def test_the_training_file_needs_no_option_again(self, capsys):
        text = patients().replace(",", "|").partition("\n")[2]
        Path("odd.data").write_text(text)
        fit = ["fit", "odd.data", "--format", "csv", "--no-header"]
        run(capsys, *fit, "--id-column", "0", "--components", "3", "--quiet")
        assert "row 0 (p000)" in run(
            capsys, "explain", "odd.safetensors", "odd.data", "--rows", "0"
        )
        told = json.loads(
            run(capsys, "evaluate", "odd.safetensors", "odd.data", "--quick", "--json")
        )
        assert told["rows"] == 120
        run(capsys, "report", "odd.safetensors", "odd.data", "--quiet")
        assert Path("report.html").is_file()
