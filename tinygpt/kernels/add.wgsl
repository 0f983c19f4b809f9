// y = x + residual; an invocation per word.
override N: u32;
override C: u32;

@group(0) @binding(0) var<storage, read> x: array<Floats>;
@group(0) @binding(1) var<storage, read> residual: array<Floats>;
@group(0) @binding(2) var<storage, read_write> y: array<Floats>;

@compute @workgroup_size(256)
fn add(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < N * C / WIDTH) {
    y[i] = x[i] + residual[i];
  }
}
