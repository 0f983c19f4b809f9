// A step of the rows that a batch picked: an invocation per entry and word of four floats, entries in the order of n.
//
// The first entry that names a row sums up what all entries have for it, in their order, and steps it; the others have
// nothing to do. So no row has two writers, and sums are the same every time. The search takes the time: it goes by four.
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

const QUADS = 64u;
var<workgroup> others: array<vec4i, QUADS>;  // the rows of 256 entries
var<workgroup> parts: array<f32, 256>;

fn row_at(n: u32, number: u32) -> i32 {
  if (n < N) {
    return rows[n * G + number];
  }
  return -1;
}

@compute @workgroup_size(256)
fn adagrad_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let words = W / 4u;
  let n = group.x * (256u / words) + lane / words;
  let word = lane % words;
  let number = group.y;
  let row = row_at(n, number);
  var is_first = row >= 0;
  var sum = vec4f();
  for (var turn = 0u; turn < (N + 255u) / 256u; turn++) {
    if (lane < QUADS) {
      let first = turn * 256u + 4u * lane;
      others[lane % QUADS] = vec4i(
        row_at(first, number), row_at(first + 1u, number), row_at(first + 2u, number), row_at(first + 3u, number));
    }
    workgroupBarrier();
    for (var quad = 0u; quad < QUADS; quad++) {
      let same = others[quad] == vec4i(row);
      if (any(same) && is_first) {
        for (var j = 0u; j < 4u; j++) {
          let other = turn * 256u + 4u * quad + j;
          if (same[j] && other < n) {
            is_first = false;
          } else if (same[j]) {
            sum += dy[(other * G + number) * words + word];
          }
        }
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
