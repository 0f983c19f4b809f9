"""The tensors that outlive a run."""

from tinygpt.core.config import VOCAB, RunConfig
from tinygpt.core.models.adapters import trained_parameters
from tinygpt.core.models.compact import Compact
from tinygpt.core.models.parameters import parameters
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.ops.record import RING
from tinygpt.core.ops.sample import CHOICE_WORDS
from tinygpt.core.optimizers import LIVE, optimizer_of
from tinygpt.core.plan.layout import Layout


class Memory:
    """The tensors that outlive a run, shared by all programs of a model. What it trains on and is validated with has so
    many bytes; it writes so many texts at once. If it says what weights are `compact` in, programs read them so.
    """

    def __init__(
        self, config: RunConfig, train_bytes: int = 0, val_bytes: int = 0, texts: int = 1, compact: str = ""
    ) -> None:
        model = config.model
        N = config.train.batch * model.ctx
        self.layout = Layout(trained_parameters(config))  # of all that is trained
        # What adapters stand on: it has neither gradients nor slots.
        self.base_layout = None if config.lora is None else Layout(parameters(model))
        self.base = None if self.base_layout is None else Tensor("base", (self.base_layout.size,), "frozen")
        optimizer = optimizer_of(config.train)
        size = (self.layout.size,)
        self.weights = Tensor("weights", size, "weight")
        self.grads = Tensor("grads", size, "grad")
        self.slots = [Tensor(name, size, "slot") for name in optimizer.slots]
        # What steps change: the weights themselves, or where those are averages a vector of its own.
        self.live = Tensor(LIVE, size, "slot") if config.train.average else self.weights
        # Training: counters are the steps done, the batches of the step done, and those of the validation.
        self.train_text = Tensor("train_text", (train_bytes,), "corpus", "u8")
        self.val_text = Tensor("val_text", (val_bytes,), "corpus", "u8")
        self.counters = Tensor("counters", (4,), "state", "i32")
        self.tokens = Tensor("tokens", (N,), "state", "i32")
        self.targets = Tensor("targets", (N,), "state", "i32")
        self.rates = Tensor("rates", (RING, len(optimizer.rates_of(config.train, 1))), "input")
        self.average_rates = Tensor("average_rates", (RING,), "input")
        self.loss = Tensor("loss", (1,), "state")
        self.val_loss = Tensor("val_loss", (1,), "state")
        self.losses = Tensor("losses", (N,), "output")
        self.best = Tensor("best", (N,), "output", "i32")
        self.norm = Tensor("norm", (2,), "output")
        self.ring = Tensor("ring", (RING, 2), "state")
        # Writing: a row for each text. `row` is the number of the one whose prompt is read.
        self.texts = texts
        self.prompt = Tensor("prompt", (model.ctx,), "input", "i32")
        self.row = Tensor("row", (1,), "input", "i32")
        self.choice = Tensor("choice", (texts, CHOICE_WORDS), "input", "i32")
        self.token = Tensor("token", (texts,), "state", "i32")
        self.position = Tensor("position", (texts,), "state", "i32")
        self.cursor = Tensor("cursor", (texts, 2), "state", "i32")
        self.written = Tensor("written", (texts, model.ctx), "state", "i32")
        self.prompt_logits = Tensor("prompt_logits", (1, VOCAB), "output")
        self.next_logits = Tensor("next_logits", (texts, VOCAB), "output")
        cached = (texts * model.ctx, model.d_model)
        self.cache_k = [Tensor(f"cache_k.{i}", cached, "state") for i in range(model.layers)]
        self.cache_v = [Tensor(f"cache_v.{i}", cached, "state") for i in range(model.layers)]
        self.weight = self.with_base(views(self.layout, self.weights, ""))
        self.live_weight = self.weight
        self.compact = Compact(parameters(model), compact) if compact else None
        if self.compact is not None:
            self.weight = self.compact.views()
        if config.train.average:
            self.live_weight = self.with_base(views(self.layout, self.live, LIVE + "."))
        self.grad = views(self.layout, self.grads, "d")  # of what is frozen, none

    def with_base(self, trained: dict[str, Tensor]) -> dict[str, Tensor]:
        """What is trained, and what it stands on."""
        if self.base_layout is not None and self.base is not None:
            trained.update(views(self.base_layout, self.base, ""))
        return trained

    def tensors(self) -> list[Tensor]:
        """Those with memory of their own, in the order of the arena."""
        rest = [self.train_text, self.val_text, self.counters, self.tokens, self.targets, self.rates]
        rest += [
            self.average_rates,
            self.loss,
            self.val_loss,
            self.losses,
            self.best,
            self.norm,
            self.ring,
            self.prompt,
            self.row,
            self.choice,
            self.token,
        ]
        rest += [self.position, self.cursor, self.written, self.prompt_logits, self.next_logits]
        base = [] if self.base is None else [self.base]
        if self.compact is not None:
            base = [self.compact.packed, self.compact.floats]
        return self.flat() + base + rest + self.cache_k + self.cache_v

    def flat(self) -> list[Tensor]:
        """Those over all that is trained."""
        live = [] if self.live is self.weights else [self.live]
        return [self.weights, self.grads] + self.slots + live

    def named_in(self, programs: list[Program], kept: "list[str]") -> list[Tensor]:
        """Those that these programs name, the weights as they are kept, and what else is to be."""
        weights = ["weights", "base"] if self.compact is None else [self.compact.packed.name, self.compact.floats.name]
        named = dict.fromkeys(kept + weights, True)
        for program in programs:
            for op in program.ops:
                for tensor in op.tensors:
                    if tensor is not None:
                        named[tensor.root().name] = True
        return [tensor for tensor in self.tensors() if tensor.name in named]


def views(layout: Layout, flat: Tensor, prefix: str) -> dict[str, Tensor]:
    """The tensors inside a flat vector, by name."""
    return {place.name: flat.view(prefix + place.name, place.shape, place.start) for place in layout.places}
