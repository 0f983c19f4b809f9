"""The kernels by their signatures, and a program: a flat list of calls of them on named tensors.

A program is plain data. It prints itself, every engine replays it verbatim, and it holds integers and
float32 bit patterns only, so that CPython and MicroPython build it byte for byte alike.
"""

import struct

from tinygpt.core.errors import TinyGPTError

# Sizes, the same letters in Python, C++ and WGSL:
#   B batch, T context, N = B*T rows, C width, H heads, D = C/H head size, V vocabulary,
#   I and O a linear map's inputs and outputs, P parameters (with padding).
#
# "inputs -> outputs | dims | scalars". A name with ? may be absent. An output with + is also read:
# `accumulate` decides at run time whether it is added to (1) or overwritten (0).
SIGNATURES = {
    # x[n] = wte[tokens[n]] + wpe[n mod T]
    "embed": "tokens wte wpe -> x | N T C",
    # dwte[v] += sum of dx[n] over tokens[n] = v;  dwpe[t] (+)= sum over the batch of dx[b, t]
    "embed_backward": "tokens dx -> dwte+ dwpe+ | N T C accumulate",
    # y = (x - mean) * rstd * gain + bias, row by row
    "layernorm": "x gain bias -> y mean rstd | N C | eps",
    # dx = dresidual + the gradient through the norm; dgain, dbias summed over rows
    "layernorm_backward": "dy x gain mean rstd dresidual? -> dx dgain+ dbias+ | N C accumulate",
    # y[N,O] = x[N,I] weight[O,I]^T (+ bias) (+ residual)
    "linear": "x weight bias? residual? -> y | N O I",
    # h = x weight^T + bias;  y = gelu(h);  slope = gelu'(h), kept for the backward pass
    "linear_gelu": "x weight bias -> y slope? | N O I",
    # dx[N,I] = dy[N,O] weight[O,I] (* slope)
    "linear_backward_input": "dy weight slope? -> dx | N O I",
    # dweight[O,I] (+)= dy^T x;  dbias[O] (+)= sum over rows of dy
    "linear_backward_weight": "dy x -> dweight+ dbias?+ | N O I accumulate",
    # qkv is [N, 3C]: q, k, v side by side, each H heads of D. lse[B,H,T] is each row's log-sum-exp.
    "attention": "qkv -> y lse? | B T H D",
    "attention_backward": "dy qkv y lse -> dqkv | B T H D",
    # losses[n] = -log softmax(logits[n])[targets[n]];  dlogits = (softmax - onehot) / count
    "cross_entropy": "logits targets -> losses dlogits? | N V count",
    # loss[0] (+)= sum(losses) / count, the rows of a whole step
    "mean_loss": "losses -> loss+ | N accumulate count",
    # norm[0] = |grads|, norm[1] = the factor that clips it to `limit` (1 where limit is 0)
    "grad_norm": "grads -> norm | P | limit",
    # rates: step_size = lr / (1 - beta1^t), root_correction = 1 / sqrt(1 - beta2^t), decay = lr * weight_decay
    "adamw": "grads norm rates -> weights+ m+ v+ | P decayed | beta1 beta2 eps",
    # Generation, one sequence. cache_k, cache_v are [T, C]; position[0] is the row of the newest token.
    "embed_one": "tokens position wte wpe -> x | C",
    "cache_fill": "qkv -> cache_k cache_v | T C",
    "attention_one": "qkv position -> y cache_k+ cache_v+ | T H D",
    "pick_row": "x position -> y | N C",
}
KERNEL_NAMES = sorted(SIGNATURES)  # a kernel's number is its place in this list

# The shapes that kernels give their tensors, axes by commas. (The vocabulary's size is no dim of the embeddings.)
SHAPES = {
    "embed": "tokens=N wpe=T,C x=N,C",
    "embed_backward": "tokens=N dx=N,C dwpe=T,C",
    "layernorm": "x=N,C gain=C bias=C y=N,C mean=N rstd=N",
    "layernorm_backward": "dy=N,C x=N,C gain=C mean=N rstd=N dresidual=N,C dx=N,C dgain=C dbias=C",
    "linear": "x=N,I weight=O,I bias=O residual=N,O y=N,O",
    "linear_gelu": "x=N,I weight=O,I bias=O y=N,O slope=N,O",
    "linear_backward_input": "dy=N,O weight=O,I slope=N,I dx=N,I",
    "linear_backward_weight": "dy=N,O x=N,I dweight=O,I dbias=O",
    "attention": "qkv=B*T,3*H*D y=B*T,H*D lse=B,H,T",
    "attention_backward": "dy=B*T,H*D qkv=B*T,3*H*D y=B*T,H*D lse=B,H,T dqkv=B*T,3*H*D",
    "cross_entropy": "logits=N,V targets=N losses=N dlogits=N,V",
    "mean_loss": "losses=N loss=1",
    "grad_norm": "grads=P norm=2",
    "adamw": "grads=P norm=2 rates=3 weights=P m=P v=P",
    "embed_one": "position=1 x=1,C",
    "cache_fill": "qkv=T,3*C cache_k=T,C cache_v=T,C",
    "attention_one": "qkv=1,3*H*D position=1 y=1,H*D cache_k=T,H*D cache_v=T,H*D",
    "pick_row": "x=N,C position=1 y=1,C",
}


class Signature:
    """A parsed line of SIGNATURES, with its line of SHAPES."""

    def __init__(self, line: str, shapes: str) -> None:
        parts = [part.split() for part in line.replace("->", "|").split("|")]
        parts = parts + [[]] * (4 - len(parts))
        self.optional = [word.rstrip("+").rstrip("?") for word in parts[0] + parts[1] if "?" in word]
        self.updated = [word.rstrip("+").rstrip("?") for word in parts[1] if word.endswith("+")]
        self.inputs = [word.rstrip("?") for word in parts[0]]
        self.outputs = [word.rstrip("+").rstrip("?") for word in parts[1]]
        self.dims = parts[2]
        self.scalars = parts[3]
        self.shapes: dict[str, list[str]] = {}
        for rule in shapes.split():
            name, axes = rule.split("=")
            self.shapes[name] = axes.split(",")


PARSED = {name: Signature(SIGNATURES[name], SHAPES[name]) for name in SIGNATURES}


def elements(shape: tuple[int, ...]) -> int:
    total = 1
    for dim in shape:
        total *= dim
    return total


def float_bits(value: float) -> int:
    """The float32 nearest to `value`, as the signed 32-bit integer of the same bits."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


def bits_float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


class Tensor:
    """A named array. `kind` says who owns it:

    weight, grad, m, v: persistent, one entry a parameter;  input: the host writes it before a run;
    output: the host reads it after one;  cache: lives from run to run;  temp: lives within a run.
    A view has no memory of its own: it lies `start` floats into the tensor `inside`.
    """

    def __init__(self, name: str, shape: tuple[int, ...], kind: str = "temp", dtype: str = "f32") -> None:
        self.name = name
        self.shape = shape
        self.kind = kind
        self.dtype = dtype
        self.inside: Tensor | None = None
        self.start = 0
        self.size = elements(shape)

    def root(self) -> "Tensor":
        return self.inside or self

    def __repr__(self) -> str:
        return f"{self.name}[{','.join([str(dim) for dim in self.shape])}]"


class Op:
    """One kernel call. `tensors` stand in the signature's order, inputs first; None where absent."""

    def __init__(self, kernel: str, tensors: list[Tensor | None], dims: list[int], scalars: list[int]) -> None:
        self.kernel = kernel
        self.tensors = tensors
        self.dims = dims
        self.scalars = scalars  # float32 bit patterns

    def dim(self, name: str) -> int:
        return self.dims[PARSED[self.kernel].dims.index(name)]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape this call gives its tensor `name`."""
        signature = PARSED[self.kernel]
        if name not in signature.shapes:
            tensor = self.tensor(name)
            return tensor.shape if tensor is not None else ()
        return tuple([self.axis(axis) for axis in signature.shapes[name]])

    def axis(self, product: str) -> int:
        total = 1
        for factor in product.split("*"):
            total *= self.dim(factor) if factor in PARSED[self.kernel].dims else int(factor)
        return total

    def tensor(self, name: str) -> Tensor | None:
        signature = PARSED[self.kernel]
        return self.tensors[(signature.inputs + signature.outputs).index(name)]

    def reads(self) -> list[Tensor]:
        signature = PARSED[self.kernel]
        read = [t for t in self.tensors[: len(signature.inputs)] if t is not None]
        for name in self.updated():
            tensor = self.tensor(name)
            if tensor is not None:
                read.append(tensor)
        return read

    def writes(self) -> list[Tensor]:
        return [t for t in self.tensors[len(PARSED[self.kernel].inputs) :] if t is not None]

    def updated(self) -> list[str]:
        """The outputs that this call reads as well as writes."""
        signature = PARSED[self.kernel]
        if "accumulate" not in signature.dims or self.dim("accumulate"):
            return signature.updated
        return ["dwte"] if self.kernel == "embed_backward" else []  # the head's gradient is there already

    def __repr__(self) -> str:
        signature = PARSED[self.kernel]
        count = len(signature.inputs)
        inside = ", ".join([repr(t) for t in self.tensors[:count] if t is not None])
        outside = ", ".join([repr(t) for t in self.tensors[count:] if t is not None])
        return f"{outside} = {self.kernel}({inside})"


class Program:
    """The ops of one mode, in order, and the tensors they name."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []

    def tensor(self, name: str, shape: tuple[int, ...], kind: str = "temp", dtype: str = "f32") -> Tensor:
        tensor = Tensor(name, shape, kind, dtype)
        self.tensors.append(tensor)
        return tensor

    def call(self, kernel: str, **arguments: "Tensor | int | float | None") -> None:
        """Append a kernel call; every name of its signature must be given, absent tensors excepted."""
        signature = PARSED[kernel]
        tensors: list[Tensor | None] = []
        for name in signature.inputs + signature.outputs:
            tensor = arguments.pop(name, None)
            if tensor is None and name not in signature.optional:
                raise TinyGPTError(f"a program calls {kernel} without its tensor '{name}'; this is a bug")
            tensors.append(tensor)  # type: ignore[arg-type]
        dims = [arguments.pop(name) for name in signature.dims]
        scalars = [float_bits(arguments.pop(name)) for name in signature.scalars]  # type: ignore[arg-type]
        if arguments:
            raise TinyGPTError(f"a program calls {kernel} with '{sorted(arguments)[0]}', which it does not take")
        self.ops.append(Op(kernel, tensors, dims, scalars))  # type: ignore[arg-type]
