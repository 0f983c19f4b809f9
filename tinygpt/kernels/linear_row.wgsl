// Linear maps of a single row, as generation needs them: LANES neighbouring invocations share an output.
// Needs activation.wgsl and reduce.wgsl.

override O: u32;
override I: u32;
override HAS_BIAS: bool = false;
override HAS_RESIDUAL: bool = false;
override HAS_SLOPE: bool = false;
override ACCUMULATE: bool = false;
override SCALE: f32 = 1.0;
override Y_OFFSET: u32 = 0;  // of y in its binding

@group(0) @binding(0) var<storage, read> x: array<f32>;  // [I]
@group(0) @binding(1) var<storage, read> weight: array<f32>;  // [O, I]
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read_write> activation: array<f32>;
@group(0) @binding(5) var<storage, read_write> slope: array<f32>;

fn x_times_weight(column: u32, me: u32, group: Group) -> f32 {
  var sum = 0.0;
  if (column < O) {
    for (var turn = 0u; turn < (I + LANES - 1u) / LANES; turn++) {
      let i = me % LANES + turn * LANES;
      if (i < I) { sum += x[i] * weight[column * I + i]; }
    }
  }
  return row_sum(sum, me, group);
}

@compute @workgroup_size(256)
fn linear(group: Group, @builtin(local_invocation_index) me: u32) {
  let column = row_number(me, group);
  var result = SCALE * x_times_weight(column, me, group);
  if (column < O && me % LANES == 0) {
    if (HAS_BIAS) { result += bias[column]; }
    if (HAS_RESIDUAL) { result += residual[column]; }
    if (ACCUMULATE) { y[Y_OFFSET + column] += result; } else { y[Y_OFFSET + column] = result; }
  }
}

@compute @workgroup_size(256)
fn linear_activation(group: Group, @builtin(local_invocation_index) me: u32) {
  let column = row_number(me, group);
  var product = x_times_weight(column, me, group);
  if (column < O && me % LANES == 0) {
    if (HAS_BIAS) { product += bias[column]; }
    if (HAS_RESIDUAL) { product += residual[column]; }
    let h = activate(vec4f(product));
    activation[column] = h.value.x;
    if (HAS_SLOPE) { slope[column] = h.slope.x; }
  }
}
