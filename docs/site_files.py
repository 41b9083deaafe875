"""Hook of MkDocs: publish the repository's files that pages link to, so that no link is dead.

Pages link to results, figures and notebooks by their path in the repository
(``../results/scaling.json``), which works where the repository is browsed. The site gets copies
below ``files/``, and the links of the built pages point there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)((?:results|reproduction|examples)/[^)#\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add every file outside of docs that a page links to."""
    linked = {
        path for page in (ROOT / "docs").rglob("*.md") for _, path in OUTSIDE.findall(_text(page))
    }
    for path in sorted(linked):
        if (ROOT / path).is_file():
            files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to such files to their copies."""
    up = "../" * page.file.src_uri.count("/")
    return OUTSIDE.sub(lambda link: f"]({up}files/{link[2]})", markdown)


def _text(page: Path) -> str:
    return page.read_text("utf-8")
