"""What an op makes is changed on its way to memory, instead of being read again by the next op.

    o = linear(y, W);  x_mid = o + x                         x_mid = linear(y, W) + x
    o.dropped = dropout(o);  x_mid = o.dropped + x           x_mid = dropout(o) + x
    u = linear(b, W);  h = activation(u)                     h, slope = linear_activation(b, W)
    dh = linear_backward_input(dx_out, W);                   du = linear_backward_input(dx_out, W) * slope
      du = activation_backward(dh, u)
    dx_mlp = norm_backward(db);  dx_mid = dx_mlp + dx_out    dx_mid = norm_backward(db) + dx_out
    db = linear_backward_input(du, W);  dx_mid = db + dx     dx += linear_backward_input(du, W)

Where adapters add to what a linear map made, the map has the residual, and they have the slope, too.
"""

from tinygpt.core.ops.op import Op, Program, Tensor, op_of
from tinygpt.core.passes.rewrite import rewritten, tensor_of, with_dim, with_tensors

# What can add a residual to what it makes, and its name for that.
ADDS = {"linear": "residual", "dropout": "residual", "layernorm_backward": "dresidual", "rmsnorm_backward": "dresidual"}


def fuse(program: Program, activations: bool, residuals: bool) -> Program:
    fusing = Fusing(program)
    for index in range(len(program.ops)):
        kernel = program.ops[index].kernel
        if activations and kernel == "activation":
            fusing.activation(index)
        elif residuals and kernel == "add":
            fusing.add(index)
    return fusing.program()


class Fusing:
    """A program while it is rewritten."""

    def __init__(self, program: Program) -> None:
        self.given = program
        self.ops: list[Op | None] = list(program.ops)  # None: it is gone
        self.instead: dict[str, Tensor] = {}  # by name, what stands for a tensor that is gone
        self.writers: dict[str, list[int]] = {}  # by a tensor's name, the ops that write it,
        self.readers: dict[str, list[int]] = {}  # and those that only read it
        for index in range(len(program.ops)):
            op = program.ops[index]
            inputs = len(op.declared.inputs)
            for place in range(len(op.tensors)):
                tensor = op.tensors[place]
                if tensor is not None:
                    users = self.readers if place < inputs else self.writers
                    users.setdefault((tensor.inside or tensor).name, []).append(index)

    def op(self, index: int) -> Op:
        op = self.ops[index]
        assert op is not None
        return op

    def add(self, index: int) -> None:
        op = self.op(index)
        x, residual, y = tensor_of(op, "x"), tensor_of(op, "residual"), tensor_of(op, "y")
        writers = self.writers[x.name]
        first = self.ops[writers[0]]
        if first is None or x.kind != "temp" or self.readers[x.name] != [index]:
            return
        if first.kernel in ADDS and first.tensor(ADDS[first.kernel]) is None:
            self.ops[writers[0]] = with_tensors(first, **{ADDS[first.kernel]: residual})
            self.instead[x.name] = y
        elif first.kernel == "linear_backward_input" and self.is_last_read(residual, writers[0], index):
            self.ops[writers[0]] = with_dim(first, "accumulate", 1)
            self.instead[x.name] = self.instead[y.name] = residual
        else:
            return
        self.ops[index] = None

    def is_last_read(self, tensor: Tensor, since: int, index: int) -> bool:
        """Whether `index` is the only op from `since` on that reads the tensor, so that its place can be taken."""
        return tensor.kind == "temp" and [reader for reader in self.readers[tensor.name] if reader >= since] == [index]

    def activation(self, index: int) -> None:
        op = self.op(index)
        u, h = tensor_of(op, "x"), tensor_of(op, "y")
        writers, readers = self.writers[u.name], self.readers[u.name]
        of_linear = self.op(writers[0])
        if of_linear.kernel != "linear" or len(readers) > 2:
            return
        slope = added = None
        if len(readers) == 2:
            slope = self.given.tensor(h.name + ".slope", h.shape)
            if not self.activation_backward(readers[1], slope):
                return
        if len(writers) > 1:
            added = self.instead[u.name] = self.given.tensor(h.name + ".added", h.shape)
            self.ops[writers[1]] = with_dim(self.op(writers[1]), "accumulate", 0)
        arguments = of_linear.arguments()
        arguments.update({"y": h, "slope": slope, "residual": added, "kind": op.dim("kind")})
        self.ops[writers[0]] = None
        self.ops[index] = op_of("linear_activation", arguments)

    def activation_backward(self, index: int, slope: Tensor) -> bool:
        op = self.op(index)
        dh = tensor_of(op, "dy")
        writers = self.writers[dh.name]
        kernels = [self.op(writer).kernel for writer in writers]
        if self.readers[dh.name] != [index] or kernels != ["linear_backward_input"] * len(writers):
            return False
        for writer in writers:
            self.ops[writer] = with_tensors(self.op(writer), slope=slope)
        self.instead[dh.name] = tensor_of(op, "dx")
        self.ops[index] = None
        return True

    def program(self) -> Program:
        ops = iter(self.ops)

        def change(made: Program, _: Op) -> None:
            op = next(ops)
            if op is not None:
                made.ops.append(self.renamed(op))

        return rewritten(self.given, change)

    def renamed(self, op: Op) -> Op:
        tensors = None
        for place in range(len(op.tensors)):
            tensor = op.tensors[place]
            if tensor is None or tensor.name not in self.instead:
                continue
            while tensor.name in self.instead:
                tensor = self.instead[tensor.name]
            tensors = tensors or list(op.tensors)
            tensors[place] = tensor
        return Op(op.kernel, tensors, op.dims, op.scalars) if tensors else op
