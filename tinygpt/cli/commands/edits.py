"""`tinygpt edits`: the edits that come with the package, and the faults that are to be found."""

from __future__ import annotations

from typing import Annotated

import typer

from tinygpt.cli.options import option
from tinygpt.cli.output import Output
from tinygpt.core.errors import TinyGPTError

EXAMPLES = """Examples:

\b
  tinygpt edits                                 all of them, with what each does
  tinygpt edits no-residual                     one of them, as a patch
  tinygpt train --preset tiny --edit no-residual
  tinygpt gradients --edit lost-gradient        finite differences find the fault
  tinygpt train --edit my.patch                 a patch of your own
  tinygpt edits mutant-05                       what is wrong? --hint 1, 2, 3; --answer
"""


def edits(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="one to show", show_default=False)] = None,
    hint: Annotated[int | None, option("--hint", help="of a mutant: 1, 2 or 3", panel="Mutants")] = None,
    answer: Annotated[
        bool, option("--answer", help="of a mutant: what is wrong, and the patch", panel="Mutants")
    ] = False,
) -> None:
    """Ready changes of TinyGPT's own sources, to train with, and faults to find in them."""
    from tinygpt.edits import mutant_names, read_edit, ready_names

    output = Output()
    if name is None:
        output.facts([(each, read_edit(each).about.splitlines()[0]) for each in ready_names() + mutant_names()])
        output.hint("Try one: tinygpt train --preset tiny --edit no-residual")
    elif name in mutant_names():
        output.say(told_of(read_edit(name).about, read_edit(name).text, hint, answer))
    else:
        typer.echo(read_edit(name).text, nl=False)


def told_of(about: str, patch: str, hint: int | None, answer: bool) -> str:
    """What a mutant says of itself: as much as is asked for."""
    symptom, *lines = about.splitlines()
    said = [line.partition(": ") for line in lines]
    hints, (degree,), (solution,) = [
        [text for kind, _, text in said if kind == one] for one in ("Hint", "Degree", "Answer")
    ]
    if answer:
        return f"{solution}\n\n{patch[patch.index('--- ') :].rstrip()}"
    if hint is None:
        return f"{symptom} ({degree}; --hint 1 to {len(hints)}, --answer)"
    if not 1 <= hint <= len(hints):
        raise TinyGPTError(f"there are hints 1 to {len(hints)}, not {hint}")
    return hints[hint - 1]
