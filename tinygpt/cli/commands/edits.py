"""`tinygpt edits`: the edits that come with the package."""

from __future__ import annotations

from typing import Annotated

import typer

from tinygpt.cli.output import Output

EXAMPLES = """Examples:

\b
  tinygpt edits                                 all of them, with what each does
  tinygpt edits no-residual                     one of them, as a patch
  tinygpt train --preset tiny --edit no-residual
  tinygpt gradients --edit lost-gradient        finite differences find the fault
  tinygpt train --edit my.patch                 a patch of your own
"""


def edits(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="one to show", show_default=False)] = None,
) -> None:
    """Ready changes of TinyGPT's own sources, to train with: what is left when a part is taken away."""
    from tinygpt.edits import read_edit, ready_names

    output = Output()
    if name is not None:
        typer.echo(read_edit(name).text, nl=False)
        return
    output.facts([(each, read_edit(each).about.splitlines()[0]) for each in ready_names()])
    output.hint("Try one: tinygpt train --preset tiny --edit no-residual")
