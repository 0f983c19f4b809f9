"""`tinygpt compare`: two models side by side, or where two runs parted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.commands import evaluate
from tinygpt.cli.commands import sample as sampling
from tinygpt.cli.corpora import choose_data
from tinygpt.cli.models import AdapterPath, ModelPath, on_engine, open_model
from tinygpt.cli.options import option, with_settings
from tinygpt.cli.output import Output
from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks import prompted
from tinygpt.core.text import decode
from tinygpt.core.write.sampler import generate
from tinygpt.jobs.choices import DataChoice
from tinygpt.terminal import printable

EXAMPLES = """Examples:

\b
  tinygpt compare runs/a runs/b --prompt 'ROMEO.'
  tinygpt compare runs/a --adapter whale.safetensors --data moby-dick
  tinygpt compare runs/a runs/b --first-difference
"""


@with_settings(SampleConfig)
def compare(
    model: ModelPath,
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="the model to set beside it", show_default=False)
    ] = None,
    adapter: AdapterPath = None,
    prompt: sampling.Prompt = "\n",
    *,
    stated: options.Stated,
    greedy: sampling.Greedy = False,
    data: Annotated[
        str | None, option("--data", help="also compare the losses on this corpus", panel=options.TEXT)
    ] = None,
    file: options.TextFile = None,
    split: Annotated[
        str | None, option("--split", help="val, train or all", default="val; all with --file", panel=options.TEXT)
    ] = None,
    first_difference: Annotated[
        bool,
        option(
            "--first-difference",
            help="train both runs again, in step, and name the first op that differs",
            panel="Two runs",
        ),
    ] = False,
    steps: Annotated[int, option("--steps", help="how many steps to compare", panel="Two runs")] = 100,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """A and B with the same prompt and draws; the adapter goes on B, which is A again where no OTHER is named."""
    if other is None and adapter is None:
        raise TinyGPTError("what to compare with? Name a second model, or an --adapter for the first")
    output = Output()
    if first_difference and other is not None:
        tell_first_difference(model, other, steps, output)
        return
    settings = sampling.sample_settings(stated, greedy)
    prompt_bytes = sampling.read_prompt(prompt)
    models = [open_model(model), open_model(other or model, adapter)]
    plus = f" + {adapter}" if adapter is not None else ""
    facts = [("A", str(model)), ("B", f"{other or model}{plus}")]

    text = None
    if data is not None or file is not None:
        text_choice = choose_data(DataChoice(), data, file, None)
        part = split or ("all" if file is not None else "val")
        text = evaluate.part_of(text_choice, part, models[0], output)
        facts.append(("on", f"{text_choice.title()} ({part}, {len(text):,} bytes)"))
    losses, samples, engines = [], [], []
    for checkpoint in models:
        work = evaluate.work_of(checkpoint, text or b"")._replace(written=settings.tokens)
        player, described = on_engine(checkpoint, evaluate.exact_choice(engine, device, threads), work)
        if text is not None:
            found = evaluate.score(player, text)
            losses.append(f"loss {found.loss:.4f}, {found.bits_per_byte:.4f} bits per byte\n")
        read = prompted(checkpoint.text_name, prompt_bytes)
        made = run_now(generate(player, checkpoint.config.model.ctx, read, settings))
        samples.append(Text(printable(decode(prompt_bytes + made)).strip("\n")))
        run_now(player.close())
        engines.append(described)

    facts += [("engine", described) for described in dict.fromkeys(engines)]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0), expand=True)
    for name in ("A", "B"):
        table.add_column(name, ratio=1, overflow="fold")
    if losses:
        table.add_row(*losses)
    table.add_row(*samples)
    output.facts(facts)
    output.say()
    output.console.print(table)


def tell_first_difference(one: Path, other: Path, steps: int, output: Output) -> None:
    """Say where two runs part, if they do."""
    from rich.progress import Progress

    from tinygpt.inside.differing import first_difference

    sides = [side_of(run, output) for run in (one, other)]
    output.facts([("A", str(one)), ("B", str(other))])
    with Progress(console=output.stderr, transient=True, disable=not output.stderr.is_terminal) as progress:
        bar = progress.add_task("equal steps", total=steps)
        found = first_difference(sides[0], sides[1], steps, lambda step: progress.update(bar, completed=step))
    output.say()
    if found is None:
        output.say(f"The two runs are equal to the bit for {steps:,} steps.")
        return
    if found.place < 0:
        output.say("They begin with other weights, before the first step.")
    else:
        output.say(f"They part in step {found.step:,}, at op {found.place}, {found.op}: {found.tensor} differs.")
    if found.largest == found.largest:
        output.say(f"{found.share:.1%} of its numbers do, by at most {found.largest:.2g}.")
    for cause in found.because:
        output.say(f"Its cause: {cause}." if found.place >= 0 else f"They have {cause}.")


def side_of(run: Path, output: Output) -> Any:
    """A run's settings and the text it trained on."""
    from tinygpt.cli.corpora import open_texts
    from tinygpt.inside.differing import Side
    from tinygpt.jobs.settings import read_settings
    from tinygpt.store.runs import RunFolder

    settings = read_settings(RunFolder.open(run).config)
    if settings.run.lora is not None or settings.origin.model:
        raise TinyGPTError(
            f"{run} began with a model that was there already; the first difference is of runs that begin with start "
            f"values"
        )
    return Side(settings.run, open_texts(settings, output).train)
