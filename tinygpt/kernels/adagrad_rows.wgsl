// A step of the rows that a batch picked: an invocation per entry and word of four floats, entries in the order of n.
//
// The first entry that names a row sums up what all entries have for it, in their order, and steps it; the others have
// nothing to do. So no row has two writers, and sums are the same every time. Both halves of the search would take long:
// an entry's invocations share the comparisons, and what they found is fetched four at a time, since a common row has
// hundreds of entries that would each wait for memory.
override N: u32;
override G: u32;
override W: u32;
override RING: u32;
override EPS: f32;

@group(0) @binding(0) var<storage, read> rows: array<i32>;
@group(0) @binding(1) var<storage, read> dy: array<vec4f>;
@group(0) @binding(2) var<storage, read> rates: array<f32>;
@group(0) @binding(3) var<storage, read> counters: array<i32>;
@group(0) @binding(4) var<storage, read_write> table: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> squares: array<f32>;

// 256 entries at a time, in chunks of 32. A chunk is 8 quads, and a ninth keeps chunks in banks of their own.
const CHUNKS = 8u;
const QUADS = 8u;
var<workgroup> others: array<array<vec4i, QUADS + 1u>, CHUNKS>;
var<workgroup> equal: array<array<u32, 256>, CHUNKS>;  // of each entry of this workgroup: which of the others, a bit each
var<workgroup> parts: array<f32, 256>;

fn row_at(n: u32, number: u32) -> i32 {
  if (n < N) {
    return rows[n * G + number];
  }
  return -1;
}

fn equal_in_chunk(chunk: u32, row: i32) -> u32 {
  var bits = 0u;
  for (var quad = 0u; quad < QUADS; quad++) {
    let same = select(vec4u(), vec4u(1u, 2u, 4u, 8u), others[chunk % CHUNKS][quad] == vec4i(row));
    bits |= (same.x | same.y | same.z | same.w) << (4u * quad);
  }
  return bits;
}

// The lowest bit that is set, taken away; or 32.
fn next(bits: ptr<function, u32>) -> u32 {
  let found = min(firstTrailingBit(*bits), 32u);
  *bits &= *bits - 1u;
  return found;
}

@compute @workgroup_size(256)
fn adagrad_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let words = W / 4u;
  let entry = lane / words;
  let n = group.x * (256u / words) + entry;
  let word = lane % words;
  let number = group.y;
  let row = row_at(n, number);
  var is_first = row >= 0;
  var sum = vec4f();
  for (var turn = 0u; turn < (N + 255u) / 256u; turn++) {
    if (lane < CHUNKS * QUADS) {
      let first = turn * 256u + 4u * lane;
      others[lane / QUADS % CHUNKS][lane % QUADS] = vec4i(
        row_at(first, number), row_at(first + 1u, number), row_at(first + 2u, number), row_at(first + 3u, number));
    }
    workgroupBarrier();
    for (var round = 0u; round < (CHUNKS + W / 4u - 1u) / (W / 4u); round++) {
      let chunk = round * words + word;
      if (chunk < CHUNKS && is_first) {
        equal[chunk % CHUNKS][entry % 256u] = equal_in_chunk(chunk, row);
      }
    }
    workgroupBarrier();
    for (var chunk = 0u; chunk < CHUNKS; chunk++) {
      let start = turn * 256u + 32u * chunk;
      var bits = 0u;
      if (is_first) {
        bits = equal[chunk][entry % 256u];
      }
      if (start + firstTrailingBit(bits) < n && bits != 0u) {
        is_first = false;
        bits = 0u;
      }
      for (var four = 0u; four < 8u; four++) {
        if (bits == 0u) {
          break;
        }
        var found = array<vec4f, 4>();
        for (var j = 0u; j < 4u; j++) {
          let bit = next(&bits);
          if (bit < 32u) {
            found[j] = dy[((start + bit) * G + number) * words + word];
          }
        }
        sum += found[0];
        sum += found[1];
        sum += found[2];
        sum += found[3];
      }
    }
    workgroupBarrier();
  }
  parts[lane] = dot(sum, sum);
  var before = 0.0;
  if (is_first) {
    before = squares[u32(row)];
  }
  workgroupBarrier();
  var total = 0.0;
  for (var j = 0u; j < W / 4u; j++) {
    total += parts[(lane - word + j) % 256u];
  }
  if (is_first) {
    let now = before + total / f32(W);
    if (word == 0u) {
      squares[u32(row)] = now;
    }
    let at = u32(row) * words + word;
    table[at] -= rates[u32(counters[0]) % RING] / (sqrt(now) + EPS) * sum;
  }
}
