// y = x * rstd * gain, LANES invocations per row; rstd is kept for the backward pass.
override N: u32;
override C: u32;
override EPS: f32;
override TURNS: u32 = (C / WIDTH + LANES - 1u) / LANES;  // words of a row that an invocation takes

@group(0) @binding(0) var<storage, read> x: array<Floats>;
@group(0) @binding(1) var<storage, read> gain: array<Floats>;
@group(0) @binding(2) var<storage, read_write> y: array<Floats>;
@group(0) @binding(3) var<storage, read_write> rstd: array<f32>;

@compute @workgroup_size(256)
fn rmsnorm(group: Group, @builtin(local_invocation_index) me: u32) {
  let n = row_number(me, group);
  let words = select(0u, C / WIDTH, n < N);  // a surplus row has none
  let first = n * words;

  var squares = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    squares += x[first + i] * x[first + i];
  }
  let scale = inverseSqrt(row_sum(sum_of(squares), me, group) / f32(C) + EPS);

  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    y[first + i] = x[first + i] * scale * gain[i];
  }
  if (me % LANES == 0u && n < N) {
    rstd[n] = scale;
  }
}
