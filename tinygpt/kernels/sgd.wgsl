// m = momentum m + clipped gradient;  weights = weights (1 - decay) - lr m, with decay for the first DECAYED alone.
override MOMENTUM: f32;

@compute @workgroup_size(256)
fn sgd(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= P / WIDTH) {
    return;
  }
  let rate = first_rate(2u);
  let new_m = MOMENTUM * m[i] + clipped_gradient(i);
  m[i] = new_m;
  weights[i] = weights[i] * kept(i, rates[rate + 1u]) - rates[rate] * new_m;
}
