"""`train --minutes` at a terminal: what was measured and chosen, and the loss to expect."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from tinygpt.cli.display import rate
from tinygpt.cli.output import Output
from tinygpt.core.advice.choose import Option
from tinygpt.core.advice.facts import option_facts, tokens_of
from tinygpt.core.advice.law import TextFacts
from tinygpt.jobs import budget
from tinygpt.jobs.budget import Foreseen, Minutes
from tinygpt.jobs.settings import TrainSettings
from tinygpt.jobs.texts import Texts


def foresee(asked: Minutes, settings: TrainSettings, texts: Texts, output: Output) -> tuple[TrainSettings, Foreseen]:
    """Measure, choose and say what was chosen."""
    with output.console.status(Text("measuring")) as status:
        chosen, found = budget.foresee(
            asked, settings, texts, lambda option: status.update(Text(f"measuring; {option.preset} done"))
        )
    tell(asked, found, output)
    return chosen, found


def tell(asked: Minutes, found: Foreseen, output: Output) -> None:
    best, options, text = found.option, found.options, found.text
    if output.json:
        event = {"event": "budget", "step": 0, "minutes": asked.minutes, "hardness": text.hardness}
        facts = {"options": [option_facts(option, text) for option in options], "chosen": option_facts(best, text)}
        output.display("").event(event | {"device": found.device} | facts)
    output.console.print(table_of(options, best, text))
    output.say()
    train, loss = best.run.train, best.prediction
    why = "expected to learn most of them" if len(options) > 1 else "expected to end"
    output.say(f"{best.preset} is {why}: at a validation loss of {loss.loss:.2f} ({loss.low:.2f} to {loss.high:.2f}).")
    if train.steps < best.all_steps:
        output.say(
            f"It will be done earlier: there is time for {best.all_steps:,} steps, but behind {train.steps:,} it would "
            f"only learn the text by heart."
        )
    output.say()


def table_of(options: list[Option], best: Option, text: TextFacts) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("measured", "batch", "ms per step", "speed", "steps", "tokens", "epochs", "expected"):
        table.add_column(name, justify="left" if name == "measured" else "right")
    for option in options:
        batch, tokens = option.run.train.batch, tokens_of(option)
        chosen = (option.preset, batch) == (best.preset, best.run.train.batch)
        table.add_row(
            Text.assemble("▶ " if chosen else "  ", (option.preset, "bold" if chosen else "")),
            f"{batch:,}",
            f"{1000 * option.speed.step:.3g}",
            rate(batch * option.run.model.ctx / option.speed.step),
            f"{option.run.train.steps:,}",
            f"{tokens:,}",
            f"{tokens / text.train_bytes:.1f}",
            f"{option.prediction.loss:.2f}",
        )
    return table
