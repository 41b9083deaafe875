"""Time the answers of `noisyor serve`: one request after another, and 200 at once.

    python benchmarks/serve.py [--json results/serve.json]

Models have 100 causes, with edges to few or to all columns, or in two layers. Each request names
six findings of a row drawn from the model. No two requests are equal, so that no answer is cached.
Wall times include the client and other programs on the machine; ``cpu_ms`` is the CPU time of the
server, reported by the system.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import noisyor as nor
from _measure import Machine, arguments, significant, write

CAUSES, REQUESTS, AT_ONCE, FINDINGS = 100, 100, 200, 6
TARGET_MS = 100


def networks() -> dict[str, nor.Network]:
    """Return networks of 100 causes."""
    random = np.random.default_rng(0)
    few = sorted({(k, int(i)) for k in range(CAUSES) for i in random.choice(1000, 30)})
    dense = np.full((CAUSES, 1000), 0.01)
    wide = np.full((CAUSES, 70), 0.01)
    for success in (dense, wide):
        strong = random.random(success.shape) < 20 / success.shape[1]
        success[strong] = random.uniform(0.2, 0.9, strong.sum())
    layered = sorted({(k, int(i)) for k in range(90) for i in random.choice(1000, 30)})
    upper = sorted({(90 + k, int(j)) for k in range(10) for j in random.choice(90, 12)})
    common: dict[str, Any] = {"prior_probability": 0.05, "noise_probability": 0.01}
    return {
        "1,000 columns, 30 below each cause": nor.from_edges(
            1000, CAUSES, few, failure_probability=random.uniform(0.1, 0.8, len(few)), **common
        ),
        "1,000 columns, all below each cause": nor.bipartite(
            1000, CAUSES, failure_probability=1 - dense, **common
        ),
        "70 columns, all below each cause": nor.bipartite(
            70, CAUSES, failure_probability=1 - wide, **common
        ),
        "1,000 columns, two layers": nor.from_edges(
            1000,
            CAUSES,
            layered,
            upper,
            failure_probability=random.uniform(0.1, 0.8, len(layered) + len(upper)),
            **common,
        ),
    }


def requests_for(network: nor.Network, count: int, seed: int) -> list[dict[str, Any]]:
    """Return findings of drawn rows: most present, some absent."""
    random = np.random.default_rng(seed)
    rows = nor.sample(network, count, seed=seed).visible
    asked = []
    for number in range(count):
        on = rows[[number]].indices
        present = random.permutation(on)[: FINDINGS - 2].tolist()
        off = np.setdiff1d(np.arange(network.n_visible), on)
        asked.append({"present": present, "absent": random.choice(off, 2, False).tolist()})
    return asked


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentiles(seconds: list[float]) -> dict[str, float]:
    return {f"p{p}_ms": significant(1e3 * float(np.percentile(seconds, p))) for p in (50, 90, 99)}


async def ask(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> tuple[int, float]:
    began = time.perf_counter()
    answer = await client.post(path, json=body)
    return answer.status_code, time.perf_counter() - began


async def measure(address: str, process: int, network: nor.Network) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=AT_ONCE)
    result: dict[str, Any] = {}
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=120) as client:
        for body in requests_for(network, 5, 9):
            await ask(client, "api/explain", body)
        for name, path, seed in (("explain", "api/explain", 1), ("what_if", "api/what-if", 2)):
            bodies = requests_for(network, REQUESTS, seed)
            if name == "what_if":
                bodies = [{**body, "finding": body["absent"][0]} for body in bodies]
            before = cpu_seconds(process)
            answers = [await ask(client, path, body) for body in bodies]
            used = cpu_seconds(process) - before
            assert {code for code, _ in answers} == {200}
            result[name] = {
                **percentiles([seconds for _, seconds in answers]),
                "cpu_ms": significant(1e3 * used / len(answers)),
            }
        bodies = requests_for(network, AT_ONCE, 3)
        began = time.perf_counter()
        answers = await asyncio.gather(*(ask(client, "api/explain", body) for body in bodies))
        result["at_once"] = {
            "requests": AT_ONCE,
            "answered": sum(code == 200 for code, _ in answers),
            "all_after_s": significant(time.perf_counter() - began),
            **percentiles([seconds for _, seconds in answers]),
        }
    return result


def served(path: Path, network: nor.Network) -> dict[str, Any]:
    script = "import sys; from noisyor.cli.main import main; sys.exit(main())"
    server = subprocess.Popen(
        [sys.executable, "-u", "-c", script, "serve", str(path), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[0]
        return asyncio.run(measure(address, server.pid, network))
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def main() -> None:
    options = arguments(__doc__).parse_args()
    machine, results = Machine(), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, network in networks().items():
            path = Path(folder) / "model.safetensors"
            nor.save_network(path, network)
            results[name] = found = served(path, network)
            print(
                f"{name}: median {found['explain']['p50_ms']} ms (CPU {found['explain']['cpu_ms']})"
                f", what if {found['what_if']['p50_ms']} ms, {AT_ONCE} at once: "
                f"{found['at_once']['answered']} answered in {found['at_once']['all_after_s']} s"
            )
    write(
        options.json,
        {
            "machine": machine.describe("starlette", "uvicorn"),
            "causes": CAUSES,
            "target_ms": TARGET_MS,
            "models": results,
        },
    )


if __name__ == "__main__":
    main()
