"""What a command's help shows: the options that most people need, and with --help-all every one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

OFTEN = {
    "train": "preset recipe data file val_file minutes out resume init_from steps lr batch seed engine threads "
    "json quiet",
    "sweep": "over preset recipe data file seeds out resume jobs steps lr batch engine threads json quiet halving",
}
ALWAYS = ("assignments", "help", "help_all")


def show_all(ctx: typer.Context, asked: bool) -> None:
    if asked:
        for option in ctx.command.params:
            option.hidden = False  # type: ignore[attr-defined]  # arguments have no such attribute, and no need of it
        typer.echo(ctx.get_help(), nl=False)
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=show_all, help="show all options and exit")
]


def arranged(name: str, command: Any) -> Any:
    """The command, with the options that are seldom needed hidden, and flags without a type."""
    for option in command.params:
        if getattr(option, "is_flag", False):
            option.display_type_rich = lambda ctx: None
        option.hidden = name in OFTEN and option.name not in (*OFTEN[name].split(), *ALWAYS)
    return command
