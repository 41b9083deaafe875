"""Hooks of MkDocs: notebooks as pages, links that leave docs, and typeset formulas.

Sources link to each other by their paths in the repository, which works where the repository is
browsed. On the site

* the notebooks of examples, already executed, are pages below ``tutorials/``,
* some files of the repository's root are pages, too,
* figures outside of docs are copied to ``files/``,
* every other link out of docs points to the repository (``extra.repository`` in mkdocs.yml).

Formulas become MathML, which browsers draw without a script or a network.
"""

from __future__ import annotations

import base64
import html
import json
import os.path
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "developer/contributing.md",
    "RELEASING.md": "developer/releasing.md",
    "SECURITY.md": "security.md",
}
NOTEBOOKS = {
    path.relative_to(ROOT).as_posix(): f"tutorials/{path.stem}.md"
    for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
}
PAGES = ROOT_PAGES | NOTEBOOKS
"""Path in the repository -> page of the site."""
SOURCES = {page: path for path, page in PAGES.items()}

LINK = re.compile(r"(!?)(\[(?:[^\[\]]|!?\[[^\]]*\])*\])\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
SEARCH_BOOST = {"Tutorials": 4.0, "How-to": 3.0, "Results": 0.5, "Reference": 0.3}
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
    re.DOTALL,
)
LOG = re.compile(r'<mi>log</mi>(?!<mo stretchy="false">&#x00028;)')
"""A logarithm whose argument has no parentheses: needs a space."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and figures that lie outside of docs."""
    for path, page in PAGES.items():
        text = (ROOT / path).read_text("utf-8")
        if path in NOTEBOOKS:
            text, pictures = _notebook(json.loads(text), Path(path).stem)
            for name, content in pictures.items():
                files.append(File.generated(config, f"tutorials/{name}", content=content))
        files.append(File.generated(config, page, content=text))
    figures = set()
    for file in list(files.documentation_pages()):
        for is_image, _, target, _ in LINK.findall(file.content_string):
            path = _in_repository(file.src_uri, target)
            if is_image and path and not path.startswith("docs/") and (ROOT / path).is_file():
                figures.add(path)
    for path in sorted(figures):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point the links of a page to their targets on the site or in the repository."""

    def point(link: re.Match[str]) -> str:
        is_image, text, target, anchor = link.groups(default="")
        if files.get_file_from_path(_beside(page.file.src_uri, target)):
            return link[0]
        path = _in_repository(page.file.src_uri, target)
        if path is None or not (ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri} links to {target}, which does not exist")
        found = path.removeprefix("docs/") if path.startswith("docs/") else PAGES.get(path)
        if is_image and found is None:
            found = f"files/{path}"
        if found is None:
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            return f"{text}({config.extra['repository']}/{kind}/main/{path}{anchor})"
        folder = os.path.dirname(page.file.src_uri) or "."
        return f"{is_image}{text}({os.path.relpath(found, folder)}{anchor})"

    # Searches should find guides before the reference that they explain.
    section = page.ancestors[-1].title if page.ancestors else ""
    page.meta.setdefault("search", {"boost": SEARCH_BOOST.get(section, 1.0)})
    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(point, part) for part in parts[::2]]
    return "".join(parts)


def on_page_content(content: str, **_: Any) -> str:
    """Typeset the formulas of a page."""
    return FORMULA.sub(_typeset, content)


def _typeset(formula: re.Match[str]) -> str:
    is_block = formula[1] == "div"
    math = convert(html.unescape(formula[2]).strip(), display="block" if is_block else "inline")
    math = LOG.sub('<mi>log</mi><mspace width="0.17em" />', math)
    return f'<div class="formula">{math}</div>' if is_block else math


def _notebook(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """Convert an executed notebook to Markdown and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                about = cell["metadata"].get("alt", "Output of the code above")
                parts.append(f"![{about}]({name})")
            else:
                text = "".join(output.get("text", data.get("text/plain", "")))
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def _beside(page: str, target: str) -> str:
    """Path of a link's target, relative to docs."""
    return os.path.normpath(os.path.join(os.path.dirname(page), target)).replace(os.sep, "/")


def _in_repository(page: str, target: str) -> str | None:
    """Path of a link's target in the repository; None if the target lies outside of it."""
    source = SOURCES.get(page, f"docs/{page}")
    path = _beside(source, target)
    return None if path.startswith("..") else path
