"""Options that scale parts of a model: to leave out a head, an MLP, a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tinygpt.cli.options import option

if TYPE_CHECKING:
    from tinygpt.store.formats import Checkpoint

Ablate = Annotated[
    list[str] | None,
    option(
        "--ablate",
        metavar="PART",
        help="without a head, an MLP or a block: blocks.1.head.3, blocks.*.mlp, blocks.0; may be repeated",
        panel="Model",
    ),
]
Scale = Annotated[
    list[str] | None,
    option(
        "--scale", metavar="PART=FACTOR", help="with a part scaled: blocks.1.attn=0.5; may be repeated", panel="Model"
    ),
]


def with_parts(checkpoint: Checkpoint, ablate: list[str] | None, scale: list[str] | None) -> Checkpoint:
    """The model as these options have it."""
    if not ablate and not scale:
        return checkpoint
    from tinygpt.inside.parts import scaled_model

    return scaled_model(checkpoint, ablate or (), scale or ())


def changes(ablate: list[str] | None, scale: list[str] | None) -> list[str]:
    """What was changed, in words."""
    return [f"without {part}" for part in ablate or ()] + list(scale or ())
