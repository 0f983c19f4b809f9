"""`tinygpt serve` beside llama.cpp's server, with the same weights: bytes per second and the time to the first byte.

    pip install xllamacpp
    python -m lab.serving MODEL --clients 1,4,8,32     MODEL of recipe classic, which llama.cpp can compute

Each client asks for one text after the other, streamed. Both servers write up to 8 texts at once, `tinygpt serve`'s
usual number, on all cores; they take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from tinygpt.engines.machine import cores
from tinygpt.store.formats import save_model
from tinygpt.store.naming import load_model

PROMPT = "To be, or"
TURNS = 3
ROWS = 8
LLAMA = """
import sys, time
import xllamacpp
path, rows, ctx, threads = sys.argv[1], *map(int, sys.argv[2:])
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.n_parallel, settings.verbosity = path, ctx * rows, rows, -1
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
settings.port = 0
server = xllamacpp.Server(settings)
print("Serving at", server.listening_address, flush=True)
time.sleep(100_000)
"""


class Seen(NamedTuple):
    first_ms: float  # the median client's wait for a first byte
    bytes_per_s: float


@contextmanager
def child(command: list[str]) -> Iterator[str]:
    """A server in a process of its own, and its address."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            said = next(line for line in process.stdout if line.startswith("Serving at "))
            yield said.split()[2].rstrip(",").removesuffix("/v1")
        finally:
            process.kill()


async def ask(client: httpx.AsyncClient, url: str, model: str, tokens: int, seed: int) -> tuple[float, int]:
    body = {"model": model, "prompt": PROMPT, "max_tokens": tokens, "stream": True, "seed": seed, "temperature": 1.0}
    began, first, written = time.perf_counter(), 0.0, 0
    async with client.stream("POST", f"{url}/v1/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            choices = json.loads(line[6:])["choices"]
            text = choices[0].get("text", "") if choices else ""
            if text and not written:
                first = time.perf_counter() - began
            written += len(text.encode())
    return first, written


async def measured(url: str, model: str, clients: int, texts: int, tokens: int) -> Seen:
    waits: list[float] = []
    written = 0

    async def one(number: int, client: httpx.AsyncClient) -> None:
        nonlocal written
        for text in range(texts):
            first, count = await ask(client, url, model, tokens, 1000 * number + text)
            waits.append(first)
            written += count

    limits = httpx.Limits(
        max_connections=clients, max_keepalive_connections=0
    )  # llama.cpp's server hangs up after five
    async with httpx.AsyncClient(timeout=600, limits=limits) as client:
        await ask(client, url, model, tokens, 1)
        began = time.perf_counter()
        await asyncio.gather(*[one(number, client) for number in range(clients)])
        return Seen(1000 * statistics.median(waits), written / (time.perf_counter() - began))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--clients", default="1,4,8,32")
    parser.add_argument("--texts", type=int, default=20, help="of each client")
    chosen = parser.parse_args()
    counts = [int(count) for count in chosen.clients.split(",")]
    checkpoint = load_model(chosen.model)
    ctx = checkpoint.config.model.ctx
    with ExitStack() as held:
        weights = Path(held.enter_context(tempfile.TemporaryDirectory())) / "model.gguf"
        save_model(weights, checkpoint)
        ours = [sys.executable, "-m", "tinygpt", "serve", f"model={chosen.model}", "--port", "0", "--rows", str(ROWS)]
        theirs = [sys.executable, "-c", LLAMA, str(weights), str(ROWS), str(ctx), str(cores())]
        servers = {"tinygpt": held.enter_context(child(ours)), "llama.cpp": held.enter_context(child(theirs))}
        for count in counts:
            seen: dict[str, list[Seen]] = {name: [] for name in servers}
            for _ in range(TURNS):
                for name, url in servers.items():
                    seen[name].append(asyncio.run(measured(url, "model", count, chosen.texts, ctx - len(PROMPT))))
            for name, rows_seen in seen.items():
                first, rate = (statistics.median(column) for column in zip(*rows_seen, strict=True))
                print(
                    f"{count:3} clients  {name:10} {rate:10,.0f} bytes/s  first byte after {first:7.1f} ms", flush=True
                )


if __name__ == "__main__":
    main()
