"""Options that watch tensors while a model trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tinygpt.cli import options
from tinygpt.cli.options import option
from tinygpt.core.errors import TinyGPTError

if TYPE_CHECKING:
    from tinygpt.jobs.session import Watch

Watched = Annotated[
    list[str] | None,
    option(
        "--watch",
        metavar="TENSOR",
        help="report this tensor: blocks.*.dqkv; `tinygpt look --tensors` lists them; may be repeated",
        panel=options.OUTPUT,
    ),
]
WatchEvery = Annotated[
    int | None, option("--watch-every", help="steps between reports", default="eval_every", panel=options.OUTPUT)
]


def watch_of(patterns: list[str] | None, every: int | None) -> Watch | None:
    """What these options ask for."""
    from tinygpt.jobs.session import Watch

    if not patterns:
        if every is not None:
            raise TinyGPTError("--watch-every says how often: say with --watch what")
        return None
    if every is not None and every < 1:
        raise TinyGPTError(f"--watch-every takes 1 step or more, not {every}")
    return Watch(tuple(patterns), every)
