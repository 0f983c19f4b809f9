// m = momentum m + clipped gradient;  weights = weights (1 - decay) - lr m, with decay for the first DECAYED alone.
override P: u32;
override DECAYED: u32;
override ROWS: u32;
override MOMENTUM: f32;

@group(0) @binding(0) var<storage, read> grads: array<Floats>;
@group(0) @binding(1) var<storage, read> norm: array<f32>;
@group(0) @binding(2) var<storage, read> rates: array<f32>;
@group(0) @binding(3) var<storage, read> counters: array<i32>;
@group(0) @binding(4) var<storage, read_write> weights: array<Floats>;
@group(0) @binding(5) var<storage, read_write> m: array<Floats>;

@compute @workgroup_size(256)
fn sgd(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= P / WIDTH) {
    return;
  }
  let row = 2u * (u32(counters[0]) % ROWS);
  let lr = rates[row];
  let keep = select(1.0, 1.0 - rates[row + 1u], i < DECAYED / WIDTH);

  var g = grads[in_slice(i, 0u)];
  for (var slice = 1u; slice < SLICES; slice++) {
    g += grads[in_slice(i, slice)];
  }
  let new_m = MOMENTUM * m[i] + norm[1] * g;
  m[i] = new_m;
  weights[i] = weights[i] * keep - lr * new_m;
}
