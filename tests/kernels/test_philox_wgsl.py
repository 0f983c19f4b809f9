"""The WGSL generator gives the words of core/rng.py."""

import numpy as np
from harness_wgsl import buffer_with, gpu, play

from tinygpt.core.ops.gpu import Dispatch
from tinygpt.core.ops.op import Tensor
from tinygpt.core.rng import philox

DRAWS = """
@group(0) @binding(0) var<storage, read> counters: array<vec4u>;
@group(0) @binding(1) var<storage, read> keys: array<vec2u>;
@group(0) @binding(2) var<storage, read_write> words: array<vec4u>;

@compute @workgroup_size(1)
fn draw(@builtin(global_invocation_id) id: vec3u) {
  words[id.x] = philox(keys[id.x], counters[id.x]);
}
"""


def test_words_are_those_of_the_core(tmp_path):
    (tmp_path / "draws.wgsl").write_text(DRAWS)
    random = np.random.default_rng(3)
    ends = np.array([[0] * 6, [2**32 - 1] * 6, [0, 2**32 - 1] * 3, [2**16 - 1, 2**16] * 3, [2**31, 1] * 3], np.uint32)
    drawn = np.concatenate([ends, random.integers(0, 2**32, (200, 6), dtype=np.uint32)])
    counters, keys = np.ascontiguousarray(drawn[:, :4]), np.ascontiguousarray(drawn[:, 4:])
    stored = {"counters": counters.view(np.int32), "keys": keys.view(np.int32)}
    stored["words"] = np.zeros_like(stored["counters"])
    buffers = {name: buffer_with(array) for name, array in stored.items()}
    bindings = [(name, Tensor(name, array.shape)) for name, array in stored.items()]
    files = ["philox.wgsl", str(tmp_path / "draws.wgsl")]
    play([Dispatch(files, "draw", bindings[:2], bindings[2:], {}, (len(drawn), 1, 1))], buffers, stored)

    raw = np.frombuffer(gpu().queue.read_buffer(buffers["words"]), np.uint32)[: counters.size]
    wanted = [philox(tuple(map(int, k)), tuple(map(int, c))) for k, c in zip(keys, counters, strict=True)]
    assert raw.reshape(-1, 4).tolist() == [list(words) for words in wanted]
