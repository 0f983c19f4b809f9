"""A playbook small enough to write by hand: it proves the player without the kernels."""

from typing import Any

from tinygpt.core.ops.op import float_bits

MINI = """
override first: i32;
override scale: f32;
@group(0) @binding(0) var<storage, read> input: array<i32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<storage, read_write> runs: array<i32>;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) at: vec3u) {
  if (at.x < arrayLength(&sums)) {
    sums[at.x] += scale * f32(input[at.x % 8u]);
  }
  if (at.x == 0) {
    runs[0] = runs[0] + first;
  }
}

@compute @workgroup_size(64)
fn look(@builtin(global_invocation_id) at: vec3u) {
  if (at.x < arrayLength(&sums)) {
    sums[at.x] = f32(input[at.x] + first);
  }
}
"""
FILES = {"mini.wgsl": MINI.encode()}
INPUT = [0, 256, 32]  # buffer, place and size in bytes
SUMS = [[1, 0, 400], [2, 0, 240]]  # 160 floats in two buffers
RUNS = [3, 256, 4]
LOOK = [3, 512, 32]


def mini_playbook(**changes: Any) -> dict[str, Any]:
    """ "add" adds half of the input's numbers, one after the other, to the sums, and 7 to `runs`; "look" copies."""
    constants = [["first", 0, 7], ["scale", 1, float_bits(0.5)]]
    playbook: dict[str, Any] = {
        "buffers": [1024, 400, 240, 1024],
        "pipelines": [
            {"files": ["mini.wgsl"], "entry": "add", "constants": constants, "bindings": "rww"},
            {"files": ["mini.wgsl"], "entry": "look", "constants": [["first", 0, 100]], "bindings": "rw"},
        ],
        "programs": {
            "add": [[0, 2, 1, 1, *INPUT, *SUMS[0], *RUNS], [0, 1, 1, 1, *INPUT, *SUMS[1], *RUNS]],
            "look": [[1, 1, 1, 1, *INPUT, *LOOK]],
        },
    }
    return playbook | changes
