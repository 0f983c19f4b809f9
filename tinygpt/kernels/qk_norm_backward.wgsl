// dx = rstd (dy - y mean(dy y)) for q and k of every head, dv = dy; LANES invocations per head.
override N: u32;
override H: u32;
override D: u32;
override TURNS: u32 = (D / WIDTH + LANES - 1u) / LANES;  // words of a row that an invocation takes

@group(0) @binding(0) var<storage, read> dy: array<Floats>;
@group(0) @binding(1) var<storage, read> y: array<Floats>;
@group(0) @binding(2) var<storage, read> rstd: array<f32>;  // [N, 2H]
@group(0) @binding(3) var<storage, read_write> dqkv: array<Floats>;

@compute @workgroup_size(256)
fn qk_norm_backward(group: Group, @builtin(local_invocation_index) me: u32) {
  let head = row_number(me, group);
  let words = select(0u, D / WIDTH, head < N * 3u * H);  // a surplus head has none
  let first = head * words;

  var products = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    products += dy[first + i] * y[first + i];
  }
  let mean = row_sum(sum_of(products), me, group) / f32(D);
  let place = head % (3u * H);
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    var d = dy[first + i];
    if (place < 2u * H) {
      d = rstd[head / (3u * H) * 2u * H + place] * (d - y[first + i] * mean);
    }
    dqkv[first + i] = d;
  }
}
