// How lanes of a row exchange values: by a shuffle within a subgroup, whatever its size; others use workgroup memory.
// Neighbours by local_invocation_index are neighbours in a subgroup, as on all devices where workgroups have one axis.
struct Group {
  @builtin(workgroup_id) id: vec3u,
  @builtin(num_workgroups) count: vec3u,
  @builtin(subgroup_size) subgroup_size: u32,
}

var<workgroup> exchanged: array<f32, 256>;

// The value of the lane whose number differs in the bit `apart`.
fn neighbour(value: f32, apart: u32, me: u32, group: Group) -> f32 {
  if (apart < group.subgroup_size) {
    return subgroupShuffleXor(value, apart);
  }
  workgroupBarrier();
  exchanged[me % 256u] = value;
  workgroupBarrier();
  return exchanged[(me ^ apart) % 256u];
}
