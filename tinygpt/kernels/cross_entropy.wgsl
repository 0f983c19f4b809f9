// losses[n] = -log softmax(logits[n])[targets[n]],  dlogits = (softmax - onehot) SCALE;  LANES invocations per row.
override N: u32;
override V: u32;
override SCALE: f32;  // 1 / count
override HAS_DLOGITS: bool;

@group(0) @binding(0) var<storage, read> logits: array<Floats>;
@group(0) @binding(1) var<storage, read> targets: array<i32>;
@group(0) @binding(2) var<storage, read_write> losses: array<f32>;
@group(0) @binding(3) var<storage, read_write> dlogits: array<Floats>;

const LOWEST = -3.4e38;

@compute @workgroup_size(256)
fn cross_entropy(group: Group, @builtin(local_invocation_index) me: u32) {
  let n = row_number(me, group);
  let words = select(0u, V / WIDTH, n < N);  // a surplus row has none
  let first = n * words;

  var tops = Floats(LOWEST);
  for (var i = me % LANES; i < words; i += LANES) {
    tops = max(tops, logits[first + i]);
  }
  let top = row_max(max_of(tops), me, group);

  var sums = Floats();
  for (var i = me % LANES; i < words; i += LANES) {
    sums += exp(logits[first + i] - top);
  }
  let sum = row_sum(sum_of(sums), me, group);

  if (n >= N) {
    return;
  }
  let goal = u32(targets[n]);
  if (me % LANES == 0u) {
    losses[n] = (top - pick(logits[first + goal / WIDTH], goal % WIDTH)) + log(sum);
  }
  if (HAS_DLOGITS) {
    for (var i = me % LANES; i < words; i += LANES) {
      dlogits[first + i] = (exp(logits[first + i] - top) / sum - one_at(goal - i * WIDTH)) * SCALE;
    }
  }
}
