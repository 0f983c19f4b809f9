// Windows of the corpus, at places that seed and step decide; an invocation per byte. Needs philox.wgsl.
override B: u32;
override T: u32;
override BYTES: u32;
override SEED: u32;
override PURPOSE: u32;

const BATCH = 2u;  // core/rng.py

@group(0) @binding(0) var<storage, read> corpus: array<u32>;
@group(0) @binding(1) var<storage, read> counters: array<i32>;
@group(0) @binding(2) var<storage, read_write> tokens: array<i32>;
@group(0) @binding(3) var<storage, read_write> targets: array<i32>;

fn byte_at(place: u32) -> i32 {
  return i32((corpus[place / 4u] >> (8u * (place % 4u))) & 0xffu);
}

// A number below `limit` from 64 random bits, the upper ones first: the upper 32 bits of their product, shifted by 32.
fn below(bits: vec2u, limit: u32) -> u32 {
  let high = bits.x * limit;
  let sum = high + high_product(bits.y, limit);
  return high_product(bits.x, limit) + select(0u, 1u, sum < high);
}

@compute @workgroup_size(256)
fn draw_windows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= B * T) {
    return;
  }
  let of_step = PURPOSE == BATCH;
  let step = select(0u, u32(counters[0]) + 1u, of_step);
  let part = u32(select(counters[2], counters[1], of_step));
  let row = part * B + i / T;
  let words = philox(vec2u(SEED, PURPOSE), vec4u(row / 2u, step, 0u, 0u));
  let place = below(select(words.xy, words.zw, row % 2u == 1u), BYTES - T) + i % T;
  tokens[i] = byte_at(place);
  targets[i] = byte_at(place + 1u);
}
