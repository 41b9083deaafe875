"""The commands on users' files, through the real entry."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import noisyor as nor
from noisyor._util.locks import locked
from noisyor.cli.main import main
from noisyor.io.model_file import read_metadata
from noisyor.tables import ReadOptions
from noisyor.tables.read import read_table

COMMANDS = ("fit", "resume", "explain", "evaluate", "sample", "export", "info")
NAMES = (
    *("fever", "cough", "aches", "chills", "rash", "red eyes", "spots", "itching"),
    *("sneezing", "runny nose", "sore throat", "hoarse"),
)
FIT = ["fit", "patients.csv", "--id-column", "patient", "--components", "3", "--steps", "300"]


def patients() -> str:
    """120 patients with three diseases, each with four of the twelve symptoms."""
    random = np.random.default_rng(0)
    ill = random.random((120, 3)) < 0.3
    brings = np.kron(np.eye(3), np.full((1, 4), 0.9))
    well = np.prod(1 - ill[:, :, None] * brings, axis=1) * 0.99
    rows = (random.random((120, 12)) > well).astype(int)
    lines = [f"p{k:03}," + ",".join(map(str, row)) for k, row in enumerate(rows)]
    return "\n".join(["patient," + ",".join(NAMES), *lines]) + "\n"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A folder with the patients and a model of them."""
    folder = tmp_path_factory.mktemp("fitted")
    before = Path.cwd()
    os.chdir(folder)
    try:
        Path("patients.csv").write_text(patients())
        assert main([*FIT, "--quiet"]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    for path in fitted.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())


def run(capsys, *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_shows_examples_and_json(self, capsys, command):
        text = run(capsys, command, "--help")
        assert f"noisyor {command} " in text.partition("Examples:")[2]
        assert "--json" in text


class TestFit:
    def test_the_model_says_where_it_comes_from(self):
        told = read_metadata("patients.safetensors")
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
        assert "training_elbo" in read_metadata("patients.safetensors")["metrics"]

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
        assert read_metadata("counts.safetensors")["reading"]["weights"] == "n"
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
        assert read_metadata("patients.safetensors")["settings"]["steps"] == 5

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
        assert "--topics says how many" in capsys.readouterr().err

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


class TestStops:
    def test_a_stopped_run_goes_on_to_the_same_bits(self, capsys, monkeypatch):
        import noisyor.learning.train as training

        whole = Path("patients.safetensors").read_bytes()
        theta = nor.load_network("patients.safetensors").theta
        step, done = training.updated, []

        def interrupted(state, *arguments, **options):
            done.append(state.step)
            if state.step == 100:
                raise KeyboardInterrupt
            return step(state, *arguments, **options)

        monkeypatch.setattr(training, "updated", interrupted)
        assert main([*FIT, "--out", "m.safetensors", "--quiet"]) == 130
        captured = capsys.readouterr()
        assert "noisyor resume m.safetensors" in captured.err
        assert captured.err.endswith("noisyor: interrupted\n")
        assert not Path("m.safetensors").exists()
        assert Path("m.safetensors.checkpoint").exists()

        # Another fit does not throw the kept run away.
        assert main([*FIT, "--out", "m.safetensors"]) == 2
        assert "noisyor resume m.safetensors" in capsys.readouterr().err

        monkeypatch.setattr(training, "updated", step)
        run(capsys, "resume", "m.safetensors", "--quiet")
        assert nor.load_network("m.safetensors").theta.tobytes() == theta.tobytes()
        assert not list(Path().glob("*.checkpoint*"))
        assert Path("patients.safetensors").read_bytes() == whole

    def test_before_anything_is_learned(self, capsys, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("noisyor.cli.fitting.job.read_table", interrupt)
        assert main([*FIT, "--out", "m.safetensors"]) == 130
        assert capsys.readouterr().err.strip() == "noisyor: interrupted"
        assert not list(Path().glob("m.*"))

    @pytest.mark.skipif(os.name == "nt", reason="signals differ")
    def test_control_c(self):
        code = "import sys; from noisyor.cli.main import main; sys.exit(main(sys.argv[1:]))"
        arguments = [*FIT[:-1], "1000000", "--out", "m.safetensors", "--threads", "1"]
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            kept = Path("m.safetensors.checkpoint.search")
            deadline = time.monotonic() + 60
            while not kept.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert "to continue: noisyor resume m.safetensors" in errors
        assert "Traceback" not in errors
        assert kept.exists()

    def test_a_search_that_is_stopped_goes_on_to_the_same_bits(self, capsys, monkeypatch):
        import noisyor.search.factor_restarts as factors

        theta = nor.load_network("patients.safetensors").theta
        start = factors.Starts.start

        def interrupted(search, kind, number, size):
            if number == 1:
                raise KeyboardInterrupt
            return start(search, kind, number, size)

        monkeypatch.setattr(factors.Starts, "start", interrupted)
        assert main([*FIT, "--out", "m.safetensors", "--quiet"]) == 130
        assert "to continue: noisyor resume m.safetensors" in capsys.readouterr().err
        assert Path("m.safetensors.checkpoint.search").exists()

        # The best so far can also be had at once.
        for path in Path().glob("m.safetensors.checkpoint*"):
            path.with_name("n" + path.name[1:]).write_bytes(path.read_bytes())
        arguments = ["resume", "n.safetensors", "--out", "n.safetensors", "--time-limit", "1e-3"]
        assert main([*arguments, "--quiet"]) == 0
        assert nor.load_network("n.safetensors").n_hidden == 3

        monkeypatch.setattr(factors.Starts, "start", start)
        run(capsys, "resume", "m.safetensors", "--quiet")
        assert nor.load_network("m.safetensors").theta.tobytes() == theta.tobytes()
        assert not list(Path().glob("*.checkpoint*"))

    def test_a_limit_of_time(self, capsys):
        # three seconds are enough for patients, a thousandth is not enough for anything
        assert main([*FIT, "--out", "m.safetensors", "--quiet", "--time-limit", "1e-3"]) == 1
        assert "nothing found" in capsys.readouterr().err
        assert nor.load_network("m.safetensors").n_visible == 12
        assert not list(Path().glob("*.checkpoint*"))

    def test_a_foreign_file_in_the_place_of_the_search_stays(self, capsys):
        Path("m.safetensors.checkpoint.search").write_text("precious")
        assert main([*FIT, "--out", "m.safetensors", "--force"]) == 2
        assert "belongs to no run" in capsys.readouterr().err
        assert Path("m.safetensors.checkpoint.search").read_text() == "precious"

    def test_a_finished_model_is_trained_further(self, capsys):
        before = nor.load_network("patients.safetensors")
        text = run(capsys, "resume", "patients.safetensors", "--steps", "20", "--out", "n")
        assert "12 held-out rows" in text
        after = nor.load_network("n")
        assert after.visible_names == before.visible_names
        assert not np.array_equal(after.theta, before.theta)
        told = read_metadata("n")["settings"]
        assert (told["steps"], told["earlier"]["steps"]) == (20, 300)
        Path("patients.csv").rename("moved.csv")
        run(capsys, "resume", "n", "--steps", "5", "--data", "moved.csv", "--quiet")
        assert read_metadata("n")["settings"]["steps"] == 5

    def test_a_topic_model_goes_on_with_steps_of_its_own_kind(self, capsys):
        Path("notes.txt").write_text("cough fever cold\nrash itch spots\npain\nhead\n" * 30)
        options = ("--kind", "topics", "--layers", "2", "--steps", "3", "--quiet")
        run(capsys, "fit", "notes.txt", *options, "--out", "t")
        before = read_metadata("t")["settings"]
        run(capsys, "resume", "t", "--steps", "2", "--quiet")
        after = read_metadata("t")["settings"]
        assert before["step_on"] == after["step_on"] == "log"
        assert before["smoothing"] == after["smoothing"] > 0
        assert before["final_learning_rate"] == after["learning_rate"] < before["learning_rate"]


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
        import noisyor.io.sealed_file as sealed_file

        opened, content = [], sealed_file._content
        monkeypatch.setattr(
            sealed_file, "_content", lambda path: opened.append(path) or content(path)
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
        expected = nor.evaluate(network, data, nor.MaxProduct(polish=20)).elbo_mp
        assert record["elbo_mp"]["mean"] == pytest.approx(expected.mean)
        assert record["elbo_mp"]["standard_error"] == pytest.approx(expected.standard_error)
        assert record["elbo_vi"]["mean"] > record["independent"]["mean"]
        assert record["rows"] == 120

    def test_text(self, capsys):
        text = run(capsys, "evaluate", "patients.safetensors", "patients.csv", "--quick")
        assert "Elbo^MP" in text
        assert "Elbo^VI" not in text
        assert "independent columns" in text


class TestSample:
    @pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "npy"])
    def test_what_is_read_back(self, capsys, ending):
        out, causes = f"x.{ending}", f"h.{ending}"
        run(
            capsys,
            *("sample", "patients.safetensors", "-n", "50", "--seed", "3"),
            *("--out", out, "--causes", causes),
        )
        network = nor.load_network("patients.safetensors")
        drawn = nor.sample(network, 50, seed=3)
        found = read_table(out, None, network).observations
        np.testing.assert_array_equal(found.to_dense(), drawn.visible.toarray())
        assert Path(causes).stat().st_size > 0
        assert main(["sample", "patients.safetensors", "--out", out]) == 2
        assert "--force" in capsys.readouterr().err


class TestExportAndInfo:
    @pytest.mark.parametrize("to", ["graphml", "json", "csv", "bif"])
    def test_export(self, capsys, to):
        run(capsys, "export", "patients.safetensors", "--to", to, "--out", f"x.{to}", "--quiet")
        assert "fever" in Path(f"x.{to}").read_text()

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

    def test_sets_of_alternatives_are_named(self, capsys):
        nor.save_network("sets", nor.bipartite(4, 3, alternatives=[0, -1, 0]))
        text = run(capsys, "info", "sets")
        assert "1 of alternatives: at most one cause of a set is on" in text
        assert text.count("(one of set 0)") == 2
        record = json.loads(run(capsys, "info", "sets", "--json"))
        assert [cause.get("one_of") for cause in record["causes"]].count(0) == 2
        Path("rows.csv").write_text("a,b,c,d\n1,0,1,0\n0,0,0,1\n")
        result = json.loads(run(capsys, "evaluate", "sets", "rows.csv", "--json"))
        assert result["elbo_vi"] is None

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


class TestTwoAtOnce:
    def test_the_second_fit_names_the_first(self, capsys):
        before = Path("patients.safetensors").read_bytes()
        for name in ("patients.safetensors", "patients.safetensors.checkpoint"):
            with locked(Path(name), "noisyor fit"):
                assert main([*FIT, "--force", "--quiet"]) == 2
            error = capsys.readouterr().err
            assert f"{name} is in use: process {os.getpid()} (noisyor fit) works on it" in error
            assert error.count("\n") == 1
        with locked(Path("patients.safetensors"), "noisyor fit"):
            assert main(["resume", "patients.safetensors", "--steps", "1", "--quiet"]) == 2
        assert "in use" in capsys.readouterr().err
        assert Path("patients.safetensors").read_bytes() == before

    def test_a_run_that_goes_on_is_not_called_stopped(self, capsys):
        Path("other.safetensors.checkpoint.json").write_text("{}")  # as its plan is on disk by now
        with locked(Path("other.safetensors"), "noisyor fit"):
            assert main([*FIT, "--out", "other.safetensors", "--quiet"]) == 2
        assert "other.safetensors is in use: process" in capsys.readouterr().err
        assert main([*FIT, "--out", "other.safetensors", "--quiet"]) == 2
        assert "holds a run that was stopped" in capsys.readouterr().err

    def test_no_lock_is_left(self, capsys):
        run(capsys, *FIT, "--out", "m.safetensors", "--steps", "1")
        assert not list(Path().glob(".*"))


class TestRemembered:
    def test_the_training_file_needs_no_option_again(self, capsys):
        text = patients().replace(",", "|").partition("\n")[2]
        Path("odd.data").write_text(text)
        fit = ["fit", "odd.data", "--format", "csv", "--delimiter", "|", "--no-header"]
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
