"""What Chromium's compiler guards: that we see it, and that a training step has none of it."""

import pytest

from lab.guards import DUMPING, Guards, compiled, guards_of, measure
from tinygpt.engines.runner import Runner, find_chromium

KERNEL = """
override ROUNDS: u32 = 4;
override NEVER: bool = false;
@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
var<workgroup> shared_memory: array<u32, 64>;

@compute @workgroup_size(64)
fn guarded(@builtin(local_invocation_index) me: u32) {
  var registers: array<u32, 4>;
  for (var i = 0u; i < 4 * ROUNDS; i += 4) { registers[i & 3] += i; }
  shared_memory[me ^ 1] = registers[0];
  output[me] = shared_memory[me];
}

@compute @workgroup_size(64)
fn free(@builtin(local_invocation_index) me: u32) {
  var registers: array<u32, 4>;
  for (var i = 0u; i < ROUNDS; i++) { registers[i % 4] += 4 * i; }
  shared_memory[(me ^ 1) % 64] = registers[0];
  if (NEVER) { shared_memory[input[0]] = 0; }
  output[me] = shared_memory[me];
}
"""


@pytest.fixture
def dumping(monkeypatch):
    if find_chromium() is None:
        pytest.skip("Chromium is not installed")
    monkeypatch.setenv("TINYGPT_WEBGPU_ADAPTER", "swiftshader")
    runner = Runner("chromium", kernels={"guards.wgsl": KERNEL.encode()}, arguments=DUMPING)
    yield runner
    runner.close()


def test_guards_are_seen_where_they_run(dumping):
    found = []
    for entry in ("guarded", "free"):
        pipeline = {"files": ["guards.wgsl"], "entry": entry, "constants": [], "bindings": "rw"}
        found.append(guards_of(compiled(dumping, pipeline)))
    assert found == [Guards(loops=1, registers=1, workgroup=1, storage=1), Guards(0, 0, 0, storage=1)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_training_step_has_nothing_to_guard(monkeypatch):
    if find_chromium() is None:
        pytest.skip("Chromium is not installed")
    monkeypatch.setenv("TINYGPT_WEBGPU_ADAPTER", "swiftshader")
    found = measure(["tiny", "small", "tiny:modern"])
    assert {"linear_backward 32×32, 2 teams", "normed_linear 64×64", "attention_backward", "layernorm_backward"} <= set(
        found
    )
    assert {kernel: guards for kernel, guards in found.items() if guards[:3] != (0, 0, 0)} == {}
