"""Test that `noisyor serve` answers under load while other connections misbehave.

    python benchmarks/serve_load.py [--requests 10000] [--hostile 600] [--seconds 300]

The script starts a server on the loopback interface and sends requests from 40 connections. At the
same time, ``--hostile`` other connections send nothing, half of a header, one byte a second, an
endless body, bytes that are not a request, half of a body, or thousands of requests whose answers
they do not read. A hostile connection that is closed is opened again, at most once a second. Every
request must be answered; if the server closes a connection, it is opened again, as other clients
do. The memory of the server after the first tenth of the requests and at the end must differ by
less than 20 %, and the server must write nothing to its terminal. The exit code is 1 otherwise.
Everything stops after ``--seconds``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np

import noisyor as nor

CLIENTS = 40
TRIES = 5
MAX_GROWTH = 0.2
HEAD = b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"


async def misbehave(port: int, kind: int, done: asyncio.Event, opened: Counter[str]) -> None:
    """Keep one hostile connection open until ``done``."""
    while not done.is_set():
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened["connections"] += 1
            try:
                await misuse(reader, writer, port, kind, done)
            finally:
                writer.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), 1)


async def misuse(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    port: int,
    kind: int,
    done: asyncio.Event,
) -> None:
    """Misuse a connection in one of seven ways until the server closes it."""
    head = HEAD % port
    first = (
        b"",
        head[:40],
        head[:10],
        head + b"Content-Length: 99999999\r\n\r\n",
        b"\x16\x03 no\r\n",
        head + b"Content-Length: 100\r\n\r\n{",
        3000 * (b"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port),
    )
    writer.write(first[kind])
    if kind == 6:
        assert isinstance(writer.transport, asyncio.ReadTransport)
        writer.transport.pause_reading()
        await asyncio.wait({asyncio.ensure_future(done.wait())}, timeout=15)
        return
    gone = asyncio.ensure_future(reader.read())  # ends when the server closes the connection
    ended = asyncio.ensure_future(done.wait())
    try:
        while not gone.done() and not ended.done():
            if kind == 2:
                writer.write(b"x")
            if kind == 3:
                writer.write(b"[" * 65536)
                await writer.drain()
            await asyncio.wait({gone, ended}, timeout=1, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        ended.cancel()


async def ask(client: httpx.AsyncClient, index: int, n_visible: int) -> int:
    """Send one request, again if the server closed the connection; return the number of tries."""
    body = {"present": [index % n_visible], "absent": [(index // n_visible) % n_visible]}
    if body["present"] == body["absent"]:
        body["absent"] = []
    for attempt in range(1, TRIES + 1):
        with suppress(httpx.TransportError):
            answer = await client.post("api/explain", json=body)
            if answer.status_code == 200:
                return attempt
    return 0


def memory(process: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def load(address: str, process: int, options: argparse.Namespace) -> bool:
    """Send the requests, print a summary, and return whether all checks passed."""
    port, done = int(address.rstrip("/").rpartition(":")[2]), asyncio.Event()
    opened: Counter[str] = Counter()
    hostile = [
        asyncio.ensure_future(misbehave(port, number % 7, done, opened))
        for number in range(options.hostile)
    ]
    await asyncio.sleep(2)
    tries: Counter[int] = Counter()
    seconds: list[float] = []
    sizes: list[float] = []
    began, numbers = time.monotonic(), iter(range(options.requests))
    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)

    async def client_work(client: httpx.AsyncClient) -> None:
        for index in numbers:
            if time.monotonic() - began > options.seconds:
                return
            asked = time.monotonic()
            tries[await ask(client, index, 8)] += 1
            seconds.append(time.monotonic() - asked)
            if index % max(1, options.requests // 10) == 0:
                sizes.append(memory(process))

    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=60) as client:
        await asyncio.gather(*(client_work(client) for _ in range(CLIENTS)))
    sizes.append(memory(process))
    done.set()
    await asyncio.gather(*hostile, return_exceptions=True)
    growth = sizes[-1] / sizes[min(1, len(sizes) - 1)] - 1
    p50, p99 = (1e3 * float(np.percentile(seconds, p)) for p in (50, 99))
    answered = sum(count for attempt, count in tries.items() if attempt)
    print(
        f"{answered:,} of {options.requests:,} requests answered in "
        f"{time.monotonic() - began:.0f} s, {answered - tries[1]} of them after another try; "
        f"median {p50:.0f} ms, 99 % within {p99:.0f} ms"
    )
    print(f"{options.hostile} hostile connections at a time, {opened['connections']:,} in total")
    print("memory in MB: " + " ".join(f"{size:.0f}" for size in sizes))
    return answered == options.requests and growth < MAX_GROWTH


def main() -> int:
    """Start the server, send the load, stop the server; return 1 if a check failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--hostile", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    script = "import sys; from noisyor.__main__ import main; sys.exit(main())"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        nor.save_network(path, nor.bipartite(n_visible=8, n_hidden=4, failure_probability=0.4))
        server = subprocess.Popen(
            [sys.executable, "-u", "-c", script, "serve", str(path), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()[0]
            fine = asyncio.run(load(address, server.pid, options))
        finally:
            server.send_signal(signal.SIGINT)
            try:
                errors = server.communicate(timeout=30)[1]
            except subprocess.TimeoutExpired:
                server.kill()
                errors = "the server did not stop within 30 s of Ctrl-C\n"
    if errors.strip() not in ("", "noisyor: interrupted"):
        print(f"on the terminal of the server: {errors[:2000]}")
        fine = False
    print("all is well" if fine else "FAILED")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
