// attention_backward.wgsl for heads of any size: a workgroup has one query and makes its dq, or one key and makes its
// dk and dv; an invocation has one of LANES of the others that pass by.
override B: u32;
override T: u32;
override H: u32;
override D: u32;
override LANES: u32;
override ALIBI: u32;
override C: u32 = H * D;

@group(0) @binding(0) var<storage, read> dy: array<f32>;
@group(0) @binding(1) var<storage, read> qkv: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> lse: array<f32>;
@group(0) @binding(4) var<storage, read_write> dqkv: array<f32>;

var<workgroup> p_tile: array<f32, LANES>;
var<workgroup> ds_tile: array<f32, LANES>;
var<workgroup> from_ds: array<f32, D>;  // an invocation has the columns lane, lane + LANES, …
var<workgroup> from_p: array<f32, D>;

@compute @workgroup_size(LANES)
fn attention_backward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let number = group.x + group.y * groups.x;
  if (number >= 2u * B * H * T) {
    return;
  }
  let head = number % (B * H);
  let rank = number / (B * H);
  let of_keys = rank % 2u == 0u;
  let own = select(T - 1u - rank / 2u, rank / 2u, of_keys);

  for (var d = lane; d < D; d += LANES) {
    from_ds[d] = 0.0;
    from_p[d] = 0.0;
  }
  let end = select(own + 1u, T, of_keys);
  for (var first = select(0u, own, of_keys); first < end; first += LANES) {
    let count = min(LANES, end - first);
    workgroupBarrier();
    if (lane < count) {
      let query = select(own, first + lane, of_keys);
      let key = select(first + lane, own, of_keys);
      let p = exp(score(head, query, key) - lse[head * T + query]);
      p_tile[lane] = p;
      ds_tile[lane] = p * dp_less_delta(head, query, key);
    }
    workgroupBarrier();
    for (var d = lane; d < D; d += LANES) {
      var ds_sum = from_ds[d];
      var p_sum = from_p[d];
      for (var i = 0u; i < count; i++) {
        ds_sum += ds_tile[i] * qkv[vector_start(head, first + i, select(1u, 0u, of_keys), 3u) + d];
        if (of_keys) {
          p_sum += p_tile[i] * dy[vector_start(head, first + i, 0u, 1u) + d];
        }
      }
      from_ds[d] = ds_sum;
      from_p[d] = p_sum;
    }
  }

  for (var d = lane; d < D; d += LANES) {
    dqkv[vector_start(head, own, select(0u, 1u, of_keys), 3u) + d] = from_ds[d] / sqrt(f32(D));
    if (of_keys) {
      dqkv[vector_start(head, own, 2u, 3u) + d] = from_p[d];
    }
  }
}

// Where the vector of a row of a head begins, in a tensor of `parts` times H heads.
fn vector_start(head: u32, row: u32, part: u32, parts: u32) -> u32 {
  return ((head / H * T + row) * parts + part) * C + head % H * D;
}

fn score(head: u32, query: u32, key: u32) -> f32 {
  let q = vector_start(head, query, 0u, 3u);
  let k = vector_start(head, key, 1u, 3u);
  var sum = 0.0;
  for (var d = 0u; d < D; d++) {
    sum += qkv[q + d] * qkv[k + d];
  }
  var lowered = sum / sqrt(f32(D));
  if (ALIBI != 0u) {
    lowered -= exp2(-8.0 * f32(head % H + 1u) / f32(H)) * f32(query - key);
  }
  return lowered;
}

// dy . v - dy . y
fn dp_less_delta(head: u32, query: u32, key: u32) -> f32 {
  let out = vector_start(head, query, 0u, 1u);
  let v = vector_start(head, key, 2u, 3u);
  var dp = 0.0;
  var delta = 0.0;
  for (var d = 0u; d < D; d++) {
    dp += dy[out + d] * qkv[v + d];
    delta += dy[out + d] * y[out + d];
  }
  return dp - delta;
}
