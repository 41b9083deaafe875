"""A real browser for tests: headless Chromium, spoken to over its debugging pipe.

The protocol is JSON messages ended by a zero byte, so that no driver needs to be installed.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT = 30.0
_KEYS = {
    "Tab": (9, None),
    "Enter": (13, "\r"),
    "Escape": (27, None),
    "End": (35, None),
    "Home": (36, None),
    "ArrowLeft": (37, None),
    "ArrowUp": (38, None),
    "ArrowRight": (39, None),
    "ArrowDown": (40, None),
    " ": (32, " "),
}


def find_chromium() -> str | None:
    """Path of an installed Chromium or Chrome; the environment's CHROMIUM comes first."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A running browser with one page. Every request that is not for a local file is recorded.

    It is offline unless a server on this machine is to be reached.
    """

    def __init__(self, executable: str, offline: bool = True) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._to_browser = os.pipe()
        self._from_browser, to_write = os.pipe()

        def connect() -> None:  # the browser reads from 3 and writes to 4
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(
            [
                executable,
                "--headless=new",
                "--remote-debugging-pipe",
                f"--user-data-dir={self._profile.name}",
                "--no-first-run",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-extensions",
                "--hide-scrollbars",
                # Only pages of our own are opened, and root cannot use the sandbox.
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
                "about:blank",
            ],
            close_fds=False,
            preexec_fn=connect,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=0,
            downloadThroughput=0 if offline else -1,
            uploadThroughput=0 if offline else -1,
        )

    def close(self) -> None:
        self._session = None
        with contextlib.suppress(OSError, TimeoutError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to_browser)
        os.close(self._from_browser)
        self._profile.cleanup()

    # ---- the protocol

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _TIMEOUT
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from_browser], [], [], deadline - time.monotonic())
            if not ready:
                raise TimeoutError("the browser does not answer")
            received = os.read(self._from_browser, 1 << 20)
            if not received:
                raise OSError("the browser has ended")
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(str(details.get("exception", details).get("description")))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            if not params["request"]["url"].startswith("file:"):
                self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    # ---- what a person does

    def open(
        self, page: Path | str, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        """Load a page, a file or an address, at a size."""
        self.complaints.clear()
        self.requests.clear()
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = "dark" if dark else "light"
        self.call(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )
        self._loaded = False
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        while not self._loaded:
            self._note(self._receive())
        self.settle()

    def wait_for(self, expression: str) -> None:
        """Wait until an expression in the page is true."""
        deadline = time.monotonic() + _TIMEOUT
        while not self.run(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} does not become true")
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait until two frames have been drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, expression: str) -> Any:
        """Value of an expression in the page, promises awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        """A real click in the middle of an element."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def point_at(self, selector: str) -> None:
        """Move the pointer to the middle of an element."""
        x, y = self._middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def _middle(self, selector: str) -> tuple[float, float]:
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return x, y

    def press(self, key: str, shift: bool = False) -> None:
        code, text = _KEYS[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift}
        down = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path: Path, full: bool = True) -> None:
        options: dict[str, Any] = {"format": "png", "captureBeyondViewport": full}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {
                "x": 0,
                "y": 0,
                "scale": 1,
                **{k: size[k] for k in ("width", "height")},
            }
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))


def too_wide(browser: Browser, width: int) -> list[str]:
    """Elements that reach beyond the right edge, outside of what may be scrolled."""
    found: list[str] = browser.run(
        "[...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, svg') &&"
        f" e.getBoundingClientRect().right > {width} + 1).map((e) => e.outerHTML.slice(0, 80))"
    )
    return found


def poor_contrast(browser: Browser) -> list[list[Any]]:
    """Text below WCAG AA, 4.5 to 1, against what lies behind it."""
    found: list[list[Any]] = browser.run(
        """(() => {
        const numbers = (c) => c.match(/[\\d.]+/g).map(Number);
        const light = (c) => { const [r, g, b] = numbers(c).map((v) => { v /= 255;
          return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const behind = (e) => { for (; e; e = e.parentElement) {
          const c = getComputedStyle(e).backgroundColor, n = numbers(c);
          if (n.length < 4 || n[3] > 0) return c; } return 'rgb(255, 255, 255)'; };
        const found = [];
        for (const e of document.querySelectorAll('main *, footer')) {
          if (e.closest('svg, option') || !e.innerText || !e.offsetParent) continue;
          if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
          const pair = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a);
          const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
          if (ratio < 4.5) found.push([e.outerHTML.slice(0, 90), ratio]);
        }
        return found; })()"""
    )
    return found
