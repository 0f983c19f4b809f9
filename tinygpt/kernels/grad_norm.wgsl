// norm[0] = |grads|, norm[1] = the factor that clips it to LIMIT. In both stages a workgroup is a row (LANES = 256).
override P: u32;
override FIRST: u32;
override COUNT: u32;
override LIMIT: f32;

@group(0) @binding(0) var<storage, read> grads: array<Floats>;
@group(0) @binding(1) var<storage, read_write> partials: array<f32>;

// partials[FIRST + group]: the squares of a share of P numbers, each the sum of its slices. Padding is 0.
@compute @workgroup_size(256)
fn square_sums(group: Group, @builtin(local_invocation_index) me: u32) {
  var squares = Floats();
  for (var turn = 0u; turn < (P + 256u * WIDTH - 1u) / (256u * WIDTH); turn++) {
    let i = (group.id.x + turn * group.count.x) * 256u + me;
    if (i * WIDTH >= P) {
      break;
    }
    var g = grads[in_slice(i, 0u)];
    for (var slice = 1u; slice < SLICES; slice++) {
      g += grads[in_slice(i, slice)];
    }
    squares += g * g;
  }
  let sum = row_sum(sum_of(squares), me, group);
  if (me == 0u) {
    partials[FIRST + group.id.x] = sum;
  }
}

@group(0) @binding(0) var<storage, read> all_partials: array<f32>;
@group(0) @binding(1) var<storage, read_write> norm: array<f32>;

const CLIP_EPS = 1e-6;  // as in torch.nn.utils.clip_grad_norm_

// Compilers may take it that there are no NaN; bits they leave alone.
fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

@compute @workgroup_size(256)
fn clip(group: Group, @builtin(local_invocation_index) me: u32) {
  var part = 0.0;
  for (var turn = 0u; turn < (COUNT + 255u) / 256u; turn++) {
    let i = me + turn * 256u;
    if (i < COUNT) {
      part += all_partials[i];
    }
  }
  let length = sqrt(row_sum(part, me, group));
  if (me == 0u) {
    var factor = 1.0;
    if (LIMIT > 0.0 && LIMIT < length + CLIP_EPS) {
      factor = LIMIT / (length + CLIP_EPS);
    }
    if (LIMIT > 0.0 && is_nan(length)) {
      factor = length;
    }
    norm[0] = length;
    norm[1] = factor;
  }
}
