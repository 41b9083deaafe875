"""The web application: a page, and a JSON API with limits for each request."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from noisyor._util.files import plain
from noisyor._version import __version__
from noisyor.errors import NoisyOrError
from noisyor.report.templating import asset
from noisyor.serve.guard import Guard
from noisyor.serve.subjects import MOST_LISTED, Findings, Subject

_LOG = logging.getLogger("noisyor.serve")
_LONGEST_TEXT = 200
_CLOSE = {"Connection": "close"}
"""Header of responses to a request whose body was not read to its end."""


class Limits(NamedTuple):
    """Limits of a request.

    ``body`` bytes of its body; ``findings`` of a row; ``rows`` of a batch; ``seconds`` until it is
    answered, waiting included; ``working`` requests at the same time, and ``waiting`` requests in
    the queue.
    """

    body: int = 65_536
    findings: int = 1_000
    rows: int = 100
    seconds: float = 60.0
    working: int = 2
    waiting: int = 400


def make_app(subject: Subject, limits: Limits | None = None) -> Starlette:
    """Return the application that answers for a model."""
    api = _Api(subject, Limits() if limits is None else limits)
    style = asset("base.css") + _static("page.css")
    routes = [
        Route("/", _page(_static("page.html"), "text/html")),
        Route("/page.js", _page(_static("page.js"), "text/javascript")),
        Route("/page.css", _page(style, "text/css")),
        Route("/icon.svg", _page(_static("icon.svg"), "image/svg+xml")),
        Route("/api", _page(_static("api.html"), "text/html")),
        Route("/api.js", _page(_static("api.js"), "text/javascript")),
        Route("/openapi.json", _page(_openapi(), "application/json")),
        Route("/health", api.health),
        Route("/api/model", api.model),
        Route("/api/findings", api.findings),
        Route("/api/explain", api.explain, methods=["POST"]),
        Route("/api/explain-batch", api.explain_batch, methods=["POST"]),
        Route("/api/what-if", api.what_if, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: _refused, NoisyOrError: _wrong, Exception: _failed}
    return Starlette(routes=routes, middleware=[Middleware(Guard)], exception_handlers=handlers)


class _Api:
    def __init__(self, subject: Subject, limits: Limits) -> None:
        self._subject, self._limits = subject, limits
        self._workers = ThreadPoolExecutor(limits.working, thread_name_prefix="answer")
        self._busy = 0

    async def health(self, request: Request) -> Response:
        """Answer without any inference, so that monitors never wait."""
        about = self._subject.about()
        return JSONResponse({"status": "ok", "sha256": about.get("sha256"), "version": __version__})

    async def model(self, request: Request) -> Response:
        return JSONResponse(plain({"sha256": None, **self._subject.about()}))

    async def findings(self, request: Request) -> Response:
        text = request.query_params.get("text", "")
        if len(text) > _LONGEST_TEXT:
            raise HTTPException(400, f"text has at most {_LONGEST_TEXT} characters")
        limit = _number("limit", request.query_params.get("limit", "12"))
        found = await self._work(partial(self._subject.complete, text, limit))
        return JSONResponse({"findings": plain(found)})

    async def explain(self, request: Request) -> Response:
        body = await self._body(request, {"present", "absent", "top"})
        findings, top = self._known(body), _number("top", body.get("top", 10))
        return await self._answer(partial(self._subject.explain, findings, top))

    async def explain_batch(self, request: Request) -> Response:
        body = await self._body(request, {"rows", "top"})
        rows, top = body.get("rows"), _number("top", body.get("top", 10))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise HTTPException(400, "rows must be a list of objects with present and absent")
        if len(rows) > self._limits.rows:
            raise HTTPException(
                400, f"at most {self._limits.rows:,} rows in a request, got {len(rows):,}"
            )
        for row in rows:
            _only(row, {"present", "absent"})
        known = [self._known(row) for row in rows]
        jobs = [partial(self._subject.explain, findings, top) for findings in known]
        return await self._answer(lambda: {"rows": [_timed(job) for job in jobs]})

    async def what_if(self, request: Request) -> Response:
        body = await self._body(request, {"present", "absent", "finding"})
        if "finding" not in body:
            raise HTTPException(
                400, "the field finding is missing: the finding whose state changes"
            )
        finding = self._subject.find(_name("finding", body["finding"]))
        return await self._answer(partial(self._subject.what_if, self._known(body), finding))

    # ---- reading requests

    async def _body(self, request: Request, known: set[str]) -> dict[str, Any]:
        """Read the JSON object of a request."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "the body must be application/json", _CLOSE)
        content = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for chunk in request.stream():
                    content += chunk
                    if len(content) > self._limits.body:
                        raise HTTPException(
                            413, f"the body has at most {self._limits.body:,} bytes", _CLOSE
                        )
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time", _CLOSE) from None
        except ClientDisconnect:  # nobody is there to read this, but nothing went wrong here
            raise HTTPException(400, "the connection ended before the body", _CLOSE) from None
        try:
            body = json.loads(bytes(content))
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body is no JSON") from None
        if not isinstance(body, dict):
            raise HTTPException(400, "the body must be a JSON object")
        _only(body, known)
        return body

    def _known(self, body: dict[str, Any]) -> Findings:
        numbers = {}
        for state in ("present", "absent"):
            given = body.get(state, [])
            if not isinstance(given, list):
                raise HTTPException(400, f"{state} must be a list of findings")
            numbers[state] = given
        count = len(numbers["present"]) + len(numbers["absent"])
        if count > self._limits.findings:
            raise HTTPException(
                400, f"at most {self._limits.findings:,} findings in a request, got {count:,}"
            )
        present, absent = (
            {self._subject.find(_name(state, one)) for one in given}
            for state, given in numbers.items()
        )
        if present & absent:
            raise HTTPException(400, "a finding is given both as present and as absent")
        return Findings(tuple(sorted(present)), tuple(sorted(absent)))

    # ---- answering them

    async def _answer(self, job: Callable[[], dict[str, Any]]) -> Response:
        begin = time.perf_counter()
        found = await self._work(job)
        return JSONResponse({**plain(found), "seconds": time.perf_counter() - begin})

    async def _work(self, job: Callable[[], Any]) -> Any:
        """Return the result of a job that runs in another thread, or fail after the time limit."""
        if self._busy >= self._limits.working + self._limits.waiting:
            raise HTTPException(503, "too many requests at once; try again", {"Retry-After": "1"})
        self._busy += 1
        try:
            running = asyncio.get_running_loop().run_in_executor(self._workers, job)
            return await asyncio.wait_for(running, self._limits.seconds)
        except TimeoutError:
            raise HTTPException(
                503, f"no answer within {self._limits.seconds:g} seconds", {"Retry-After": "5"}
            ) from None
        finally:
            self._busy -= 1


def _timed(job: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return an answer with the seconds that it took."""
    begin = time.perf_counter()
    return {**job(), "seconds": time.perf_counter() - begin}


def _only(body: dict[str, Any], known: set[str]) -> None:
    """Reject fields that are not known."""
    unknown = sorted(set(body) - known)
    if unknown:
        raise HTTPException(400, f"fields are {', '.join(sorted(known))}, got {unknown[0][:40]!r}")


def _number(name: str, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 9:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_LISTED:
        raise HTTPException(400, f"{name} must be a whole number from 1 to {MOST_LISTED}")
    return value


def _name(field: str, value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise HTTPException(400, f"{field}: a finding is a name or a number")
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise HTTPException(400, f"{field}: names have at most {_LONGEST_TEXT} characters")
    return value


# ---- errors


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _wrong(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _failed(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
    return JSONResponse({"error": "something went wrong in the server; see its terminal"}, 500)


def _static(name: str) -> str:
    return (resources.files("noisyor.serve") / "static" / name).read_text(encoding="utf-8")


def _openapi() -> str:
    """Return the OpenAPI document of this version."""
    document = json.loads(_static("openapi.json"))
    document["info"]["version"] = __version__
    return json.dumps(document)


def _page(content: str, kind: str) -> Callable[[Request], Any]:
    """Return a route that always answers with the same content."""

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
