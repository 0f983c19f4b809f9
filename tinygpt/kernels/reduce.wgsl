// Reductions over the LANES neighbouring invocations that share a row; workgroups have 256, so 256 / LANES rows.
// A whole workgroup must call them together. Every lane gets the result, of a sum in the same fixed order.
// Needs lanes_plain.wgsl or lanes_subgroups.wgsl.
override LANES: u32 = 32;

fn group_number(group: Group) -> u32 {
  return group.id.x + group.id.y * group.count.x;
}

fn row_number(me: u32, group: Group) -> u32 {
  return group_number(group) * (256u / LANES) + me / LANES;
}

fn row_sum(value: f32, me: u32, group: Group) -> f32 {
  var sum = value;
  for (var bit = 0u; bit < 8u; bit++) {
    if ((1u << bit) < LANES) {
      sum += neighbour(sum, 1u << bit, me, group);
    }
  }
  return sum;
}

fn row_max(value: f32, me: u32, group: Group) -> f32 {
  var top = value;
  for (var bit = 0u; bit < 8u; bit++) {
    if ((1u << bit) < LANES) {
      top = max(top, neighbour(top, 1u << bit, me, group));
    }
  }
  return top;
}
