"""A process of its own: interrupts a native engine hundreds of times, anywhere, then sees what it is worth."""

import random
import signal
import sys

from tinygpt.bench.workload import Run
from tinygpt.core.config import preset
from tinygpt.core.trainer import run_now
from tinygpt.engines.native import NativeEngine

CONFIG = preset("tiny").replace(layers=1, d_model=16, heads=2, ctx=16, batch=2)
LONGEST = 0.002  # seconds to an interrupt: several runs of a program


def opened_and_closed():
    run_now(NativeEngine(CONFIG, threads=3).close())


def interrupted(action, delay):
    """Repeat the action until the interrupt comes."""
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        while True:
            action()
    except KeyboardInterrupt:
        pass


def main(times):
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    draw = random.Random(times)
    engine = NativeEngine(CONFIG, threads=3)
    start = run_now(engine.export_state())
    run = Run(CONFIG, engine)
    run_now(engine.prefill(b"a"))

    def decode():
        engine.cached = 1
        run_now(engine.decode(65))

    actions = [lambda: run.advance(1), decode, lambda: run_now(engine.eval_loss([0, 1])), opened_and_closed]
    for i in range(times):
        interrupted(actions[i % len(actions)], LONGEST * draw.random())

    run_now(engine.read_metrics())
    run_now(engine.import_state(start))
    run.step = 0
    assert run.advance(5) == Run(CONFIG, NativeEngine(CONFIG, threads=3)).advance(5)
    interrupted(lambda: run.advance(1), LONGEST / 2)
    run_now(engine.close())


if __name__ == "__main__":
    main(int(sys.argv[1]))
