// A step of the rows that a batch picked: an invocation per entry and word of four floats, entries in the order of n.
//
// Whoever is the first to name a row sums up what all entries have for it, in their order, and steps it; the others have
// nothing to do. So no row has two writers, and sums are the same every time.
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

var<workgroup> others: array<i32, 256>;
var<workgroup> parts: array<f32, 256>;

@compute @workgroup_size(256)
fn adagrad_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let words = W / 4u;
  let n = group.x * (256u / words) + lane / words;
  let word = lane % words;
  let number = group.y;
  var row = -1;
  if (n < N) {
    row = rows[n * G + number];
  }
  var is_first = row >= 0;
  var sum = vec4f();
  for (var turn = 0u; turn < (N + 255u) / 256u; turn++) {
    let mine = turn * 256u + lane;
    others[lane] = -1;
    if (mine < N) {
      others[lane] = rows[mine * G + number];
    }
    workgroupBarrier();
    for (var j = 0u; j < 256u; j++) {
      if (others[j] == row && is_first) {
        let other = turn * 256u + j;
        if (other < n) {
          is_first = false;
        } else {
          sum += dy[(other * G + number) * words + word];
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
