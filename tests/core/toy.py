"""A toy engine, host and player for core's loops. Runs under CPython and MicroPython."""

from tinygpt.core.engine.contract import Engine, StepMetrics
from tinygpt.core.presets import preset
from tinygpt.core.rng import batch_offsets, sample_uniform
from tinygpt.core.train.host import Host
from tinygpt.core.write.sampler import choose, require_finite


class ToyEngine(Engine):
    """'Trains' one number: the loss falls by a factor per step and depends on the step's windows."""

    def __init__(self, block=None, ahead=False, losses=None, grad_norms=None, val_losses=None, stops_after=None):
        self.config = preset("tiny")
        self.block = block
        self.ahead = ahead
        self.value = 5.5
        self.step = 0
        self.losses = losses  # by step, where a test scripts them
        self.grad_norms = grad_norms
        self.val_losses = val_losses
        self.stops_after = stops_after  # the step with which a stop comes, in the midst of a block
        self.validated = []  # (first batch, batches) of every part of a validation
        self.passed = []  # (step, the last one asked for when it was read) of every validation that was passed by
        self.asked = []  # windows whose likeliest bytes were asked for
        self.waiting = []  # the metrics of each block that was not read
        self.under_way = 0  # the most blocks that were, beside the one that was read
        self.blocks = []  # steps asked for
        self.tokens = b""
        self.windows = []  # that texts were begun with

    async def train(self, steps):
        self.blocks.append(steps)
        done, metrics = 0, []
        while done < steps and self.step != self.stops_after:
            self.step += 1
            done += 1
            loss = self.value + (sum(batch_offsets(1337, self.step, 1, 100000, 32)) % 1024) / 65536
            if self.losses:
                loss = self.losses[self.step - 1]
            norm = self.grad_norms[self.step - 1] if self.grad_norms else 1.0
            metrics.append(StepMetrics(self.step, loss, norm))
            self.value *= 0.96875
        if done:
            self.waiting.append(metrics)
        return done

    async def read_metrics(self, leave=0):
        self.under_way = max(self.under_way, len(self.waiting) - 1)
        read = []
        while len(self.waiting) > leave:
            read += self.waiting.pop(0)
        return read

    async def validate(self, first, batches):
        self.validated.append((first, batches))
        return batches

    async def read_validation(self):
        done = sum(self.validated[-1])
        return self.val_losses.pop(0) if self.val_losses and done == self.config.train.eval_batches else self.value

    def begin_validation(self):
        return self.step, self.val_losses.pop(0) if self.val_losses else self.value

    async def end_validation(self, begun):
        self.passed.append((begun[0], self.step))
        return begun[1]

    async def likeliest_bytes(self, windows):
        """It knows the more lines by heart the longer it trained: by their last digit, one for ten steps."""
        self.asked.append(len(windows))
        known = [window[-1] - ord("0") < self.step // 10 for window in windows]
        return [windows[i][1:] + b"\n" if known[i] else bytes(len(windows[i])) for i in range(len(windows))]

    async def export_state(self):
        return self.value

    async def begin_text(self, window, settings, first, stop, row=0):
        self.windows.append(bytes(window))
        self.tokens = bytes(window)
        self.settings, self.drawn, self.stop_bytes = settings, first, stop
        return self.draw()

    async def continue_text(self, count):
        made = b""
        while len(made) < count and self.tokens[-1] not in self.stop_bytes:
            made += self.draw()
        return made

    def draw(self):
        logits = require_finite(self.logits())
        byte = bytes([choose(logits, self.settings, sample_uniform(self.settings.seed, self.drawn))])
        self.drawn += 1
        self.tokens += byte
        return byte

    def logits(self):
        """A function of the whole window, so that a wrong window shows."""
        mixed = 17
        for token in self.tokens:
            mixed = (mixed * 31 + token) % 65521
        return [((mixed * (byte + 3)) % 997) / 128 for byte in range(256)]


class ToyHost(Host):
    def __init__(self, stop_at=None, tick=0.5):
        self.clock = 0.0
        self.tick = tick  # seconds from one look at the clock to the next
        self.events = []
        self.saves = []  # (kind, state, progress as a dict)
        self.stop_at = stop_at
        self.went_back = False

    def now(self):
        self.clock += self.tick
        return self.clock

    def emit(self, event):
        self.events.append(event)

    def should_stop(self):
        return self.stop_at is not None and self.clock >= self.stop_at

    async def save(self, kind, state, progress):
        self.saves.append((kind, state, progress.as_dict()))

    async def go_back(self):
        self.went_back = True

    def of(self, name):
        return [event for event in self.events if event["event"] == name]
