// average: weights += rate (live - weights), with the rate of the step from a table.  copy: y = x.
override P: u32;
override ROWS: u32;

@group(0) @binding(0) var<storage, read> live: array<Floats>;
@group(0) @binding(1) var<storage, read> rates: array<f32>;
@group(0) @binding(2) var<storage, read> counters: array<i32>;
@group(0) @binding(3) var<storage, read_write> weights: array<Floats>;

@group(0) @binding(0) var<storage, read> x: array<Floats>;
@group(0) @binding(1) var<storage, read_write> y: array<Floats>;

@compute @workgroup_size(256)
fn average(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < P / WIDTH) {
    weights[i] += rates[u32(counters[0]) % ROWS] * (live[i] - weights[i]);
  }
}

@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < P / WIDTH) {
    y[i] = x[i];
  }
}
