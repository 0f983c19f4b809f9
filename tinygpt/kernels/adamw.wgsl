// g = clipped gradient;  m, v = running means of g and g^2;
// weights = weights (1 - decay) - step_size m / (sqrt(v) root_correction + eps), with decay for the first DECAYED alone.
override COLUMNS: u32;
override BETA1: f32;
override BETA2: f32;
override EPS: f32;

@group(0) @binding(6) var<storage, read_write> v: array<Floats>;

@compute @workgroup_size(256)
fn adamw(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= P / WIDTH) {
    return;
  }
  let rate = first_rate(COLUMNS);
  let step_size = rates[rate];
  let root_correction = rates[rate + 1u];
  let g = clipped_gradient(i);
  let new_m = BETA1 * m[i] + (1.0 - BETA1) * g;
  let new_v = BETA2 * v[i] + (1.0 - BETA2) * g * g;
  m[i] = new_m;
  v[i] = new_v;
  weights[i] = weights[i] * kept(i, rates[rate + 2u]) - step_size * new_m / (sqrt(new_v) * root_correction + EPS);
}
