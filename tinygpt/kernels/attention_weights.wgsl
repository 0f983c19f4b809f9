// p[b, h, i, j] = exp(q_i . k_j / sqrt(D) - lse_i), 0 where j > i;  an invocation per entry.
override B: u32;
override T: u32;
override H: u32;
override D: u32;
override ALIBI: u32;
override C: u32 = H * D;

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> lse: array<f32>;
@group(0) @binding(2) var<storage, read_write> p: array<f32>;

@compute @workgroup_size(256)
fn attention_weights(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= B * H * T * T) {
    return;
  }
  let row = i / T;
  let head = row / T;
  let query = row % T;
  let key = i % T;
  if (key > query) {
    p[i] = 0.0;
    return;
  }
  let q = ((head / H * T + query) * 3u) * C + head % H * D;
  let k = ((head / H * T + key) * 3u + 1u) * C + head % H * D;
  var sum = 0.0;
  for (var d = 0u; d < D; d++) {
    sum += qkv[q + d] * qkv[k + d];
  }
  var score = sum / sqrt(f32(D));
  if (ALIBI != 0u) {
    score -= exp2(-8.0 * f32(head % H + 1u) / f32(H)) * f32(query - key);
  }
  p[i] = exp(score - lse[row]);
}
