// y = x[position[0]], an invocation per number.
override C: u32;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> position: array<i32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(256)
fn pick_row(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < C) {
    y[id.x] = x[u32(position[0]) * C + id.x];
  }
}
