"""The card of a model on the Hugging Face Hub: its README.md, which says what it is, wrote and learned from."""

from tinygpt.core.config import ModelConfig
from tinygpt.core.models.parameters import parameter_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODEL_FILE, WEIGHTS_FILE, CARD_FILE, CURVE_FILE = "model.tinygpt", "model.safetensors", "README.md", "loss.png"
UNSTATED = "not stated"
MARKS = "\\`*_{}[]<>#|~!"
IDENTIFIER = "abcdefghijklmnopqrstuvwxyz0123456789.-"
RECIPE = ("batch", "steps", "lr", "schedule", "optimizer", "seed")


def model_card(facts: "dict[str, Any]") -> str:
    """`facts`: repo, title, config, progress, text (the name of what it learned from), licence (of that text)."""
    model, progress = ModelConfig(**facts["config"]["model"]), facts["progress"]
    train = facts["config"]["train"]
    licence = facts.get("licence") or UNSTATED
    lines = ["---", "library_name: tinygpt", "pipeline_tag: text-generation"]
    if is_identifier(licence):
        lines.append("license: " + licence)
    lines += ["tags:", "- tinygpt", "- byte-level", "- from-scratch", "---", "", "# " + plain(facts["title"]), ""]
    lines.append(f"A language model of {parameter_count(model):,} numbers that reads and writes bytes, trained from")
    lines.append("scratch with TinyGPT.")
    if progress["sample"]:
        lines += ["", "## What it writes", ""] + fenced(progress["sample"])
    lines += ["", "## How it learned", ""]
    lines.append(f"- text: {plain(facts.get('text') or UNSTATED)}; its licence: {plain(licence)}")
    lines.append("- model: " + plain(model.describe()))
    lines.append(f"- step {progress['step']:,}; " + ", ".join([f"{name} {train[name]}" for name in RECIPE]))
    if progress["best_val"] is not None:
        lines.append(f"- best validation loss: {progress['best_val']:.4f} at step {progress['best_step']:,}")
    elif progress["loss"] is not None:
        lines.append(f"- last loss: {progress['loss']:.4f}")
    if len(progress["history"]) > 1:
        lines += ["", f"![its loss, step by step]({CURVE_FILE})"]
    lines += ["", "## How to use it", ""]
    lines += fenced(f"tinygpt sample hf:{facts['repo']} -i\ntinygpt convert hf:{facts['repo']} model.html")
    lines.append("")
    lines.append(f"`{MODEL_FILE}` is TinyGPT's own file, `{WEIGHTS_FILE}` has the same weights.")
    return "\n".join(lines) + "\n"


def is_identifier(licence: str) -> bool:
    """Whether it is one of the names that the Hub has for licences, as far as can be seen."""
    return bool(licence) and not [letter for letter in licence if letter not in IDENTIFIER]


def plain(text: str) -> str:
    """One line that Markdown shows as it is."""
    shown = "".join([letter if letter >= " " else " " for letter in text])
    return "".join(["\\" + letter if letter in MARKS else letter for letter in shown]).strip()


def fenced(text: str) -> "list[str]":
    """As code, which a fence of more backticks than the text has in a row keeps whole."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence + "text", text.strip("\n"), fence]
