// How lanes of a row exchange values: through workgroup memory. A whole workgroup must call `neighbour` together.
struct Group {
  @builtin(workgroup_id) id: vec3u,
  @builtin(num_workgroups) count: vec3u,
}

var<workgroup> exchanged: array<f32, 256>;

// The value of the lane whose number differs in the bit `apart`.
fn neighbour(value: f32, apart: u32, me: u32, group: Group) -> f32 {
  workgroupBarrier();
  exchanged[me % 256u] = value;
  workgroupBarrier();
  return exchanged[(me ^ apart) % 256u];
}
