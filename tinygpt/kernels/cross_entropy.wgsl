// losses[n] = -log softmax(logits[n])[targets[n]],  dlogits = (softmax - onehot) SCALE;  LANES invocations per row.
// With SMOOTHING, so much of the goal, which is onehot, is spread evenly.
override N: u32;
override V: u32;
override SCALE: f32;  // 1 / count
override HAS_DLOGITS: bool;
override SMOOTHING: f32;
override TURNS: u32 = (V / WIDTH + LANES - 1u) / LANES;  // words of a row that an invocation takes

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
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    tops = max(tops, logits[first + i]);
  }
  let top = row_max(max_of(tops), me, group);

  var sums = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    sums += exp(logits[first + i] - top);
  }
  let sum = row_sum(sum_of(sums), me, group);

  var mean_below = 0.0;  // how far the row's logits are below the top on average
  if (SMOOTHING > 0.0) {
    var below = Floats();
    for (var turn = 0u; turn < TURNS; turn++) {
      let i = me % LANES + turn * LANES;
      if (i >= words) {
        break;
      }
      below += top - logits[first + i];
    }
    mean_below = row_sum(sum_of(below), me, group) / f32(V);
  }

  if (n >= N) {
    return;
  }
  let goal = u32(targets[n]);
  if (me % LANES == 0u) {
    var below = top - pick(logits[first + goal / WIDTH], goal % WIDTH);
    if (SMOOTHING > 0.0) {
      below += SMOOTHING * (mean_below - below);
    }
    losses[n] = below + log(sum);
  }
  if (HAS_DLOGITS) {
    for (var turn = 0u; turn < TURNS; turn++) {
      let i = me % LANES + turn * LANES;
      if (i >= words) {
        break;
      }
      var wanted = one_at(goal - i * WIDTH);
      if (SMOOTHING > 0.0) {
        wanted = wanted * (1.0 - SMOOTHING) + SMOOTHING / f32(V);
      }
      dlogits[first + i] = (exp(logits[first + i] - top) / sum - wanted) * SCALE;
    }
  }
}
