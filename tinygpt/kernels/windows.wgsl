// Windows of the corpus, at places that seed and step decide; an invocation per byte. Needs philox.wgsl and hash.wgsl.
override B: u32;
override T: u32;
override BYTES: u32;
override SEED: u32;
override PURPOSE: u32;
override PARTS: u32;  // batches of a step, where windows are shuffled; else 0

const BATCH = 2u;  // core/rng.py
const SHUFFLE = 9u;
const MOST_WALKS = 64u;

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

// A permutation of [0, count): a Feistel network over the next power of two, walked until it is inside.
fn permuted(start: u32, count: u32, keys: vec4u, more: vec2u) -> u32 {
  let bits = select(32u - countLeadingZeros(count - 1u), 0u, count == 1u);
  let low = bits / 2u;
  let left_mask = (1u << (bits - low)) - 1u;
  let right_mask = (1u << low) - 1u;
  var place = start;
  for (var walk = 0u; walk < MOST_WALKS; walk++) {
    var left = place >> low;
    var right = place & right_mask;
    left ^= mixed(right ^ keys.x) & left_mask;
    right ^= mixed(left ^ keys.y) & right_mask;
    left ^= mixed(right ^ keys.z) & left_mask;
    right ^= mixed(left ^ keys.w) & right_mask;
    left ^= mixed(right ^ more.x) & left_mask;
    right ^= mixed(left ^ more.y) & right_mask;
    place = (left << low) | right;
    if (place < count) {
      break;
    }
  }
  return place % count;
}

// Where window `number` of a run starts, if an epoch has all windows of the text in a random order.
fn shuffled_offset(number: u32) -> u32 {
  let count = max(BYTES / T, 2u) - 1u;
  let epoch = number / count;
  let words = philox(vec2u(SEED, SHUFFLE), vec4u(epoch, 0u, 0u, 0u));
  let more = philox(vec2u(SEED, SHUFFLE), vec4u(epoch, 1u, 0u, 0u));
  return below(more.zw, min(T, BYTES - count * T)) + T * permuted(number % count, count, words, more.xy);
}

fn random_offset(step: u32, row: u32) -> u32 {
  let words = philox(vec2u(SEED, PURPOSE), vec4u(row / 2u, step, 0u, 0u));
  return below(select(words.xy, words.zw, row % 2u == 1u), BYTES - T);
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
  var place = i % T;
  if (PARTS > 0u) {
    place += shuffled_offset((step - 1u) * PARTS * B + row);
  } else {
    place += random_offset(step, row);
  }
  tokens[i] = byte_at(place);
  targets[i] = byte_at(place + 1u);
}
