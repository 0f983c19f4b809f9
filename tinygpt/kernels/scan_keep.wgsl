// state = x; or of the text row[0] alone: state[row[0]] = x[position[row[0]]]. An invocation per number of x.
override N: u32;
override C: u32;
override HAS_ROW: bool;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> position: array<i32>;
@group(0) @binding(2) var<storage, read> row: array<i32>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>;

@compute @workgroup_size(256)
fn scan_keep(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (!HAS_ROW) {
    if (i < N * C) {
      state[i] = x[i];
    }
  } else if (i < C) {
    let text = u32(row[0]);
    state[text * C + i] = x[u32(position[text]) * C + i];
  }
}
