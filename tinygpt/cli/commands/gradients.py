"""`tinygpt gradients`: the backward pass against finite differences."""

from __future__ import annotations

import typer

from tinygpt.cli import options
from tinygpt.cli.output import Output
from tinygpt.core.edited import EDIT
from tinygpt.core.presets import DEFAULT_RECIPE, preset

EXAMPLES = """Examples:

\b
  tinygpt gradients                         every parameter of the recipe's model, made small
  tinygpt gradients --recipe classic
  tinygpt gradients --edit my.patch         after a change of the step
"""
TEXT = b"Whatever goes in must come out: 0123456789, and then some more of it again. " * 20


def gradients(recipe: options.Recipe = None) -> None:
    """Check the hand-derived backward pass: a small model's gradients, in float64, against finite differences.

    The exit code is 1 where one is wrong.
    """
    from tinygpt.bench.gradients import WITHIN, check_gradients

    output = Output()
    if EDIT:
        output.facts([("edit", EDIT)])
    found = check_gradients(preset("tiny", recipe or DEFAULT_RECIPE), TEXT)
    wrong = [each for each in found if not each.right]
    width = max(len(each.name) for each in found)
    for each in found:
        verdict = "" if each.right else "  wrong"
        output.say(f"{each.name:{width}}  length {each.length:8.2e}  off by {each.error:7.1e}{verdict}")
    output.say()
    if wrong:
        output.say(
            f"{len(wrong)} of {len(found)} gradients are wrong. Going backward, {wrong[0].name} is the first: look at "
            f"the op that makes it, or at the one before."
        )
        raise typer.Exit(1)
    output.say(f"All {len(found)} gradients agree with finite differences to {WITHIN:g} of their length.")
