// y = x * rstd for q and k of every head, v as it is; LANES invocations per head. rstd is kept for the backward pass.
override N: u32;
override H: u32;
override D: u32;
override EPS: f32;
override TURNS: u32 = (D / WIDTH + LANES - 1u) / LANES;  // words of a row that an invocation takes

@group(0) @binding(0) var<storage, read> qkv: array<Floats>;
@group(0) @binding(1) var<storage, read_write> y: array<Floats>;
@group(0) @binding(2) var<storage, read_write> rstd: array<f32>;  // [N, 2H]

@compute @workgroup_size(256)
fn qk_norm(group: Group, @builtin(local_invocation_index) me: u32) {
  let head = row_number(me, group);
  let words = select(0u, D / WIDTH, head < N * 3u * H);  // a surplus head has none
  let first = head * words;

  var squares = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    squares += qkv[first + i] * qkv[first + i];
  }
  var scale = inverseSqrt(row_sum(sum_of(squares), me, group) / f32(D) + EPS);
  let place = head % (3u * H);
  if (place >= 2u * H) {
    scale = 1.0;
  } else if (me % LANES == 0u && words > 0u) {
    rstd[head / (3u * H) * 2u * H + place] = scale;
  }
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    y[first + i] = qkv[first + i] * scale;
  }
}
