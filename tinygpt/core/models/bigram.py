"""The smallest model that trains: a byte's row of one table [V, V] is the logits of the byte after it.

Of the model's settings only `ctx` means anything here. What it learns is how often each byte follows each.
"""

from tinygpt.core.config import VOCAB, ModelConfig
from tinygpt.core.models.layers import ModelProgram
from tinygpt.core.models.model import Model
from tinygpt.core.models.parameters import INIT_STD
from tinygpt.core.ops.op import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.models.parameters import Row

TABLE = "token_embedding.weight"


def outer_rows(model: ModelConfig) -> "list[Row]":
    return [(TABLE, (VOCAB, VOCAB), INIT_STD, 0.0)]


def nothing(model: ModelConfig, texts: int = 1) -> "list[Any]":
    """It has no blocks, keeps nothing of a text, and there is nothing in it to switch off or to look at."""
    return []


def forward(p: ModelProgram, tokens: Tensor) -> "tuple[Tensor, None]":
    return inspect(p, tokens), None


def inspect(p: ModelProgram, tokens: Tensor) -> Tensor:
    logits = p.rows("logits", VOCAB)
    p.call("embed", tokens=tokens, wte=p.weight[TABLE], x=logits, N=p.N, T=p.T, C=VOCAB)
    return logits


def backward(p: ModelProgram, tokens: Tensor, dlogits: Tensor, saved: None) -> None:
    dtable = p.memory.grad[TABLE]
    p.call("embed_backward", tokens=tokens, dx=dlogits, dwte=dtable, N=p.N, T=p.T, V=VOCAB, C=VOCAB, tied=0)


def prefill(p: ModelProgram, tokens: Tensor, logits: Tensor) -> None:
    every, memory = inspect(p, tokens), p.memory
    p.call("pick_row", x=every, position=memory.position, row=memory.row, y=logits, N=p.N, C=VOCAB, R=memory.texts)


def decode(p: ModelProgram, tokens: Tensor, logits: Tensor) -> None:
    p.call("embed_one", tokens=tokens, position=p.memory.position, wte=p.weight[TABLE], x=logits, C=VOCAB, R=p.N)


def lenses(model: ModelConfig) -> list[str]:
    return ["logits"]


MODEL = Model(
    outer_rows, nothing, nothing, forward, backward, inspect, prefill, decode, nothing, nothing, lenses, nothing, False
)
