"""The template library, set up once for every page, and the raw files that pages include."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

from noisyor.errors import MissingExtraError


def require_templates() -> Any:
    """Return the template library, or raise an error that says how to install it."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError.of("the page needs jinja2", "report") from error
    return jinja2


def environment() -> Any:
    """Return the templates of this package; values are escaped, a missing value is an error.

    The filter ``svg`` does not escape a drawing; only drawings made here may use it.
    """
    jinja2 = require_templates()
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("noisyor.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["svg"] = jinja2.filters.Markup
    return templates


def asset(name: str) -> str:
    """Return the text of a style sheet or script in the folder of templates."""
    return (resources.files("noisyor.report") / "templates" / name).read_text(encoding="utf-8")


def embedded_json(data: dict[str, Any]) -> str:
    """Return JSON that cannot end the script element around it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def script_hash(script: str) -> str:
    """Return the hash of a script for the content security policy of a page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
