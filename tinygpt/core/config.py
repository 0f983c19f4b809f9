"""Every setting of a run, its default, its bounds and its one-line help: the only copy.

The CLI's flags, the page's knobs, the TOML file and the model file's header are all read
off the FIELDS tables below, so a default cannot differ between two surfaces.
"""

from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.kinds import KINDS, kind_of
from tinygpt.core.rng import RANDOM_WINDOWS, SHUFFLED_WINDOWS
from tinygpt.core.settings import Settings, real, text, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VOCAB = 256  # bytes
MLP_RATIO = 4  # the MLP's hidden width is MLP_RATIO * d_model
GATED_STEP = 32  # a gated MLP, which has three matrices, takes about two thirds of that: a multiple of this
LAYERNORM_EPS = 1e-5  # of every norm
ROTARY_BASE = 10000
SHAPE = ("layers", "d_model", "heads", "ctx")  # the settings without which no model is described
MOST_NGRAM_BYTES = 8
LN_VOCAB = 5.545177444479562  # the loss of a model that knows nothing: ln 256


class ModelConfig(Settings):
    SECTION = "model"
    FIELDS = (
        whole("layers", 3, 1, 1024, "transformer blocks", fixed=True),
        whole("d_model", 96, 1, 65536, "width of the residual stream", "width", fixed=True),
        whole("heads", 3, 1, 1024, "attention heads; must divide d_model", fixed=True),
        whole("ctx", 64, 1, 1048576, "context length in bytes", "context", fixed=True),
        text(
            "kind",
            "gpt",
            tuple([kind.name for kind in KINDS]),
            "; ".join([f"{kind.name}: {kind.about}" for kind in KINDS[1:]]),
            fixed=True,
        ),
        text("norm", "layernorm", ("layernorm", "rmsnorm"), "how the blocks' inputs are scaled", fixed=True),
        text(
            "norm_place",
            "pre",
            ("pre", "post"),
            "norms before each branch, or behind its sum",
            "norms stand",
            fixed=True,
        ),
        text("positions", "learned", ("learned", "rotary", "alibi", "none"), "position encoding", fixed=True),
        text("activation", "gelu", ("gelu", "relu2", "swiglu"), "MLP activation; swiglu has a gate", fixed=True),
        text("biases", "on", ("on", "off"), "whether linear maps and layer norms add a vector", fixed=True),
        text("tied_head", "on", ("on", "off"), "whether the head is the embedding table", "tied head", fixed=True),
        text("qk_norm", "off", ("off", "on"), "whether each head's q and k are scaled", "q/k norm", fixed=True),
        whole(
            "kv_heads", 0, 0, 1024, "heads of keys and values, for the others to share; 0: all", "k/v heads", fixed=True
        ),
        real("logit_cap", 0.0, 0.0, 1000.0, "soft cap on logits; 0: none", "logit cap", fixed=True),
        text("ngrams", "", None, "n-gram tables, by their numbers of bytes, as 2,3,4; none if empty", fixed=True),
        whole("ngram_rows", 65536, 256, 4194304, "rows of each n-gram table", "n-gram rows", fixed=True),
        whole("ngram_width", 16, 4, 64, "numbers in a row of an n-gram table", "n-gram width", fixed=True),
    )
    layers: int
    d_model: int
    heads: int
    ctx: int
    kind: str
    norm: str
    norm_place: str
    positions: str
    activation: str
    biases: str
    tied_head: str
    qk_norm: str
    kv_heads: int
    logit_cap: float
    ngrams: str
    ngram_rows: int
    ngram_width: int

    def validate(self) -> None:
        if self.d_model % self.heads:
            raise TinyGPTError(
                f"d_model {self.d_model} is not divisible by {self.heads} heads; "
                f"choose heads that divide it, for example {nearest_divisor(self.d_model, self.heads)}"
            )
        if self.positions == "rotary" and self.head_size % 2:
            raise TinyGPTError(
                f"rotary positions turn pairs of numbers, but d_model {self.d_model} gives each of {self.heads} heads "
                f"{self.head_size}; choose sizes that give an even number, or other positions"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise TinyGPTError(
                f"{self.kv_heads} kv_heads cannot be shared evenly by {self.heads} heads; choose a number that divides "
                f"{self.heads}, for example {nearest_divisor(self.heads, self.kv_heads)}, or 0 for as many as heads"
            )
        if 0 < self.logit_cap < 1:
            raise TinyGPTError(
                f"logit_cap {self.logit_cap:g} leaves no room for a choice; take 1 or more, or 0 for none"
            )
        if self.ngrams != ",".join([str(n) for n in ngram_numbers(self.ngrams)]):
            raise TinyGPTError(
                f"ngrams must be numbers from 1 to {MOST_NGRAM_BYTES} in ascending order, as 2,3,4, not '{self.ngrams}'"
            )
        for name, value in (("ngram_rows", self.ngram_rows), ("ngram_width", self.ngram_width)):
            if value & (value - 1):
                raise TinyGPTError(f"{name} must be a power of two, such as {power_of_two(value)}, not {value}")

    @property
    def ngram_tables(self) -> "list[int]":
        """Of each n-gram table, the number of bytes that pick its row."""
        return ngram_numbers(self.ngrams) if "ngrams" in kind_of(self.kind).options else []

    @property
    def head_size(self) -> int:
        return self.d_model // self.heads

    @property
    def kv_width(self) -> int:
        """Of a row of keys, or of values."""
        return (self.kv_heads or self.heads) * self.head_size

    @property
    def d_mlp(self) -> int:
        if self.activation != "swiglu":
            return MLP_RATIO * self.d_model
        step = 3 * GATED_STEP
        return (2 * MLP_RATIO * self.d_model + step - 1) // step * GATED_STEP

    def options(self) -> list[str]:
        """Those that are not the default, as "norm rmsnorm"."""
        usual = {field.name: field.default for field in self.FIELDS}
        chosen = [(name, getattr(self, name)) for name in OPTIONS if getattr(self, name) != usual[name]]
        return [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in chosen]

    def describe(self) -> str:
        """What there is of it, as far as it means something to this kind of model."""
        sizes = {
            "layers": f"{self.layers} layers",
            "d_model": f"d_model {self.d_model}",
            "heads": f"{self.heads} heads",
        }
        sizes["ctx"] = f"ctx {self.ctx}"
        kind = kind_of(self.kind)
        named = [] if kind is KINDS[0] else [kind.name]
        options = [option for option in self.options() if option.split(" ")[0] in kind.options]
        return ", ".join(named + [sizes[name] for name in kind.sizes] + options)


OPTIONS = [field.name for field in ModelConfig.FIELDS if field.name not in SHAPE]  # what a model is made of


def ngram_numbers(stated: str) -> "list[int]":
    """The numbers that a list of them states, as far as it is one."""
    found = [int(part) for part in stated.split(",") if part and len(part) == 1 and part in "12345678"]
    return [n for n in range(1, MOST_NGRAM_BYTES + 1) if n in found]


def power_of_two(least: int) -> int:
    power = 1
    while power < least:
        power *= 2
    return power


def nearest_divisor(number: int, target: int) -> int:
    divisors = [d for d in range(1, min(number, 4096) + 1) if number % d == 0]
    return min(divisors, key=lambda d: abs(d - target))


class TrainConfig(Settings):
    SECTION = "train"
    FIELDS = (
        whole("batch", 16, 1, 65536, "sequences in a batch"),
        whole("steps", 1500, 1, 1000000000, "optimizer steps to train for"),
        real("lr", 3e-4, 1e-12, 10.0, "learning rate (its peak, where a schedule is used)", "learning rate"),
        text("schedule", "constant", ("constant", "cosine"), "learning-rate schedule after the warm-up"),
        whole("warmup", 0, 0, 1000000000, "steps of linear warm-up", "warm-up"),
        real("min_lr", 3e-5, 0.0, 10.0, "where the cosine schedule ends", "lowest rate"),
        text("optimizer", "adamw", ("adamw", "muon", "sgd"), "how a step follows from the gradient", fixed=True),
        real("beta1", 0.9, 0.0, 0.999999, "AdamW: decay of the gradient's mean"),
        real("beta2", 0.95, 0.0, 0.999999, "AdamW: decay of the gradient's square"),
        real("eps", 1e-8, 1e-16, 1.0, "AdamW: added to the root of the square"),
        real("momentum", 0.9, 0.0, 0.999999, "SGD and Muon: momentum coefficient"),
        real("matrix_lr", 0.02, 1e-12, 10.0, "Muon: learning rate of the hidden matrices (its peak)", "matrices' rate"),
        real("ngram_lr", 0.015, 1e-12, 10.0, "learning rate of n-gram tables (its peak)", "n-gram rate"),
        whole("ns_steps", 5, 1, 10, "Muon: Newton–Schulz iterations", "Newton–Schulz steps"),
        text(
            "ns_polynomials",
            "quintic",
            ("quintic", "polar"),
            "Muon: one polynomial for all iterations, or the best ones for 3 or 4 of them",
            "Newton–Schulz polynomials",
        ),
        real("weight_decay", 0.1, 0.0, 10.0, "decay of tensors of two or more dims", "weight decay"),
        # Fixed: a state has one vector more with it.
        real(
            "average",
            0.0,
            0.0,
            0.9,
            "share of the run over which the weights that are kept are averaged; 0: none",
            fixed=True,
        ),
        real("grad_clip", 1.0, 0.0, 1e9, "largest global gradient norm; 0 turns clipping off", "gradient clip"),
        whole("grad_accum", 1, 1, 65536, "batches whose gradients are averaged into one step", "batches per step"),
        text(
            "windows",
            RANDOM_WINDOWS,
            (RANDOM_WINDOWS, SHUFFLED_WINDOWS),
            "how training windows are chosen: at random, or all of the text in random order, epoch by epoch",
        ),
        real("dropout", 0.0, 0.0, 0.9, "share of the numbers that a training step leaves out at random"),
        real(
            "label_smoothing",
            0.0,
            0.0,
            0.9,
            "share of the probability that training wants spread over all bytes",
            "label smoothing",
        ),
        # Fixed, else text that was held out would be trained on.
        real("val_fraction", 0.1, 0.0, 0.9, "part held out for validation, at the end", "held-out share", fixed=True),
        whole("eval_every", 100, 0, 1000000000, "steps between validations; 0: never", "validate every"),
        whole("eval_batches", 8, 1, 65536, "batches in a validation", "validation batches"),
        whole("patience", 0, 0, 1000000, "stop after so many validations without a new best; 0: never"),
        whole(
            "sample_every",
            250,
            0,
            1000000000,
            "steps between samples; those beyond a tenth of the time are left out; 0: only at the end",
            "sample every",
        ),
        whole("checkpoint_every", 250, 0, 1000000000, "steps between checkpoints; one is saved every minute as well"),
        whole("keep_every", 0, 0, 1000000000, "steps between checkpoints that stay beside the last one; 0: none"),
        whole("seed", 1337, 0, 4294967295, "the one seed of everything random", fixed=True),
    )
    batch: int
    steps: int
    lr: float
    schedule: str
    warmup: int
    min_lr: float
    optimizer: str
    beta1: float
    beta2: float
    eps: float
    momentum: float
    matrix_lr: float
    ngram_lr: float
    ns_steps: int
    ns_polynomials: str
    weight_decay: float
    average: float
    grad_clip: float
    grad_accum: int
    windows: str
    dropout: float
    label_smoothing: float
    val_fraction: float
    eval_every: int
    eval_batches: int
    patience: int
    sample_every: int
    checkpoint_every: int
    keep_every: int
    seed: int

    def validate(self) -> None:
        if self.ns_polynomials == "polar" and self.ns_steps not in (3, 4):
            raise TinyGPTError(f"ns_polynomials polar is for 3 or 4 ns_steps, not {self.ns_steps}; choose one of these")


# What the page offers to set of a run beside its size, its text and its length, under these headings.
GROUPS = (
    ("Learning", "lr schedule warmup min_lr batch optimizer matrix_lr grad_clip average"),
    ("Against learning by heart", "dropout weight_decay label_smoothing"),
    ("Checks on the way", "val_fraction eval_every patience sample_every seed"),
)

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "fc_gate", "fc_in", "fc_out")


class LoraConfig(Settings):
    SECTION = "lora"
    FIELDS = (
        whole("rank", 8, 1, 4096, "rank of each adapter", fixed=True),
        real("alpha", 16.0, 0.0, 1e6, "an adapter's output is scaled by alpha / rank", fixed=True),
        text(
            "targets",
            "q_proj,v_proj,fc_in,fc_out",
            None,
            "projections to adapt, comma-separated: " + ", ".join(PROJECTIONS),
            fixed=True,
        ),
    )
    rank: int
    alpha: float
    targets: str

    def validate(self) -> None:
        if not self.target_list:
            raise TinyGPTError(f"lora.targets is empty; choose from {', '.join(PROJECTIONS)}")
        for name in self.target_list:
            if name not in PROJECTIONS:
                raise TinyGPTError(f"lora.targets has no projection '{name}'{instead(name, list(PROJECTIONS))}")

    @property
    def target_list(self) -> list[str]:
        return [name.strip() for name in self.targets.split(",") if name.strip()]

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def describe(self) -> str:
        return f"rank {self.rank}, alpha {self.alpha:g}, on {self.targets}"


SEEDS = 2**32


class SampleConfig(Settings):
    SECTION = "sample"
    FIELDS = (
        whole("tokens", 320, 1, 1000000000, "bytes to generate", "length"),
        real("temperature", 0.8, 0.0, 100.0, "below 1 sharper, above 1 wilder; 0 is greedy"),
        whole("top_k", 0, 0, 256, "draw from the k likeliest bytes only; 0: from all"),
        real("top_p", 1.0, 0.0, 1.0, "draw from the likeliest bytes that together reach p"),
        whole("seed", 1337, 0, 4294967295, "seed of the draws"),
    )
    tokens: int
    temperature: float
    top_k: int
    top_p: float
    seed: int

    def of_text(self, number: int) -> "SampleConfig":
        """The settings of one of several texts: each has the next seed, and 0 follows the largest."""
        return self.replace(seed=(self.seed + number) % SEEDS)


class RunConfig:
    """A model and how to train it: all of it, or adapters beside what stays as it is."""

    def __init__(self, model: ModelConfig, train: TrainConfig, lora: "LoraConfig | None" = None) -> None:
        self.model = model
        self.train = train
        self.lora = lora

    def replace(self, **changes: "Any") -> "RunConfig":
        """A copy with any model or train settings changed, by name."""
        model_names = [field.name for field in ModelConfig.FIELDS]
        train_names = [field.name for field in TrainConfig.FIELDS]
        for name in changes:
            if name not in model_names and name not in train_names:
                raise TinyGPTError(f"there is no setting '{name}'{instead(name, model_names + train_names)}")
        return RunConfig(
            self.model.replace(**{name: changes[name] for name in changes if name in model_names}),
            self.train.replace(**{name: changes[name] for name in changes if name in train_names}),
            self.lora,
        )

    def values(self) -> "dict[str, Any]":
        """All settings by name."""
        values = self.model.as_dict()
        values.update(self.train.as_dict())
        return values

    def going_on(self, **changes: "Any") -> "RunConfig":
        """A copy for a run that goes on, with any settings changed that may change between two steps."""
        changed = self.replace(**changes)
        self.model.going_on(**changed.model.as_dict())
        self.train.going_on(**changed.train.as_dict())
        return changed

    def as_dict(self) -> "dict[str, dict[str, Any]]":
        """By section; `run_config_of` takes it back."""
        values = {"model": self.model.as_dict(), "train": self.train.as_dict()}
        if self.lora is not None:
            values["lora"] = self.lora.as_dict()
        return values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunConfig):
            return False
        return self.model == other.model and self.train == other.train and self.lora == other.lora

    def __repr__(self) -> str:
        lora = "" if self.lora is None else f", {self.lora!r}"
        return f"RunConfig({self.model!r}, {self.train!r}{lora})"


def run_config_of(values: "dict[str, dict[str, Any]]") -> RunConfig:
    lora = values.get("lora")
    return RunConfig(
        ModelConfig(**values["model"]), TrainConfig(**values["train"]), None if lora is None else LoraConfig(**lora)
    )


def validates(config: RunConfig, val_bytes: int) -> bool:
    """Whether a run measures validation loss: it wants to, and the held-out part has a window."""
    return config.train.eval_every > 0 and val_bytes > config.model.ctx
