// best[n] = the first v whose logits[n, v] no other exceeds, -1 where not all are numbers;  LANES invocations per row.
override N: u32;
override V: u32;
override TURNS: u32 = (V + LANES - 1u) / LANES;  // numbers of a row that an invocation takes

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> best: array<i32>;

const LOWEST = -3.4e38;
const NOWHERE = -1e9;

@compute @workgroup_size(256)
fn likeliest(group: Group, @builtin(local_invocation_index) me: u32) {
  let n = row_number(me, group);
  let own = select(0u, V, n < N);  // a surplus row has none
  let first = n * own;

  var top = LOWEST;
  var strange = 0.0;
  for (var turn = 0u; turn < TURNS; turn++) {
    let v = me % LANES + turn * LANES;
    if (v >= own) {
      break;
    }
    let logit = logits[first + v];
    if ((bitcast<u32>(logit) & 0x7f800000u) == 0x7f800000u) {
      strange = 1.0;
    } else {
      top = max(top, logit);
    }
  }
  top = row_max(top, me, group);
  strange = row_max(strange, me, group);

  var place = NOWHERE;  // minus the first place of `top`, so that the largest is the first
  for (var turn = 0u; turn < TURNS; turn++) {
    let v = me % LANES + turn * LANES;
    if (v >= own) {
      break;
    }
    if (logits[first + v] == top) {
      place = max(place, -f32(v));
    }
  }
  place = row_max(place, me, group);
  if (n < N && me % LANES == 0u) {
    best[n] = select(i32(-place), -1, strange > 0.0);
  }
}
