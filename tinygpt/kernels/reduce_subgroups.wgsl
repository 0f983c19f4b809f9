// The functions of reduce_plain.wgsl, for any size of subgroups: lanes within one shuffle, others use shared memory.
// Neighbours by local_invocation_index are neighbours in a subgroup, as on all devices where workgroups have one axis.
override LANES: u32 = 32;

struct Group {
  @builtin(workgroup_id) id: vec3u,
  @builtin(num_workgroups) count: vec3u,
  @builtin(subgroup_size) subgroup_size: u32,
}

var<workgroup> exchanged: array<f32, 256>;

fn group_number(group: Group) -> u32 {
  return group.id.x + group.id.y * group.count.x;
}

fn row_number(me: u32, group: Group) -> u32 {
  return group_number(group) * (256u / LANES) + me / LANES;
}

// The value of the lane whose number differs in the bit `apart`.
fn neighbour(value: f32, apart: u32, me: u32, group: Group) -> f32 {
  if (apart < group.subgroup_size) {
    return subgroupShuffleXor(value, apart);
  }
  workgroupBarrier();
  exchanged[me] = value;
  workgroupBarrier();
  return exchanged[me ^ apart];
}

fn row_sum(value: f32, me: u32, group: Group) -> f32 {
  var sum = value;
  for (var apart = 1u; apart < LANES; apart *= 2u) {
    sum += neighbour(sum, apart, me, group);
  }
  return sum;
}

fn row_max(value: f32, me: u32, group: Group) -> f32 {
  var top = value;
  for (var apart = 1u; apart < LANES; apart *= 2u) {
    top = max(top, neighbour(top, apart, me, group));
  }
  return top;
}
