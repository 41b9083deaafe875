"""Requests to an application without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

ADDRESS = "http://127.0.0.1:8000"


class Client:
    """Sends requests one after another, or many at once."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.at_once([("GET", path, options)])[0]

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.at_once([("POST", path, options)])[0]

    def at_once(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        async def send() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                return await asyncio.gather(
                    *(client.request(verb, path, **options) for verb, path, options in requests)
                )

        return asyncio.run(send())
