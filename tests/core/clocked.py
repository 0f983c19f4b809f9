"""An engine on a made-up machine: nothing but a clock moves. Runs under CPython and MicroPython."""

from toy import ToyEngine, ToyHost


class Clock:
    def __init__(self):
        self.seconds = 100.0

    def now(self):
        return self.seconds


class ClockedEngine(ToyEngine):
    """A step takes what its tokens take on this machine, and never less than `launch` seconds."""

    def __init__(self, run, clock, flops, launch=0.0, threads=2, drift=None, byte=0.001):
        ToyEngine.__init__(self)
        self.config = run
        self.clock = clock
        self.drift = drift or (lambda seconds: 1.0)  # how much slower the machine is by then
        model = run.model
        work = 72 * model.layers * model.d_model**2 * model.ctx * run.train.batch
        self.each = max(launch, work / flops)
        self.threads = threads
        self.closed = False
        self.byte = byte  # seconds to write one
        clock.seconds += 0.05

    async def train(self, steps):
        for _ in range(steps):
            self.clock.seconds += self.each * self.drift(self.clock.seconds)
        return await ToyEngine.train(self, steps)

    async def validate(self, first, batches):
        self.clock.seconds += 0.3 * batches * self.each
        return await ToyEngine.validate(self, first, batches)

    def draw(self):
        self.clock.seconds += self.byte
        return ToyEngine.draw(self)

    async def close(self):
        self.closed = True


class ClockedHost(ToyHost):
    def __init__(self, clock):
        ToyHost.__init__(self)
        self.shared = clock

    def now(self):
        return self.shared.now()
