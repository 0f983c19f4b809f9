// y = (x - mean) * rstd * gain (+ bias), LANES invocations per row; mean and rstd are kept for the backward pass.
override N: u32;
override C: u32;
override HAS_BIAS: bool;
override EPS: f32;
override TURNS: u32 = (C / WIDTH + LANES - 1u) / LANES;  // words of a row that an invocation takes

@group(0) @binding(0) var<storage, read> x: array<Floats>;
@group(0) @binding(1) var<storage, read> gain: array<Floats>;
@group(0) @binding(2) var<storage, read> bias: array<Floats>;
@group(0) @binding(3) var<storage, read_write> y: array<Floats>;
@group(0) @binding(4) var<storage, read_write> stats: array<vec2f>;  // mean and rstd

@compute @workgroup_size(256)
fn layernorm(group: Group, @builtin(local_invocation_index) me: u32) {
  let n = row_number(me, group);
  let words = select(0u, C / WIDTH, n < N);  // a surplus row has none
  let first = n * words;

  var sum = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    sum += x[first + i];
  }
  let center = row_sum(sum_of(sum), me, group) / f32(C);

  var squares = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    let off = x[first + i] - center;
    squares += off * off;
  }
  let scale = inverseSqrt(row_sum(sum_of(squares), me, group) / f32(C) + EPS);

  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    var result = (x[first + i] - center) * scale * gain[i];
    if (HAS_BIAS) {
      result += bias[i];
    }
    y[first + i] = result;
  }
  if (me % LANES == 0u && n < N) {
    stats[n] = vec2f(center, scale);
  }
}
