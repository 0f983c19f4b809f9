"""Is this normal? A coach follows a run's losses and says, in one sentence, what looks wrong and what to try.

It compares the run with itself, with what its recipe usually does, and where there is one with a band: the losses that
sound runs of this kind had after as many tokens. A sound run hears nothing.
"""

from tinygpt.core.advice.band import band_of
from tinygpt.core.config import LN_VOCAB, RunConfig, TrainConfig
from tinygpt.core.optimizers.schedule import learning_rate
from tinygpt.core.presets import preset_like, recipe_like, tuned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.advice.band import Band

FIRST = 5  # steps whose mean is where the run began
RECENT = 20  # steps whose mean is "the loss"
USUAL_WARMUP = 100  # steps, of the runs that others are compared with
SETTLED = 60  # steps behind the warm-up before anything is said
HARDLY = 0.4  # nats: less than this is no progress from an untrained model
RISEN = 0.5  # nats above the best mean: not noise
NORM_TIMES = 10.0  # the gradient's norm over what it was
STALLED = 5  # means in a row, of RECENT steps each, without progress
FAR = 3.0  # times the usual rate, or a third of it: worth naming
WORSE_VALIDATIONS = 2  # in a row, by more than this share of the best loss: overfitting
WORSE = 0.02
GAP = 0.25  # nats between training and validation
EPOCHS = 10.0  # more than this often read: too little text
REPEATING = 0.5  # nats: what only a text has that repeats itself
WATCHED = ("lr", "matrix_lr", "dropout", "weight_decay", "warmup")  # settings that are held against the usual
MUCH_DROPOUT, MUCH_DECAY = 0.2, 5.0  # above the usual; times the usual


def coach_of(run: RunConfig, train_bytes: int) -> "Coach":
    """Who knows the band of such runs, where there is one."""
    return Coach(run, train_bytes, band_of(run, train_bytes))


class Coach:
    def __init__(self, run: RunConfig, train_bytes: int, band: "Band | None" = None) -> None:
        """`band` is None where nothing comparable is known: of an unusual text or model."""
        self.run = run
        self.train_bytes = train_bytes
        self.tokens_per_step = run.train.batch * run.train.grad_accum * run.model.ctx
        self.band = band
        usual = TrainConfig().as_dict()
        usual.update(tuned(preset_like(run.model), recipe_like(run), train_bytes))
        self.usual = {name: float(usual[name]) for name in WATCHED}
        self.losses: list[float] = []
        self.norms: list[float] = []
        self.first = 0.0  # mean of the first losses that were seen
        self.seen = 0  # steps
        self.best = 1e9  # the lowest mean
        self.means: list[float] = []
        self.usual_norm = 0.0
        self.best_val = 1e9
        self.worse = 0  # validations in a row
        self.said: list[str] = []

    def normal(self, step: int) -> "tuple[float, float] | None":
        """The lowest and highest loss of sound runs by then. Little was learned while a long warm-up went on."""
        if self.band is None:
            return None
        late = max(0, self.run.train.warmup - USUAL_WARMUP)
        return self.band((step - late) * self.tokens_per_step) if step > late else None

    def step(self, step: int, loss: float, norm: float) -> "tuple[str, str] | None":
        """What there is to say after a step: its kind and a sentence. Nothing is said twice."""
        self.seen += 1
        self.losses.append(loss)
        self.norms.append(norm)
        if self.seen == FIRST:
            self.first = mean(self.losses)
        if step % RECENT:
            return None
        self.losses, self.norms = self.losses[-RECENT:], self.norms[-RECENT:]
        if self.seen < SETTLED or step < self.run.train.warmup + SETTLED:
            return None
        now, size = mean(self.losses), mean(self.norms)
        self.best = min(self.best, now)
        self.means = (self.means + [now])[-STALLED - 1 :]
        found = self.exploding(now, size) or self.rising(now) or self.flat(step, now) or self.stalled(step, now)
        found = found or self.off_band(step, now)
        self.usual_norm = size if not self.usual_norm else min(2 * self.usual_norm, 0.8 * self.usual_norm + 0.2 * size)
        return self.once(found)

    def validated(self, step: int, loss: float) -> "tuple[str, str] | None":
        self.worse = self.worse + 1 if loss > self.best_val * (1 + WORSE) else 0
        self.best_val = min(self.best_val, loss)
        return self.once(self.repeating(step, loss) or self.overfitting(step, loss))

    def once(self, found: "tuple[str, str] | None") -> "tuple[str, str] | None":
        if found is None or found[0] in self.said:
            return None
        self.said.append(found[0])
        return found

    # --- what can be wrong -----------------------------------------------------------------------------------

    def exploding(self, loss: float, norm: float) -> "tuple[str, str] | None":
        if not self.usual_norm or norm < NORM_TIMES * self.usual_norm or loss < self.best + 0.1:
            return None
        clip = "turn clipping on (grad_clip 1)" if self.run.train.grad_clip == 0 else f"try {self.lower_rates()}"
        return "norm", f"The gradient's norm has grown to {norm:.3g}, from {self.usual_norm:.2g}: {clip}."

    def rising(self, loss: float) -> "tuple[str, str] | None":
        if loss < self.best + RISEN:
            return None
        return "rising", f"The loss has risen to {loss:.2f}, from {self.best:.2f}: try {self.lower_rates()}."

    def flat(self, step: int, loss: float) -> "tuple[str, str] | None":
        if self.first < LN_VOCAB - 1 or loss < self.first - HARDLY:
            return None
        ratio = self.rate_ratio(step)
        if ratio < 1 / FAR:
            what = f"the learning rate is far below the usual: try {self.usual_rates()}"
        elif ratio > FAR:
            what = f"the learning rate is far above the usual: try {self.usual_rates()}"
        else:
            what = "check that the input is text; random bytes cannot be learned"
        return "flat", f"The loss has hardly moved from {self.first:.2f} in {self.seen} steps; {what}."

    def stalled(self, step: int, loss: float) -> "tuple[str, str] | None":
        if len(self.means) <= STALLED or loss < 0.98 * self.means[0] or self.rate_ratio(step) < FAR:
            return None
        steps = STALLED * RECENT
        return "high rate", (
            f"The loss has stayed at {loss:.2f} for {steps} steps: the learning rate is high, try {self.usual_rates()} "
            f"with warm-up."
        )

    def off_band(self, step: int, loss: float) -> "tuple[str, str] | None":
        known = self.normal(step)
        if known is None or loss <= known[1]:
            return None
        ratio = self.rate_ratio(step)
        beside = f"The loss is {loss:.2f} where runs like this one have {known[0]:.2f} to {known[1]:.2f}"
        if ratio < 1 / FAR:
            return "low rate", f"{beside}: the learning rate is low, try {self.usual_rates()}."
        if ratio > FAR:
            return "high rate", f"{beside}: the learning rate is high, try {self.usual_rates()} with warm-up."
        odd = self.odd_setting()  # without one it may be the text, and nothing is wrong
        return ("above", f"{beside}: {odd}.") if odd else None

    def overfitting(self, step: int, loss: float) -> "tuple[str, str] | None":
        if self.worse < WORSE_VALIDATIONS or len(self.losses) < RECENT or mean(self.losses[-RECENT:]) > loss - GAP:
            return None
        epochs = step * self.tokens_per_step / self.train_bytes
        if epochs > EPOCHS:
            more = f"the text of {self.train_bytes:,} bytes has been read {epochs:.0f} times, so more text would help"
        else:
            more = "dropout, more text or a smaller model would help"
        return "overfitting", (
            f"The validation loss is {loss:.2f}, up from {self.best_val:.2f}, while the training loss falls: the model "
            f"learns the text by heart. Its best is kept; {more}."
        )

    def repeating(self, step: int, loss: float) -> "tuple[str, str] | None":
        known = self.normal(step)
        if known is None or loss > REPEATING or loss > 0.5 * known[0]:
            return None
        return "repeating", (
            f"The validation loss is {loss:.2f} already: this text repeats itself, and what is held out stands in the "
            f"training part too. Remove duplicates, or give a text of its own to validate on."
        )

    def odd_setting(self) -> str:
        """One that is far from the recipe's and makes a run slow to learn, with what to try; "" without any."""
        train = self.run.train
        dropout, decay, warmup = [self.usual[name] for name in ("dropout", "weight_decay", "warmup")]
        if train.dropout > dropout + MUCH_DROPOUT:
            return f"dropout {train.dropout:g} leaves out much, try {dropout:g}"
        if train.weight_decay > MUCH_DECAY * decay:
            return f"weight_decay {train.weight_decay:g} is high, try {decay:g}"
        if train.warmup == 0 and warmup > 0:
            return f"there is no warm-up, try warmup {int(warmup)}"
        return ""

    # --- rates -----------------------------------------------------------------------------------------------

    def rates(self) -> "list[str]":
        return ["lr", "matrix_lr"] if self.run.train.optimizer == "muon" else ["lr"]

    def rate_ratio(self, step: int) -> float:
        """The run's rate now over the usual peak, of two rates the one that is further off."""
        share = (
            learning_rate(self.run.train, step) / self.run.train.lr if self.run.train.schedule == "constant" else 1.0
        )
        ratios = [share * getattr(self.run.train, name) / self.usual[name] for name in self.rates()]
        furthest: float = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
        return furthest

    def usual_rates(self) -> str:
        return ", ".join([f"{name} {self.usual[name]:g}" for name in self.rates()])

    def lower_rates(self) -> str:
        lower = ", ".join([f"{name} {getattr(self.run.train, name) / 3:.2g}" for name in self.rates()])
        return f"a lower rate, as {lower}" + ("" if self.run.train.warmup else ", and warm-up steps")


def mean(values: "list[float]") -> float:
    return sum(values) / len(values)
