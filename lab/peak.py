"""What this machine's cores can do at most, by number of threads: what a share of a peak is a share of.

    python -m lab.peak
    python -m lab.peak --wasm      # the same in WebAssembly, in Node

A loop of multiply-adds in registers, on all threads at once; the best of some turns. So many threads need not reach so
many times what one does: cores may slow down when many compute, and may be halves of one.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tinygpt.engines.crew import Crew
from tinygpt.engines.machine import cores
from tinygpt.engines.native import cpu_lanes
from tinygpt.engines.runner import Runner
from tinygpt.kernels.build import ZIG, cached, compiler, source_digest, this_machine
from tinygpt.kernels.wasm import Build, compiler_flags

SOURCE = Path(__file__).with_suffix(".cpp").read_text(encoding="utf-8")
SUMS = 12  # more than are under way at once, and no more than there are registers for
TURNS = 7
SECONDS = 0.1  # of a turn
WASM = Build("relaxed", threads=False, bits=32)
# A worker per thread; each answers when it has done its rounds, and the clock stops with the last.
IN_NODE = """
const { Worker } = await import("node:worker_threads");
const bytes = Uint8Array.from(atob(MODULE), (digit) => digit.charCodeAt(0));
const source = `const { parentPort, workerData } = require("node:worker_threads");
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(workerData));
  exports.tg_peak(1e5);
  parentPort.on("message", (rounds) => { exports.tg_peak(rounds); parentPort.postMessage(0); });
  parentPort.postMessage(0);`;
const workers = Array.from({ length: THREADS }, () => new Worker(source, { eval: true, workerData: bytes }));
const one = (worker, send) => new Promise((done) => { worker.once("message", done); send(worker); });
const all = (send) => Promise.all(workers.map((worker) => one(worker, send)));
await all(() => undefined);
const times = [];
let rounds = 1e6;
for (let turn = 0; turn <= TURNS; turn++) {
  const began = performance.now();
  await all((worker) => worker.postMessage(rounds));
  const seconds = (performance.now() - began) / 1000;
  if (turn) times.push(seconds / rounds);
  else rounds = Math.round((rounds * SECONDS) / seconds);
}
workers.forEach((worker) => worker.terminate());
return Math.min(...times);
"""


def compiled(suffix: str, command: list[str], link: list[str] | None = None) -> Path:
    command = [*command, f"-DSUMS={SUMS}"]
    return cached(f"peak-{source_digest(command, SOURCE)}", suffix, command, link, SOURCE)


def native() -> ctypes.CDLL:
    target = this_machine()
    command, flags = compiler(target, cpu_lanes())
    library = ctypes.CDLL(str(compiled(target.suffix, [*command, *flags, *target.library_flags()])))
    library.tg_peak.argtypes, library.tg_peak.restype = [ctypes.c_int], ctypes.c_float
    return library


def native_round(threads: int) -> float:
    """Seconds of a round of multiply-adds on so many threads at once, at best."""
    library = native()
    crew, rounds, times = Crew(threads), 1_000_000, []
    ended = [0.0] * threads

    def part(number: int) -> None:
        library.tg_peak(rounds)
        ended[number] = time.perf_counter()

    for turn in range(TURNS + 1):
        began = time.perf_counter()
        crew.run(part)
        crew.run(lambda number: None)  # all are here
        seconds = max(ended) - began
        if turn:
            times.append(seconds / rounds)
        else:
            rounds = round(rounds * SECONDS / seconds)
    crew.close()
    return min(times)


def wasm_round(threads: int) -> float:
    link = [*ZIG, "wasm-ld", "--no-entry", "--strip-all", "--export=tg_peak"]
    module = compiled(".wasm", [*ZIG, "c++", *compiler_flags(WASM)], link)
    values = {"MODULE": base64.b64encode(module.read_bytes()).decode(), "THREADS": threads, "TURNS": TURNS}
    code = "".join(f"const {name} = {json.dumps(value)};" for name, value in {**values, "SECONDS": SECONDS}.items())
    node = Runner("node")
    try:
        return float(node.ask("evaluate", code=code + IN_NODE)[0]["value"])
    finally:
        node.close()


def peaks(round_of: Callable[[int], float], lanes: int) -> Iterator[tuple[int, float]]:
    """Threads and GFLOP/s: 1, 2, 4 and so on, and as many as there are cores."""
    counts = [1]
    while 2 * counts[-1] < cores():
        counts.append(2 * counts[-1])
    for threads in [*counts, cores()] if cores() > 1 else counts:
        yield threads, 2 * SUMS * lanes * threads / round_of(threads) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wasm", action="store_true", help="in WebAssembly with relaxed SIMD, not natively")
    parser.add_argument("--json", action="store_true", help="a line of JSON per number of threads")
    asked = parser.parse_args()
    found = list(peaks(wasm_round, 4) if asked.wasm else peaks(native_round, cpu_lanes()))
    if asked.json:
        for threads, gflops in found:
            print(json.dumps({"threads": threads, "gflops": round(gflops, 1)}))
        return
    table = Table("threads", "GFLOP/s", "times one thread")
    for threads, gflops in found:
        table.add_row(str(threads), f"{gflops:,.0f}", f"{gflops / found[0][1]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
