"""The smallest model that trains: a byte's row of one table [V, V] is the logits of the byte after it.

Of the model's settings only `ctx` means anything here. What it learns is how often each byte follows each.
"""

from tinygpt.core.config import VOCAB, RunConfig
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.model import ModelProgram
from tinygpt.core.ops.op import Tensor

TABLE = "token_embedding.weight"


class BigramProgram(ModelProgram):
    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.rows("logits", VOCAB)
        self.call("embed", tokens=tokens, wte=self.weight[TABLE], x=logits, N=self.N, T=self.T, C=VOCAB)
        return logits

    def backward(self, tokens: Tensor, dlogits: Tensor, accumulate: int) -> None:
        self.call(
            "embed_backward", tokens=tokens, dx=dlogits, dwte=self.memory.grad[TABLE], N=self.N, T=self.T, V=VOCAB,
            C=VOCAB, accumulate=accumulate, tied=0,
        )  # fmt: skip


class BigramPrefill(BigramProgram):
    def __init__(self, mode: str, config: RunConfig, memory: Memory, rows: int) -> None:
        BigramProgram.__init__(self, mode, config, memory, 1, rows, learns=False)

    def next_logits(self, tokens: Tensor, logits: Tensor) -> None:
        every = self.forward(tokens)
        position, row, texts = self.memory.position, self.memory.row, self.memory.texts
        self.call("pick_row", x=every, position=position, row=row, y=logits, N=self.N, C=VOCAB, R=texts)


class BigramDecode(BigramProgram):
    def __init__(self, config: RunConfig, memory: Memory) -> None:
        BigramProgram.__init__(self, "decode", config, memory, memory.texts, 1, learns=False)

    def next_logits(self, tokens: Tensor, logits: Tensor) -> None:
        table, position = self.weight[TABLE], self.memory.position
        self.call("embed_one", tokens=tokens, position=position, wte=table, x=logits, C=VOCAB, R=self.N)
