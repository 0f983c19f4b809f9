// Linear maps of a few rows, as generation needs them: LANES neighbouring invocations share an output, whose sum has
// the same order however many rows there are. Workgroups of the same outputs are neighbours, so that weights are read
// once. Needs activation.wgsl and reduce.wgsl.

override N: u32;
override O: u32;
override I: u32;
override HAS_BIAS: bool = false;
override HAS_RESIDUAL: bool = false;
override HAS_SLOPE: bool = false;
override ACCUMULATE: bool = false;
override SCALE: f32 = 1.0;
override Y_PITCH: u32 = O;
override Y_OFFSET: u32 = 0;  // of y in its binding

@group(0) @binding(0) var<storage, read> x: array<f32>;  // [N, I]
@group(0) @binding(1) var<storage, read> weight: array<f32>;  // [O, I]
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read_write> activation: array<f32>;
@group(0) @binding(5) var<storage, read_write> slope: array<f32>;

fn row_of(group: Group) -> u32 {
  return group_number(group) % N;
}

fn column_of(me: u32, group: Group) -> u32 {
  return group_number(group) / N * (256u / LANES) + me / LANES;
}

fn x_times_weight(row: u32, column: u32, me: u32, group: Group) -> f32 {
  var sum = 0.0;
  if (column < O) {
    for (var turn = 0u; turn < (I + LANES - 1u) / LANES; turn++) {
      let i = me % LANES + turn * LANES;
      if (i < I) { sum += x[row * I + i] * weight[column * I + i]; }
    }
  }
  return row_sum(sum, me, group);
}

@compute @workgroup_size(256)
fn linear(group: Group, @builtin(local_invocation_index) me: u32) {
  let row = row_of(group);
  let column = column_of(me, group);
  var result = SCALE * x_times_weight(row, column, me, group);
  if (column < O && me % LANES == 0) {
    if (HAS_BIAS) { result += bias[column]; }
    if (HAS_RESIDUAL) { result += residual[row * O + column]; }
    let at = Y_OFFSET + row * Y_PITCH + column;
    if (ACCUMULATE) { y[at] += result; } else { y[at] = result; }
  }
}

@compute @workgroup_size(256)
fn linear_activation(group: Group, @builtin(local_invocation_index) me: u32) {
  let row = row_of(group);
  let column = column_of(me, group);
  var product = x_times_weight(row, column, me, group);
  if (column < O && me % LANES == 0) {
    let at = row * O + column;
    if (HAS_BIAS) { product += bias[column]; }
    if (HAS_RESIDUAL) { product += residual[at]; }
    let h = activate(vec4f(product));
    activation[at] = h.value.x;
    if (HAS_SLOPE) { slope[at] = h.slope.x; }
  }
}
