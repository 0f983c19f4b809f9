// attention.wgsl for heads of any size: a workgroup has one query, an invocation one key of LANES that pass by.
override B: u32;
override T: u32;
override H: u32;
override D: u32;
override LANES: u32;
override HAS_LSE: u32;
override ALIBI: u32;
override C: u32 = H * D;

const MASKED = -1e30f;

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> lse: array<f32>;

var<workgroup> scores: array<f32, LANES>;
var<workgroup> weights: array<f32, LANES>;
var<workgroup> out: array<f32, D>;  // an invocation has the columns lane, lane + LANES, …

@compute @workgroup_size(LANES)
fn attention(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let number = group.x + group.y * groups.x;
  if (number >= B * H * T) {
    return;
  }
  let head = number % (B * H);
  let query = T - 1u - number / (B * H);
  let q = vector_start(head, query, 0u);

  for (var d = lane; d < D; d += LANES) {
    out[d] = 0.0;
  }
  var largest = MASKED;
  var sum = 0.0;
  for (var first = 0u; first <= query; first += LANES) {
    let count = min(LANES, query + 1u - first);
    var score = MASKED;
    if (lane < count) {
      score = dot_of_rows(q, vector_start(head, first + lane, 1u)) / sqrt(f32(D));
      if (ALIBI != 0u) {
        score -= exp2(-8.0 * f32(head % H + 1u) / f32(H)) * f32(query - first - lane);
      }
    }
    scores[lane] = score;
    workgroupBarrier();
    var top = largest;
    for (var i = 0u; i < count; i++) {
      top = max(top, scores[i]);
    }
    weights[lane] = exp(score - top);
    workgroupBarrier();
    let shrink = exp(largest - top);
    largest = top;
    sum *= shrink;
    for (var i = 0u; i < count; i++) {
      sum += weights[i];
    }
    let v = vector_start(head, first, 2u);
    for (var d = lane; d < D; d += LANES) {
      var total = out[d] * shrink;
      for (var i = 0u; i < count; i++) {
        total += weights[i] * qkv[v + i * 3u * C + d];
      }
      out[d] = total;
    }
  }

  for (var d = lane; d < D; d += LANES) {
    y[(head / H * T + query) * C + head % H * D + d] = out[d] / sum;
  }
  if (HAS_LSE != 0u && lane == 0u) {
    lse[head * T + query] = largest + log(sum);
  }
}

fn vector_start(head: u32, row: u32, part: u32) -> u32 {
  return ((head / H * T + row) * 3u + part) * C + head % H * D;
}

fn dot_of_rows(a: u32, b: u32) -> f32 {
  var sum = 0.0;
  for (var d = 0u; d < D; d++) {
    sum += qkv[a + d] * qkv[b + d];
  }
  return sum;
}
