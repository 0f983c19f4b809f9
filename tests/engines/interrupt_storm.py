"""A process of its own: interrupts a native engine hundreds of times, anywhere, then sees what it is worth."""

import random
import signal
import sys

from engine_lab import ODD, loaded, trained

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.core.train.validation import validate
from tinygpt.engines.base import State
from tinygpt.engines.native import native_engine
from tinygpt.kernels.init import initial_weights

CONFIG = preset("tiny").replace(**{**ODD, "layers": 1, "d_model": 16, "heads": 2, "ctx": 16, "batch": 2})
LONGEST = 0.002  # seconds to an interrupt: several runs of a program


def opened_and_closed():
    engine = native_engine(CONFIG, threads=3)
    run_now(engine.require(["prefill"]))
    run_now(engine.close())


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
    engine = loaded(native_engine(CONFIG, threads=3))
    start = State(0, initial_weights(CONFIG.model, CONFIG.train.seed))

    def train():
        run_now(engine.train(5))
        run_now(engine.read_metrics())

    def write():
        run_now(engine.begin_text(b"a", SampleConfig(), 0, b""))
        run_now(engine.continue_text(8))

    actions = [train, write, lambda: run_now(validate(engine)), opened_and_closed]
    for i in range(times):
        interrupted(actions[i % len(actions)], LONGEST * draw.random())

    run_now(engine.import_state(start))
    assert trained(engine, 5) == trained(loaded(native_engine(CONFIG, threads=3)), 5)
    interrupted(train, LONGEST / 2)
    run_now(engine.close())


if __name__ == "__main__":
    main(int(sys.argv[1]))
