"""The JSON interface described in OpenAPI 3.1; the page ``/api`` shows it."""

from __future__ import annotations

from typing import Any

from noisyor._version import __version__
from noisyor.serve.subjects import MOST_LISTED

__all__ = ["document"]

_FINDING = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
_NUMBER = {"type": "number"}
_MAYBE = {"type": ["number", "null"]}
_TEXT = {"type": "string"}


def document(most_bytes: int, most_findings: int) -> dict[str, Any]:
    """The document, as plain JSON, with the limits of the server in it."""
    known = {
        "present": _list(_FINDING, "Findings that are present, by name or id.", most_findings),
        "absent": _list(_FINDING, "Findings that are known to be absent.", most_findings),
    }
    top = {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_LISTED,
        "default": 10,
        "description": "How many causes, likely findings and questions to list.",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "noisyor serve",
            "version": __version__,
            "description": (
                "Ask a model for the causes of findings. The server answers programs on this "
                f"machine only; a body has at most {most_bytes:,} bytes."
            ),
        },
        "paths": {
            "/api/model": {
                "get": _operation("What the model is", "Model"),
            },
            "/api/findings": {
                "get": {
                    **_operation("Findings whose names hold a text, best match first", "Found"),
                    "parameters": [
                        _query("text", _TEXT, "Part of a name; empty for the most common ones."),
                        _query("limit", {**top, "default": 12}, "How many to list."),
                    ],
                },
            },
            "/api/explain": {
                "post": _operation(
                    "Causes of findings, what else is likely, and what to ask next",
                    "Explanation",
                    {**known, "top": top},
                    example={"present": [0], "absent": [], "top": 5},
                ),
            },
            "/api/what-if": {
                "post": _operation(
                    "What would change if one finding were known otherwise",
                    "WhatIf",
                    {**known, "finding": _FINDING},
                    required=["finding"],
                    example={"present": [0], "finding": 1},
                ),
            },
        },
        "components": {"schemas": _schemas()},
    }


def _schemas() -> dict[str, Any]:
    named = {"id": _FINDING, "name": _TEXT}
    shares = {"type": "array", "items": _object({**named, "share": _NUMBER})}
    then = _object({"cause": _TEXT, "probability": _MAYBE})
    return {
        "Error": _object({"error": _TEXT}),
        "Model": _object(
            {
                "name": _TEXT,
                "kind": {"enum": ["factors", "topics", "features", "network", "diseases"]},
                "headline": _TEXT,
                "words": {
                    **_object(dict.fromkeys(("cause", "causes", "finding", "findings"), _TEXT)),
                    "description": "What causes and findings are called in this model.",
                },
                "n_causes": {"type": "integer"},
                "n_findings": {"type": "integer"},
                "image": {
                    "type": ["array", "null"],
                    "items": {"type": "integer"},
                    "description": "Height and width, if findings are the pixels of an image.",
                },
                "notice": {"type": ["string", "null"]},
            }
        ),
        "Found": _object({"findings": _list(_object({**named, "hint": _TEXT}))}),
        "Explanation": _object(
            {
                "present": _list(_object(named)),
                "absent": _list(_object(named)),
                "method": {**_TEXT, "description": "How probabilities were found, in words."},
                "exact": {"type": "boolean"},
                "causes": _list(
                    _object(
                        {
                            **named,
                            "probability": {**_NUMBER, "description": "Given the findings."},
                            "error": {**_MAYBE, "description": "Its standard error; 0 if exact."},
                            "base": {**_NUMBER, "description": "When nothing is known."},
                            "explains": {
                                **shares,
                                "description": "Present findings, with the share due to it.",
                            },
                            "against": {
                                **shares,
                                "description": "Absent findings that it would show.",
                            },
                        }
                    ),
                    "The most probable first.",
                ),
                "unexplained": _list(_TEXT, "Present findings that are mostly due to no cause."),
                "likely": _list(
                    _object({**named, "probability": _NUMBER, "base": _MAYBE}),
                    "Unknown findings, the most probable first.",
                ),
                "questions": _list(
                    _object(
                        {
                            **named,
                            "gain": {
                                **_NUMBER,
                                "description": "What the answer tells of the causes, in bits.",
                            },
                            "probability": _NUMBER,
                            "if_present": then,
                            "if_absent": then,
                        }
                    ),
                    "Unknown findings, the one that tells most first.",
                ),
                "pixels": {
                    "type": ["array", "null"],
                    "items": {"type": "integer"},
                    "description": "Probability of every pixel of an image, in thousandths.",
                },
                "seconds": _NUMBER,
            }
        ),
        "WhatIf": _object(
            {
                "finding": _object(named),
                "now": {"enum": ["present", "absent", "unknown"]},
                "changes": _list(
                    _object(
                        {
                            "if": {"enum": ["present", "absent", "unknown"]},
                            "shifts": _list(
                                _object(
                                    {
                                        **named,
                                        "before": _NUMBER,
                                        "after": _NUMBER,
                                        "explained_away_by": _TEXT,
                                    }
                                ),
                                "Causes, the largest change first.",
                            ),
                        }
                    )
                ),
                "seconds": _NUMBER,
            }
        ),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: dict[str, Any], description: str = "", most: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "array", "items": items}
    if description:
        found["description"] = description
    if most is not None:
        found["maxItems"] = most
    return found


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": description}


def _operation(
    summary: str,
    answer: str,
    body: dict[str, Any] | None = None,
    required: list[str] | None = None,
    example: dict[str, Any] | None = None,
) -> dict[str, Any]:
    def answered(description: str, schema: str) -> dict[str, Any]:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
        return {"description": description, "content": content}

    found: dict[str, Any] = {"summary": summary}
    if body is not None:
        schema = {
            "type": "object",
            "properties": body,
            "required": required or [],
            "additionalProperties": False,
        }
        media = {"schema": schema, "example": example}
        found["requestBody"] = {"required": True, "content": {"application/json": media}}
    found["responses"] = {
        "200": answered("The answer", answer),
        "400": answered("The request makes no sense; the error says why", "Error"),
        "403": answered("The request comes from another site or machine", "Error"),
        "503": answered("Too many requests at once, or no answer in time", "Error"),
    }
    if body is not None:
        found["responses"]["413"] = answered("The body is too large", "Error")
        found["responses"]["415"] = answered("The body is not application/json", "Error")
    return found
