"""Everything on the page about the command line runs, and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from noisyor.cli.main import main
from noisyor.tables import FORMATS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "command_line.md"


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_every_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    n_commands = 0
    for language, text in blocks():
        if language == "python":
            exec(compile(text, str(PAGE), "exec"), {})
            continue
        assert language == "console"
        for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "noisyor"
            code = main(arguments)
            captured = capsys.readouterr()
            if expected:
                assert captured.out + captured.err == expected
                assert code == (2 if expected.startswith("noisyor: error") else 0)
            else:
                assert code in (0, 1), captured.err
                assert captured.out
            n_commands += 1
    assert n_commands >= 10


def test_every_command_and_format_is_on_the_page():
    from noisyor.cli.main import _cli

    text = PAGE.read_text("utf-8")
    others = {"demo", "reproduce", "figures", "reproduce-report"}
    for command in set(_cli.commands) - others:
        assert f"| `{command} " in text
    endings = {"text": ".txt", "folder": "folder of `.txt`", "images": "folder of `.png`"}
    for name in FORMATS:
        assert endings.get(name, f".{name}") in text
