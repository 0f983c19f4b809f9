"""An adapter on one of the merged projections, made of core's ops on slices of what they share, against PyTorch's LoRA.

q, k and v are columns of one matrix of activations: forward adds to some of them, backward reads the gradient of them.
"""

import numpy as np
import pytest
import torch
from gpu_here import MISSING, gpu_here
from watched import WatchedMachine

from tinygpt.core.config import VOCAB, LoraConfig
from tinygpt.core.models import programs
from tinygpt.core.models.gpt import GptProgram
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.op import Tensor
from tinygpt.core.plan import programs as planned
from tinygpt.core.presets import preset
from tinygpt.core.run.contract import run_now
from tinygpt.engines.spec import SpecMachine
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.lora import adapter_parameters, install, lora_parameters
from tinygpt.reference.model import GPT

RELATIVE = 1e-9
FLOAT32 = 64 * 2.0**-24  # the root of some 4,000 roundings, one after the other, whose errors have either sign
MERGED = ("q_proj", "k_proj", "v_proj")
EVEN = {"layers": 2, "d_model": 24, "heads": 3, "ctx": 11, "batch": 3}
ODD = {"layers": 1, "d_model": 15, "heads": 5, "ctx": 7, "batch": 2}
# With scales that float32 holds, as a program's numbers are.
ADAPTERS = {
    "q": (EVEN, LoraConfig(rank=4, alpha=6.0, targets="q_proj")),
    "k-odd": (ODD, LoraConfig(rank=3, alpha=1.5, targets="k_proj")),
    "v-odd-rank": (EVEN, LoraConfig(rank=3, alpha=6.0, targets="v_proj")),
}


def adapting(lora):
    """A model's memory with adapters, and its program with them."""

    class AdaptedMemory(Memory):
        def __init__(self, config, train_bytes=0, val_bytes=0):
            Memory.__init__(self, config, train_bytes, val_bytes)
            rows = adapter_parameters(config.model, lora)
            self.adapter = {row.name: Tensor(row.name, row.shape, "state") for row in rows}
            self.dadapter = {row.name: Tensor("d" + row.name, row.shape, "output") for row in rows}
            self.logits = Tensor("logits", (config.train.batch * config.model.ctx, VOCAB), "output")

        def tensors(self):
            return [*Memory.tensors(self), *self.adapter.values(), *self.dadapter.values(), self.logits]

    class AdaptedProgram(GptProgram):
        """y[:, columns] += low B^T with low = scale x A^T [N, R]."""

        def rows(self, name, width):
            return self.memory.logits if name == "logits" else GptProgram.rows(self, name, width)

        def columns(self, of):
            return of.columns(MERGED.index(lora.targets) * self.C, self.C)

        def of(self, tensors, which):
            projection = which.replace("qkv", lora.targets)
            return tensors[projection + ".lora_A"], tensors[projection + ".lora_B"]

        def linear(self, x, which, y, residual=None):
            GptProgram.linear(self, x, which, y, residual)
            if not which.endswith("qkv"):
                return
            A, B = self.of(self.memory.adapter, which)
            low, N, R = self.rows(which + ".low", lora.rank), self.N, lora.rank
            self.call("linear", x=x, weight=A, y=low, N=N, O=R, I=self.C, scale=lora.scale)
            self.call("linear", x=low, weight=B, y=self.columns(y), N=N, O=self.C, I=R, accumulate=1)

        def backward_linear(self, dy, x, which, dx, accumulate, slope=None, on_top=0):
            """dlow = scale dy[:, columns] B, dB = dy[:, columns]^T low;  dx += dlow A, dA = dlow^T x."""
            GptProgram.backward_linear(self, dy, x, which, dx, accumulate, slope, on_top)
            if not which.endswith("qkv"):
                return
            (A, B), (dA, dB) = self.of(self.memory.adapter, which), self.of(self.memory.dadapter, which)
            low = next(tensor for tensor in self.tensors if tensor.name == which + ".low")
            part, dlow = self.columns(dy), self.rows(which + ".dlow", lora.rank)
            sizes, turned = {"N": self.N, "O": self.C, "I": lora.rank}, {"N": self.N, "O": lora.rank, "I": self.C}
            self.call("linear_backward_input", dy=part, weight=B, dx=dlow, **sizes, scale=lora.scale)
            self.call("linear_backward_weight", dy=part, x=low, dweight=dB, **sizes, accumulate=0)
            self.call("linear_backward_input", dy=dlow, weight=A, dx=dx, **turned, accumulate=1)
            self.call("linear_backward_weight", dy=dlow, x=x, dweight=dA, **turned, accumulate=0)

    return AdaptedMemory, AdaptedProgram


def machine_of(engine):
    if engine == "spec":
        return SpecMachine(np.float64)
    if engine == "native":
        return WatchedMachine(threads=2)
    if gpu_here() is None:
        pytest.skip(MISSING)
    from tinygpt.engines.webgpu import WebGPUMachine

    return WebGPUMachine(gpu=gpu_here())


class Adapted:
    """A model with adapters, planned for a machine and opened there."""

    def __init__(self, machine, config, lora, monkeypatch):
        memory, program = adapting(lora)
        monkeypatch.setattr(planned, "Memory", memory)
        monkeypatch.setitem(programs.MODELS, "gpt", programs.MODELS["gpt"]._replace(whole=program))
        step = programs.forward_and_backward
        monkeypatch.setitem(programs.PROGRAMS, "adapted", lambda c, m: step(c, m, "adapted", accumulate=0, fed=True))
        self.lowered = machine.lower(config, ["adapted"], 0, 0)
        self.player = run_now(machine.open(self.lowered))

    def places(self, name):
        tensor = next(tensor for tensor in self.lowered.tensors if tensor.name == name)
        return self.lowered.places(tensor, 0, tensor.size)

    def write(self, name, values):
        run_now(self.player.write(self.places(name), values))

    def read(self, name):
        """In float64 from the specification."""
        if hasattr(self.player, "view"):
            return self.player.view(name)
        return np.frombuffer(run_now(self.player.read(self.places(name))), np.float32)


@pytest.mark.parametrize("engine", ["spec", "native", pytest.param("webgpu", marks=pytest.mark.xdist_group("wgpu"))])
@pytest.mark.parametrize("name", ADAPTERS)
def test_logits_and_every_gradient_are_pytorchs(name, engine, monkeypatch):
    changes, lora = ADAPTERS[name]
    config = preset("tiny").replace(**changes)
    random = np.random.default_rng(1)
    start, rows = initial_weights(config.model, 1), adapter_parameters(config.model, lora)
    w = (start + random.normal(0, 0.1, start.size)).astype(np.float32)
    adapter = random.normal(0, 0.3, rows[-1].offset + rows[-1].size).astype(np.float32)
    windows = random.integers(0, VOCAB, (config.train.batch, config.model.ctx + 1), dtype=np.int32)

    model = GPT(config.model, w).double()
    install(model, lora, adapter)
    model.requires_grad_(True)
    tokens, targets = (torch.from_numpy(part).long() for part in (windows[:, :-1], windows[:, 1:]))
    logits, loss = model(tokens, targets)
    loss.backward()

    adapted = Adapted(machine_of(engine), config, lora, monkeypatch)
    memory = adapted.lowered.memory
    run_now(adapted.player.write(adapted.lowered.file_places([memory.weights]), w))
    adapted.write("tokens", np.ascontiguousarray(windows[:, :-1]))
    adapted.write("targets", np.ascontiguousarray(windows[:, 1:]))
    for row in rows:
        adapted.write(row.name, adapter[row.offset : row.offset + row.size])
    assert run_now(adapted.player.run("adapted", 1)) == 1

    def check(what, got, expected):
        worst = np.abs(got - expected.reshape(-1)).max() / np.abs(expected).max()
        assert worst <= (RELATIVE if engine == "spec" else FLOAT32), what

    check("logits", adapted.read("logits"), logits.detach().numpy())
    for row, tensor in zip(rows, lora_parameters(model), strict=True):
        check(row.name, adapted.read("d" + row.name), tensor.grad.numpy())
    grads, moves = adapted.read("grads"), sorted(memory.layout.moves, key=lambda move: move.offset)
    of_base = np.concatenate([grads[move.start : move.start + move.size] for move in moves])
    check("the base's gradients", of_base, model.flat_grad())
    run_now(adapted.player.close())
