"""The table of a campaign on the page about reliability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_BEGIN, _END = "<!-- begin: written by benchmarks/faults.py -->\n", "<!-- end -->"


def block(record: dict[str, Any]) -> str:
    """Table and summary of the record, as Markdown."""
    machine = record["machine"]
    end = "finished" if record["finished"] else "ended by the limit of time"
    lines = [
        f"{record['cases']:,} cases, {len(record['losses']):,} lost; {end}, after "
        f"{machine['seconds'] / 60:.0f} minutes on {machine['cores']} cores with Python "
        f"{machine['python']}.",
        "",
        "| kind | cases | lost | slowest, s | most memory, MB | what happened |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, kind in record["kinds"].items():
        common = "; ".join(f"{what}: {n:,}" for what, n in list(kind["what"].items())[:3])
        lines.append(
            f"| {name} | {kind['cases']:,} | {kind['losses']:,} | {kind['seconds']:.1f} "
            f"| {kind['peak_mb']:.0f} | {common.replace('|', '/')} |"
        )
    return "\n".join(lines) + "\n"


def update(page: Path, record: dict[str, Any]) -> None:
    """Replace the table on the page."""
    before, begin, rest = page.read_text("utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{page} has no place for the table")
    page.write_text(f"{before}{begin}\n{block(record)}\n{end}{after}", "utf-8")
