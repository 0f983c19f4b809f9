// y = x[position[row[0]]], an invocation per number.
override C: u32;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> position: array<i32>;
@group(0) @binding(2) var<storage, read> row: array<i32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(256)
fn pick_row(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < C) {
    y[id.x] = x[u32(position[u32(row[0])]) * C + id.x];
  }
}
