"""`tinygpt convert` and `tinygpt inspect`: model files."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.charts import sparkline
from tinygpt.cli.commands import evaluate
from tinygpt.cli.corpora import choose_data
from tinygpt.cli.models import ModelPath, name_of, on_engine, open_model
from tinygpt.cli.options import option
from tinygpt.cli.output import Output, size_of
from tinygpt.core.config import ModelConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import a_few
from tinygpt.jobs.choices import NO_TEXT
from tinygpt.store.naming import locate
from tinygpt.store.runs import RunFolder
from tinygpt.terminal import printable

if TYPE_CHECKING:
    from tinygpt.store.formats import Checkpoint

CONVERT_EXAMPLES = """Examples:

\b
  tinygpt convert runs/small-shakespeare-1 model.safetensors
  tinygpt convert model.safetensors model.tinygpt
  tinygpt convert runs/small-shakespeare-1 small.tinygpt --weights-only --dtype int8
  tinygpt convert runs/small-shakespeare-1 small.html --prompt 'To be, '
  tinygpt convert runs/classic model.gguf --dtype float16
  tinygpt convert runs/classic hf-model --to huggingface
"""
INSPECT_EXAMPLES = """Examples:

\b
  tinygpt inspect runs/small-shakespeare-1
  tinygpt inspect model.tinygpt --json | head -c 300
"""
SPARKLINE_WIDTH = 60
MEASURED_BYTES = 1 << 15  # of a text
MOST_LOST = {"float16": 0.1, "int8": 1.0}  # per cent of the loss


def convert(
    source: ModelPath,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET",
            help="name.tinygpt, name.safetensors, name.gguf, name.html, or a folder with --to",
            show_default=False,
        ),
    ],
    to: Annotated[
        str | None,
        option(
            "--to",
            help="tinygpt, safetensors, gguf, html or huggingface",
            default="as TARGET ends",
            panel=options.OUTPUT,
        ),
    ] = None,
    weights_only: Annotated[
        bool, option("--weights-only", help="leave the optimizer's state out", panel=options.OUTPUT)
    ] = False,
    dtype: Annotated[
        str | None,
        option(
            "--dtype",
            help="float32; float16 halves a .tinygpt, .gguf or .html file of weights alone, int8 quarters it",
            default="float32, in .html int8",
            panel=options.OUTPUT,
        ),
    ] = None,
    title: Annotated[
        str, option("--title", help="what a .html page calls the model", default="MODEL's name", panel=options.OUTPUT)
    ] = "",
    prompt: Annotated[
        str, option("--prompt", help="what a .html page begins with", default="a new line", panel=options.OUTPUT)
    ] = "",
    data: Annotated[
        str | None,
        option(
            "--data",
            help="corpus to measure a float16 or int8 model on",
            default="what the run was trained on",
            panel=options.TEXT,
            autocompletion=options.complete_corpus,
        ),
    ] = None,
    file: options.TextFile = None,
    force: Annotated[bool, option("--force", help="overwrite TARGET if it exists", panel=options.OUTPUT)] = False,
) -> None:
    """Write a model in another format. Reports the loss increase from float16 or int8."""
    from tinygpt.store import formats

    output = Output()
    require_replaceable(target, force)
    kind = formats.known_format(target, to, dtype)
    dtype = dtype or formats.usual_dtype(kind)
    model = open_model(source)
    formats.save_model(
        target,
        model,
        format=to,
        include_optimizer=not weights_only,
        dtype=dtype,
        title=title or name_of(source),
        prompt=prompt,
    )
    output.say(f"Wrote {target} ({kind}, {size_of(written_bytes(target))}).")
    if kind == formats.HUGGINGFACE and not formats.is_gpt2(model.config.model):
        output.say(
            "It opens with trust_remote_code=True, since GPT-2 cannot compute this model: its code is in the folder."
        )
    if dtype != "float32" and kind in (formats.TINYGPT, formats.PAGE):
        try:
            output.say(difference(source, model, target, dtype, data, file, output))
        except TinyGPTError as fault:
            output.warn(f"what {dtype} costs could not be measured: {fault}")


def written_bytes(target: Path) -> int:
    return sum(file.stat().st_size for file in target.iterdir()) if target.is_dir() else target.stat().st_size


def difference(
    source: Path, model: Checkpoint, target: Path, dtype: str, data: str | None, file: Path | None, output: Output
) -> str:
    """The loss of the file that was written beside that of what it was made from, on text that is held out."""
    own = evaluate.own_texts(source, model)
    choice = choose_data(own.data, data, file, None)
    whole = file is not None
    if choice == own.data and own.validation != NO_TEXT:
        choice, whole = own.validation, True
    if not choice.name and not choice.file:
        raise TinyGPTError("say on which text with --data or --file, for the model does not know its own")
    text = evaluate.part_of(choice, "all" if whole else "val", model, output)[:MEASURED_BYTES]
    losses = []
    for checkpoint in (model, open_model(target)):
        work = evaluate.work_of(checkpoint, text)
        engine, _ = on_engine(checkpoint, evaluate.exact_choice(None, None, None), work)
        losses.append(evaluate.score(engine, text, output).loss)
        run_now(engine.close())
    more = 100 * (losses[1] / losses[0] - 1)
    if more > MOST_LOST[dtype]:
        output.warn(f"{dtype} is meant to cost less than {MOST_LOST[dtype]:g} % of the loss")
    on = f"on {len(text):,} bytes of {choice.title()}"
    return f"Loss {losses[0]:.4f} before, {losses[1]:.4f} in {dtype}: {more:+.3f} %, {on}."


def require_replaceable(target: Path, force: bool) -> None:
    """Refuse what would be lost; an empty folder is nothing, and a run is never given up."""
    from tinygpt.disk.files import faults_of

    with faults_of(target, "write"):
        if RunFolder(target).config.exists() or (target / "checkpoints").is_dir():
            raise TinyGPTError("this is the folder of a run: choose another target")
        taken = any(target.iterdir()) if target.is_dir() else target.exists()
        if taken and not force:
            raise TinyGPTError("this exists already: choose another target, or overwrite it with --force")


def inspect(model: ModelPath, json: options.Json = False) -> None:
    """What a model file holds: config, tensors, loss history, sample."""
    from tinygpt.store.formats import inspect_model

    facts = inspect_model(locate(model).path)
    if json:
        typer.echo(jsonlib.dumps(facts))
        return
    output = Output()
    output.facts(summary(facts))
    output.say()
    output.console.print(tensor_table(facts["tensors"]))
    if len(facts["loss_history"]) > 1:
        steps = [step for step, _ in facts["loss_history"]]
        losses = [loss for _, loss in facts["loss_history"]]
        output.say()
        output.say(Text(f"loss from {losses[0]:.3f} (step {steps[0]:,}) to {losses[-1]:.3f} ({steps[-1]:,})", "dim"))
        output.say(Text(sparkline(losses, SPARKLINE_WIDTH), style="cyan"))
    if facts["sample"]:
        output.say()
        output.say(Text("sample", style="dim"))
        output.say(printable(facts["sample"]).strip("\n"))


def summary(facts: dict[str, Any]) -> list[tuple[str, str]]:
    model, train = ModelConfig(**facts["config"]["model"]), facts["config"]["train"]
    training = f"batch {train['batch']}, lr {train['lr']:g}, {train['schedule']} schedule, seed {train['seed']}"
    kind = f"{facts['format']}, {facts['dtype']}" if facts["dtype"] else facts["format"]
    optimizer = "with" if facts["has_optimizer"] else "without"
    rows = [
        ("file", facts["path"]),
        ("format", f"{kind}, {size_of(facts['file_bytes'])}, {optimizer} optimizer state"),
        ("model", f"{model.describe()}; {facts['parameter_count']:,} parameters"),
        ("training", f"step {facts['step']:,} of {train['steps']:,}; {training}"),
    ]
    if facts.get("sha256_ok") is not None:
        rows.append(("checksum", "OK" if facts["sha256_ok"] else "WRONG: the file is damaged"))
    if facts["loss"] is not None:
        rows.append(("last loss", f"{facts['loss']:.4f}"))
    if facts["best_val"] is not None:
        rows.append(("best val", f"{facts['best_val']:.4f} at step {facts['best_step']:,}"))
    if facts["data"].get("name"):
        rows.append(("corpus", str(facts["data"]["name"])))
    if facts["origin"]:
        rows.append(("began with", began_with(facts["origin"])))
    if facts["lora"]:
        rows.append(("merged", merged_adapter(facts["lora"], facts["origin"] or {})))
    if facts["saved_at"]:
        rows.append(("saved", f"{facts['saved_at']}, engine {facts['backend'] or 'unknown'}"))
    if facts["edit"]:
        rows.append(("edited", f"trained by sources with the edit {facts['edit']}"))
    if facts["left_out"]:
        rows.append(("left out", f"{a_few(facts['left_out'])}: not understood"))
    return rows


def merged_adapter(lora: dict[str, Any], origin: dict[str, Any]) -> str:
    """What was merged into the weights. The other rows tell of its training, if that began with its base; else of
    the base's."""
    name, rank, alpha, targets = (short(lora.get(key, "?")) for key in ("name", "rank", "alpha", "targets"))
    whose = "" if origin.get("sha256") == lora.get("baseSha256") else "; losses are the base's"
    return f"with the adapter {name}: rank {rank}, alpha {alpha}, on {targets}{whose}"


def began_with(origin: dict[str, Any]) -> str:
    return f"{short(origin.get('model', '?'))}, weights sha256 {str(origin.get('sha256', '?'))[:16]}…"


def short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:100]


def tensor_table(tensors: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tensor")
    for name in ("shape", "mean", "std", "min", "max"):
        table.add_column(name, justify="right")
    for tensor in tensors:
        shape = " × ".join(str(size) for size in tensor["shape"])
        if tensor["finite"]:
            numbers = [f"{tensor[name]:.4f}" for name in ("mean", "std", "min", "max")]
        else:
            numbers = ["NaN or infinite", "", "", ""]
        table.add_row(tensor["name"], shape, *numbers)
    return table
