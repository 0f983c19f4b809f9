"""A toy engine and host for the training loop. Runs under CPython and MicroPython."""

from tinygpt.core.trainer import Host


class ToyEngine:
    """'Trains' one number: the loss falls by a factor a step and depends on the offsets it was given."""

    def __init__(self, metrics_every=1, losses=None, grad_norms=None, val_losses=None):
        self.replicas = 1
        self.metrics_every = metrics_every
        self.value = 5.5
        self.losses = losses  # by step, where a test scripts them
        self.grad_norms = grad_norms
        self.val_losses = val_losses
        self.waiting = []
        self.seen = []  # (step, lr, offsets) of every step
        self.tokens = b""
        self.prefills = 0

    async def train_step(self, step, lr, offsets):
        self.seen.append((step, lr, offsets))
        loss = self.losses[step - 1] if self.losses else self.value + (sum(offsets) % 1024) / 65536
        norm = self.grad_norms[step - 1] if self.grad_norms else 1.0
        self.waiting.append((step, loss, norm))
        self.value *= 0.96875

    async def read_metrics(self):
        waiting, self.waiting = self.waiting, []
        return waiting

    async def eval_loss(self, offsets):
        if self.val_losses:
            return self.val_losses.pop(0)
        return self.value + (sum(offsets) % 1024) / 65536

    async def export_state(self):
        return self.value

    async def agree(self, flag):
        return flag

    async def prefill(self, tokens):
        self.prefills += 1
        self.tokens = bytes(tokens)
        return self.logits()

    async def decode(self, token):
        self.tokens += bytes([token])
        return self.logits()

    def logits(self):
        """A function of the whole window, so that a wrong window shows."""
        mixed = 17
        for token in self.tokens:
            mixed = (mixed * 31 + token) % 65521
        return [((mixed * (byte + 3)) % 997) / 128 for byte in range(256)]


class ToyHost(Host):
    def __init__(self, stop_at=None):
        self.clock = 0.0
        self.events = []
        self.saves = []  # (kind, state, progress as a dict)
        self.stop_at = stop_at
        self.went_back = False

    def now(self):
        self.clock += 0.5
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
