"""What nothing reads is not computed.

dx = linear_backward_input(dy, W)      nothing, where no later op reads dx
"""

from tinygpt.core.ops.op import Op, Program
from tinygpt.core.passes.rewrite import rewritten


def drop_unread(program: Program) -> Program:
    read: dict[str, bool] = {}
    needed = []
    for op in reversed(program.ops):
        needed.append([tensor for tensor in op.writes() if tensor.kind != "temp" or tensor.root().name in read] != [])
        if needed[-1]:
            for tensor in op.reads():
                read[tensor.root().name] = True

    def change(made: Program, op: Op) -> None:
        if needed.pop():
            made.ops.append(op)

    return rewritten(program, change)
