// Rows and gradients of batch number counters[1] of a step, in their place among those of all its batches; an invocation
// per float.
override N: u32;
override G: u32;
override W: u32;

@group(0) @binding(0) var<storage, read> rows: array<i32>;
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(2) var<storage, read> counters: array<i32>;
@group(0) @binding(3) var<storage, read_write> all_rows: array<i32>;
@group(0) @binding(4) var<storage, read_write> all_dy: array<f32>;

@compute @workgroup_size(256)
fn ngram_collect(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= N * G * W) {
    return;
  }
  let first = u32(counters[1]) * N * G;
  all_dy[first * W + i] = dy[i];
  if (i < N * G) {
    all_rows[first + i] = rows[i];
  }
}
