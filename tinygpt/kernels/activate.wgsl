// y = f(x), and dx = dy f'(x), with f of activation.wgsl; an invocation for four numbers.
override N: u32;
override F: u32;

@group(0) @binding(0) var<storage, read> x: array<vec4f>;
// activation
@group(0) @binding(1) var<storage, read_write> y: array<vec4f>;
// activation_backward
@group(0) @binding(1) var<storage, read> dy: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> dx: array<vec4f>;

@compute @workgroup_size(256)
fn activation(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < N * F / 4) {
    y[i] = activate(x[i]).value;
  }
}

@compute @workgroup_size(256)
fn activation_backward(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < N * F / 4) {
    dx[i] = dy[i] * activate(x[i]).slope;
  }
}
