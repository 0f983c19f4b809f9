"""A recipe small enough to write by hand: it proves the player without the kernels."""

import numpy as np

from tinygpt.core.ops.op import float_bits
from tinygpt.core.plan.cpu.recipe import double_words

MINI = """
override first: i32;
override scale: f32;
@group(0) @binding(0) var<storage, read> tokens: array<i32>;
@group(0) @binding(1) var<storage, read> rates: array<f32>;
@group(0) @binding(2) var<storage, read_write> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> loss: array<f32>;
@group(0) @binding(4) var<storage, read_write> norm: array<f32>;

@compute @workgroup_size(64)
fn step(@builtin(global_invocation_id) at: vec3u) {
  if (at.x < arrayLength(&weights)) {
    weights[at.x] += scale * rates[0];
  }
  if (at.x == 0) {
    loss[0] = f32(tokens[first]);
    norm[0] = rates[1];
  }
}

@compute @workgroup_size(64)
fn look(@builtin(global_invocation_id) at: vec3u) {
  if (at.x < arrayLength(&weights)) {
    weights[at.x] = f32(tokens[at.x]) + f32(first);
  }
}
"""
FILES = {"mini.wgsl": MINI.encode()}
CTX = 8
SEGMENTS = ([0, 100], [100, 60])  # flat vectors of 160 floats in two buffers
LOSSES = 3  # the buffer of the outputs


def mini_recipe(batch=2):
    """Two tensors, in another order in the file than in the flat vectors; a step adds 0.5 * rates[0] to the weights."""
    tokens = 4 * batch * CTX
    assert tokens <= 256
    binding = [0, 0, tokens, 0, 512, 12]
    outputs = [LOSSES, 0, 4, LOSSES, 256, 4]
    constants = [["first", 0, 1], ["scale", 1, float_bits(0.5)]]
    return {
        "batch": batch,
        "ctx": CTX,
        "grad_accum": 1,
        "seed": 7,
        "parameters": 160,
        "buffers": [2048, 400, 240, 2048, 400, 240, 400, 240],
        "inputs": 0,
        "places": {
            "tokens": [0, 0, batch * CTX],
            "targets": [0, 256, batch * CTX],
            "rates": [0, 512, 3],
            "prompt": [0, 768, CTX],
            "position": [0, 1024, 1],
            "loss": [LOSSES, 0, 1],
            "norm": [LOSSES, 256, 2],
            "losses": [LOSSES, 512, batch * CTX],
            "next_logits": [LOSSES, 768, 256],
        },
        "segments": [[0, 100, 1, 4, 6], [100, 60, 2, 5, 7]],
        "moves": [[0, 40, 120], [120, 0, 40]],
        "draws": [[40, 120, 3, *double_words(0.02)]],
        "fills": [[0, 40, *double_words(1.0)]],
        "pipelines": [
            {"files": ["mini.wgsl"], "entry": "step", "constants": constants, "bindings": "rrwww"},
            {"files": ["mini.wgsl"], "entry": "look", "constants": [["first", 0, 100]], "bindings": "rrw"},
        ],
        "programs": {
            "train": [[0, 2, 1, 1, *binding, 1, 0, 400, *outputs], [0, 1, 1, 1, *binding, 2, 0, 240, *outputs]],
            "eval": [[1, 1, 1, 1, *binding, LOSSES, 512, tokens]],
            "prefill": [[1, 1, 1, 1, 0, 768, 4 * CTX, 0, 512, 12, LOSSES, 768, 4 * CTX]],
        },
    }


def vectors(raw):
    return np.frombuffer(raw, "<f4")
