// g = clipped gradient;  m, v = running means of g and g^2;
// weights = weights (1 - decay) - step_size m / (sqrt(v) root_correction + eps), with decay for the first DECAYED alone.
override P: u32;
override DECAYED: u32;
override ROWS: u32;
override BETA1: f32;
override BETA2: f32;
override EPS: f32;

@group(0) @binding(0) var<storage, read> grads: array<Floats>;
@group(0) @binding(1) var<storage, read> norm: array<f32>;
@group(0) @binding(2) var<storage, read> rates: array<f32>;
@group(0) @binding(3) var<storage, read> counters: array<i32>;
@group(0) @binding(4) var<storage, read_write> weights: array<Floats>;
@group(0) @binding(5) var<storage, read_write> m: array<Floats>;
@group(0) @binding(6) var<storage, read_write> v: array<Floats>;

@compute @workgroup_size(256)
fn adamw(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= P / WIDTH) {
    return;
  }
  let row = 3u * (u32(counters[0]) % ROWS);
  let step_size = rates[row];
  let root_correction = rates[row + 1u];
  let keep = select(1.0, 1.0 - rates[row + 2u], i < DECAYED / WIDTH);

  var g = grads[in_slice(i, 0u)];
  for (var slice = 1u; slice < SLICES; slice++) {
    g += grads[in_slice(i, slice)];
  }
  g *= norm[1];
  let new_m = BETA1 * m[i] + (1.0 - BETA1) * g;
  let new_v = BETA2 * v[i] + (1.0 - BETA2) * g * g;
  m[i] = new_m;
  v[i] = new_v;
  weights[i] = weights[i] * keep - step_size * new_m / (sqrt(new_v) * root_correction + EPS);
}
