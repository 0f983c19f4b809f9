"""What a model is: a value that carries all that the rest of the project asks of it."""

from collections import namedtuple

# Functions of a ModelConfig:
#   outer_rows, block_rows   its parameters: outside the blocks, and of each block (name, shape, std, fill)
#   state                    (model, texts): the tensors that texts keep from byte to byte while they are written
#   parts                    what can be scaled or switched off: a list of Part
#   stages                   the residual stream on its way: what has just added to it, its tensor, its gradient's
#   lenses                   tensors with the logits that the input of each block would give, then the model's own
#   attention                tensors with attention's weights, one per block
# Functions that write into a ModelProgram `p`:
#   forward(p, tokens)       the logits of every row, and what `backward` needs
#   backward(p, tokens, dlogits, saved)
#   inspect(p, tokens)       forward, with tensors that exist only to be looked at; the logits
#   prefill(p, tokens, logits), decode(p, tokens, logits)
#                            the logits that follow a prompt, or the newest byte of every text. Either may return a
#                            function that is called with `p` after the commit, to keep what outlives the run.
# drops: whether dropout means anything to it
Model = namedtuple(
    "Model",
    (
        "outer_rows",
        "block_rows",
        "state",
        "forward",
        "backward",
        "inspect",
        "prefill",
        "decode",
        "parts",
        "stages",
        "lenses",
        "attention",
        "drops",
    ),
)

# A part adds the output of linear maps to the residual stream, so scaling their weights scales what it adds. `maps` are
# (name, columns) of each: WHOLE, or the first and the number of the columns.
Part = namedtuple("Part", ("name", "maps"))
WHOLE = (0, 0)
