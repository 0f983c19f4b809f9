// loss[0] (+)= sum(losses) / COUNT, by one workgroup, all of it one row (LANES = 256).
override N: u32;
override COUNT: f32;
override ACCUMULATE: bool;

@group(0) @binding(0) var<storage, read> losses: array<f32>;
@group(0) @binding(1) var<storage, read_write> loss: array<f32>;

@compute @workgroup_size(256)
fn mean_loss(group: Group, @builtin(local_invocation_index) me: u32) {
  var sum = 0.0;
  for (var turn = 0u; turn < (N + 255u) / 256u; turn++) {
    let n = me + turn * 256u;
    if (n < N) {
      sum += losses[n];
    }
  }
  var total = row_sum(sum, me, group) / COUNT;
  if (me == 0u) {
    if (ACCUMULATE) {
      total += loss[0];
    }
    loss[0] = total;
  }
}
