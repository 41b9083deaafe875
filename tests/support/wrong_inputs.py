"""Wrong inputs of the command line: how to make each, the call, and what the message must name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.io

from noisyor.learning.state import Checkpoint, save_checkpoint

GOOD = "fever,cough,rash\n1,1,0\n0,1,0\n1,0,1\n0,0,0\n"
FIT = ["fit", "data.csv", "--components", "2", "--steps", "2"]
EXPLAIN = ["explain", "clinic.safetensors"]


def csv(text: str | bytes) -> Callable[[], None]:
    content = text.encode() if isinstance(text, str) else text
    return lambda: Path("data.csv").write_bytes(content) and None


def array(name: str, values: object) -> Callable[[], None]:
    return lambda: np.save(name, np.asarray(values))


def truncated_npz() -> None:
    np.savez("data.npz", X=np.eye(50))
    content = Path("data.npz").read_bytes()
    Path("data.npz").write_bytes(content[: len(content) // 2])


def truncated_mat() -> None:
    scipy.io.savemat("data.mat", {"X": np.eye(50)})
    content = Path("data.mat").read_bytes()
    Path("data.mat").write_bytes(content[: len(content) // 2])


def truncated_parquet() -> None:
    import pandas

    pandas.DataFrame({"a": [0, 1], "b": [1, 0]}).to_parquet("data.parquet")
    Path("data.parquet").write_bytes(Path("data.parquet").read_bytes()[:-20])


def pictures(*sizes: tuple[int, int], cut: bool = False) -> Callable[[], None]:
    def make() -> None:
        from PIL import Image

        Path("pictures").mkdir()
        for number, size in enumerate(sizes):
            path = Path("pictures") / f"{number}.png"
            noise = np.random.default_rng(number).integers(0, 255, size, dtype=np.uint8)
            Image.fromarray(noise).save(path)
            if cut:
                path.write_bytes(path.read_bytes()[:60])

    return make


def damaged_model() -> None:
    content = bytearray(Path("clinic.safetensors").read_bytes())
    content[-3] ^= 1
    Path("clinic.safetensors").write_bytes(content)


def cut_model() -> None:
    Path("clinic.safetensors").write_bytes(Path("clinic.safetensors").read_bytes()[:-5])


def nothing() -> None:
    pass


def folder(name: str) -> Callable[[], None]:
    return lambda: Path(name).mkdir()


def stopped_run() -> None:
    save_checkpoint("data.safetensors.checkpoint", Checkpoint("other", 0, {}))


CASES: dict[str, tuple[Callable[[], object], list[str], tuple[str, ...]]] = {
    # ---- what is in the table
    "only NaN": (array("data.npy", [[np.nan, np.nan]]), ["fit", "data.npy"], ("missing",)),
    "a two": (csv("a,b\n1,0\n0,2\n"), FIT, ("data.csv, line 3, column 'b'", "'2'", "--above")),
    "a negative number": (csv("a,b\n1,0\n0,-1\n"), FIT, ("line 3, column 'b'", "'-1'")),
    "a two in an array": (
        array("data.npy", [[0, 1], [1, 2]]),
        ["fit", "data.npy"],
        ("data.npy: row 1, column 1", "got 2"),
    ),
    "one and blank": (csv("a,b\n1,\n,1\n"), FIT, ("none is 0", "--truth 1/ says")),
    "yes and no": (csv("a,b\ny,n\nn,y\n"), FIT, ("line 2, column 'a'", "--truth y/n")),
    "more causes than columns": (
        csv(GOOD),
        ["fit", "data.csv", "--components", "500"],
        ("500", "3 columns"),
    ),
    "a half": (array("data.npy", [[0.5, 1]]), ["fit", "data.npy"], ("row 0, column 0", "0.5")),
    "infinity": (array("data.npy", [[0, np.inf]]), ["fit", "data.npy"], ("row 0, column 1", "inf")),
    "strings": (csv("a,b\n1,0\n0,high\n"), FIT, ("line 3, column 'b'", "'high'")),
    "names without --id-column": (
        csv("animal,milk\nbear,1\nbee,0\n"),
        FIT,
        ("line 2, column 'animal'", "--id-column animal"),
    ),
    "an array of strings": (
        array("data.npy", [["a", "b"]]),
        ["fit", "data.npy"],
        ("data.npy", "expected numbers"),
    ),
    "ragged rows": (csv("a,b\n1,0\n0,1,1\n"), FIT, ("line 3", "3 fields, expected 2", "baskets")),
    "an open quote": (csv('a,b\n1,"0\n0,1\n'), FIT, ("data.csv, line 2",)),
    "one dimension": (array("data.npy", [1, 0, 1]), ["fit", "data.npy"], ("shape (3,)",)),
    "five dimensions": (
        array("data.npy", np.zeros((1, 1, 1, 1, 2))),
        ["fit", "data.npy"],
        ("(1, 1, 1, 1, 2)",),
    ),
    # ---- no table at all
    "an empty file": (csv(""), FIT, ("data.csv is empty",)),
    "only a header": (csv("a,b\n"), FIT, ("data.csv holds no rows",)),
    "an array without rows": (
        array("data.npy", np.zeros((0, 3))),
        ["fit", "data.npy"],
        ("no rows",),
    ),
    "no such file": (nothing, ["fit", "gone.csv"], ("gone.csv does not exist",)),
    "an empty folder": (folder("empty"), ["fit", "empty"], ("without .png or .txt",)),
    "a folder instead of a file": (
        folder("empty"),
        ["fit", "empty", "--format", "csv"],
        ("empty is a folder",),
    ),
    "a device": (nothing, ["fit", "/dev/null"], ("/dev/null", "not a regular file")),
    "an unknown ending": (
        lambda: Path("data.xyz").write_text("1,0\n"),
        ["fit", "data.xyz"],
        ("data.xyz", "give the format", "csv"),
    ),
    "text named .npz": (
        lambda: Path("data.npz").write_text("1,0\n"),
        ["fit", "data.npz"],
        ("data.npz is not of the format npz",),
    ),
    "an array read as csv": (
        array("data.npy", np.eye(2)),
        ["fit", "data.npy", "--format", "csv"],
        ("data.npy is not of the format csv",),
    ),
    "a binary file named .csv": (csv(b"\x00\x01\x02\n" * 9), FIT, ("zero byte",)),
    "not UTF-8": (
        csv("a,gr\u00fcn\n1,0\n".encode("latin-1")),
        FIT,
        ("data.csv, line 1: byte 0xfc", "latin-1"),
    ),
    "UTF-16": (csv("a,b\n1,0\n".encode("utf-16")), FIT, ("UTF-16", "UTF-8")),
    "an unknown encoding": (nothing, [*FIT, "--encoding", "klingon"], ("klingon",)),
    "a column that is not there": (
        nothing,
        [*FIT, "--id-column", "name"],
        ("no column 'name'", "'fever'"),
    ),
    # ---- damaged files
    "a truncated npz": (truncated_npz, ["fit", "data.npz"], ("data.npz", "damaged")),
    "a truncated mat": (truncated_mat, ["fit", "data.mat"], ("data.mat", "damaged")),
    "a truncated parquet": (truncated_parquet, ["fit", "data.parquet"], ("data.parquet",)),
    "a truncated png": (
        pictures((8, 8), cut=True),
        ["fit", "pictures", "--components", "1", "--feature-shape", "2,2"],
        ("0.png", "damaged"),
    ),
    "a truncated xz": (
        lambda: Path("data.csv.xz").write_bytes(b"\xfd7zXZ\x00\x00\x04"),
        ["fit", "data.csv.xz"],
        ("data.csv.xz", "damaged"),
    ),
    "pictures of two sizes": (
        pictures((8, 8), (8, 9)),
        ["fit", "pictures"],
        ("1.png", "8 x 9", "8 x 8"),
    ),
    "JSON that is cut": (
        lambda: Path("data.jsonl").write_text('["a"]\n["a"'),
        ["fit", "data.jsonl"],
        ("data.jsonl, line 2", "not JSON"),
    ),
    "JSON without a text": (
        lambda: Path("data.jsonl").write_text('{"a": 1}\n{"a": 2}\n'),
        ["fit", "data.jsonl"],
        ("data.jsonl, line 1", "'a'"),
    ),
    # ---- options
    "negative steps": (nothing, [*FIT, "--steps", "-5"], ("--steps", "-5")),
    "no steps": (nothing, [*FIT, "--steps", "many"], ("--steps", "many")),
    "no components": (nothing, [*FIT, "--components", "0"], ("--components", "'0'")),
    "a seed below zero": (nothing, [*FIT, "--seed", "-1"], ("--seed",)),
    "held out everything": (nothing, [*FIT, "--held-out", "1"], ("--held-out",)),
    "held out nothing of four": (nothing, [*FIT, "--held-out", "0.99"], ("leaves no row",)),
    "mixed kinds": (nothing, [*FIT, "--layers", "3"], ("--layers", "topics")),
    "features of a table": (
        nothing,
        ["fit", "data.csv", "--components", "2", "--feature-shape", "2,2"],
        ("features are learned from images",),
    ),
    "images without a shape": (
        array("data.npy", np.ones((3, 4, 4))),
        ["fit", "data.npy"],
        ("--components", "--feature-shape"),
    ),
    "a strange shape": (
        nothing,
        ["fit", "data.csv", "--feature-shape", "5"],
        ("--feature-shape", "height"),
    ),
    "an unknown command": (nothing, ["fir", "data.csv"], ("fir",)),
    "an unknown option": (nothing, [*FIT, "--stepps", "3"], ("--stepps", "--steps")),
    # ---- where results go
    "output equals input": (nothing, [*FIT, "--out", "data.csv"], ("data.csv is also the input",)),
    "output exists": (
        nothing,
        [*FIT, "--out", "clinic.safetensors"],
        ("clinic.safetensors exists", "--force"),
    ),
    "output is a folder": (folder("here"), [*FIT, "--out", "here"], ("not a regular file",)),
    "output is a full device": (nothing, [*FIT, "--out", "/dev/full"], ("not a regular file",)),
    "output below a file": (nothing, [*FIT, "--out", "data.csv/m"], ("data.csv", "not a folder")),
    "output in no folder": (nothing, [*FIT, "--out", "no/m"], ("folder no does not exist",)),
    "a file in the place of the checkpoint": (
        lambda: Path("data.safetensors.checkpoint").write_text("mine"),
        [*FIT, "--force"],
        ("was not written by a run",),
    ),
    "a run that was stopped": (stopped_run, FIT, ("stopped", "--resume")),
    # ---- models
    "no such model": (nothing, ["info", "gone.safetensors"], ("gone.safetensors", "No such file")),
    "a table as a model": (nothing, ["info", "data.csv"], ("data.csv is not a model file",)),
    "a damaged model": (damaged_model, ["info", "clinic.safetensors"], ("damaged", "checksum")),
    "a model that is cut": (cut_model, ["info", "clinic.safetensors"], ("clinic", "announces")),
    "an unknown finding": (
        nothing,
        [*EXPLAIN, "--observe", "fevr"],
        ("no finding 'fevr'", "did you mean 'fever'?"),
    ),
    "an unknown supposition": (
        nothing,
        [*EXPLAIN, "--observe", "fever", "--what-if", "cogh"],
        ("'cogh'", "'cough'"),
    ),
    "present and absent": (
        nothing,
        [*EXPLAIN, "--observe", "fever", "--absent", "Fever"],
        ("'fever'", "both"),
    ),
    "no evidence": (nothing, EXPLAIN, ("--observe", "DATA")),
    "rows and findings": (nothing, [*EXPLAIN, "data.csv", "--observe", "fever"], ("either",)),
    "rows that do not exist": (
        nothing,
        [*EXPLAIN, "data.csv", "--rows", "2-9"],
        ("row 9 does not exist", "0 to 3"),
    ),
    "rows backwards": (nothing, [*EXPLAIN, "data.csv", "--rows", "3-1"], ("3-1",)),
    "rows in words": (nothing, [*EXPLAIN, "data.csv", "--rows", "first"], ("'first'",)),
    "columns of another table": (
        csv("fever,caugh,rash\n1,0,1\n"),
        [*EXPLAIN, "data.csv"],
        ("data.csv lacks 1 of the 3 columns", "'cough'", "did you mean 'caugh'?"),
    ),
    "too few columns": (
        csv("1,0\n0,1\n"),
        ["evaluate", "clinic.safetensors", "data.csv"],
        ("data.csv has 2 columns", "learned from 3"),
    ),
    "a table in an unknown format": (
        csv("1,0,1\n"),
        ["impute", "clinic.safetensors", "data.csv", "--out", "x.pdf"],
        ("x.pdf", ".csv"),
    ),
    "a table over the data": (
        csv("1,0,1\n"),
        ["impute", "clinic.safetensors", "data.csv", "--out", "data.csv"],
        ("also the input",),
    ),
}
