"""The tensors that outlive a run."""

from tinygpt.core.config import VOCAB, ModelConfig, RunConfig
from tinygpt.core.kinds import model_of
from tinygpt.core.models.adapters import trained_count, trained_parameters
from tinygpt.core.models.compact import Compact
from tinygpt.core.models.layout import Layout, members
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.ops.record import RING
from tinygpt.core.ops.sample import CHOICE_WORDS
from tinygpt.core.optimizers import LIVE, optimizer_of

TABLES, SQUARES = "tables", "table_squares"


def table_shape(model: ModelConfig) -> "tuple[int, int]":
    """Of the n-gram tables, one behind the other."""
    return len(model.ngram_tables) * model.ngram_rows, model.ngram_width


def table_floats(model: ModelConfig) -> int:
    rows, width = table_shape(model)
    return rows * width


def weight_count(model: ModelConfig) -> int:
    """All floats that a model is made of: its parameters, and its n-gram tables."""
    return parameter_count(model) + table_floats(model)


def state_floats(config: RunConfig, slots: int) -> int:
    """Of all that is trained, with so many slots."""
    count = (1 + slots) * trained_count(config)
    if config.lora is None:
        count += table_floats(config.model) + (table_shape(config.model)[0] if slots else 0)
    return count


class Memory:
    """The tensors that outlive a run, shared by all programs of a model: for a training text of `train_bytes` and a
    validation text of `val_bytes`, and for writing `texts` at once. With `compact`, weights are kept in that dtype. If
    `merged`, linear maps of one input are side by side.
    """

    def __init__(
        self,
        config: RunConfig,
        train_bytes: int = 0,
        val_bytes: int = 0,
        texts: int = 1,
        compact: str = "",
        merged: bool = True,
    ) -> None:
        model = config.model
        N = config.train.batch * model.ctx
        merged = merged or compact != ""
        self.layout = Layout(trained_parameters(config), merged=merged)  # of all that is trained
        # What adapters stand on: it has neither gradients nor slots.
        self.base_layout = None if config.lora is None else Layout(parameters(model), merged=merged)
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
        self.kept: list[Tensor] = model_of(model.kind).state(model, texts)  # what the model keeps of each text
        self.state = {tensor.name: tensor for tensor in self.kept}
        self.add_tables(config)
        self.weight = self.with_base(views(self.layout, self.weights, ""))
        self.live_weight = self.weight
        self.compact = Compact(parameters(model), compact) if compact else None
        if self.compact is not None:
            self.weight = self.compact.views()
        if config.train.average:
            self.live_weight = self.with_base(views(self.layout, self.live, LIVE + "."))
        self.grad = views(self.layout, self.grads, "d")
        if self.base_layout is not None:  # a pass takes out what writes these: they have no memory
            self.grad.update(views(self.base_layout, Tensor("dbase", (self.base_layout.size,), "frozen"), "d"))

    def add_tables(self, config: RunConfig) -> None:
        """N-gram tables (ngrams.py): beside the flat vectors, for most of their rows are touched by no step."""
        model, train = config.model, config.train
        tables, N = model.ngram_tables, train.batch * model.ctx * train.grad_accum
        G, W = len(tables), model.ngram_width
        self.table_sizes = {"G": G, "E": model.ngram_rows, "W": W, "orders": sum([1 << n for n in tables])}
        shape, trained = table_shape(model), G and config.lora is None
        self.tables = Tensor(TABLES, shape, "table") if G else None
        self.squares = Tensor(SQUARES, (shape[0],), "table") if trained else None
        # What a step picked: rows, and the gradient of what was looked up there.
        self.picked = Tensor("picked", (N, G), "state", "i32") if trained else None
        self.drows = Tensor("drows", (N, G * W), "state") if trained else None
        self.ngram_rates = Tensor("ngram_rates", (RING,), "input")

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
        rest += [self.position, self.cursor, self.written, self.prompt_logits, self.next_logits, self.ngram_rates]
        rest += [tensor for tensor in (self.tables, self.squares, self.picked, self.drows) if tensor is not None]
        base = [] if self.base is None else [self.base]
        if self.compact is not None:
            base = [self.compact.packed, self.compact.floats]
        return self.flat() + base + rest + self.kept

    def flat(self) -> list[Tensor]:
        """Those over all that is trained."""
        live = [] if self.live is self.weights else [self.live]
        return [self.weights, self.grads] + self.slots + live

    def named_in(self, programs: list[Program], kept: "list[str]") -> list[Tensor]:
        """Those that these programs name, the weights as they are kept, and what else is to be."""
        weights = (
            ["weights", "base", TABLES]
            if self.compact is None
            else [self.compact.packed.name, self.compact.floats.name, TABLES]
        )
        named = dict.fromkeys(kept + weights, True)
        for program in programs:
            for op in program.ops:
                for tensor in op.tensors:
                    if tensor is not None:
                        named[tensor.root().name] = True
        return [tensor for tensor in self.tensors() if tensor.name in named]


def views(layout: Layout, flat: Tensor, prefix: str) -> dict[str, Tensor]:
    """The tensors inside a flat vector, by name: those that hold parameters, and the parameters that share one."""
    places = layout.places + members(layout)
    return {place.name: flat.view(prefix + place.name, place.shape, place.start) for place in places}
