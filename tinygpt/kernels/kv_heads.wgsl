// Heads of keys and values that H / G heads of queries share: copied to each, and the copies' gradients summed. An
// invocation per word of what is made.
override N: u32;
override H: u32;
override G: u32;
override D: u32;

// kv_heads
@group(0) @binding(0) var<storage, read> x: array<Floats>;
@group(0) @binding(1) var<storage, read_write> y: array<Floats>;
// kv_heads_backward
@group(0) @binding(0) var<storage, read> dy: array<Floats>;
@group(0) @binding(1) var<storage, read_write> dx: array<Floats>;

@compute @workgroup_size(256)
fn kv_heads(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = D / WIDTH;
  if (i < N * 3u * H * words) {
    let head = i / words % (3u * H);
    let shared_head = select(H + (head - H) / (H / G), head, head < H);
    y[i] = x[(i / (3u * H * words) * (H + 2u * G) + shared_head) * words + i % words];
  }
}

@compute @workgroup_size(256)
fn kv_heads_backward(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = D / WIDTH;
  let heads = H + 2u * G;
  if (i < N * heads * words) {
    let head = i / words % heads;
    let first = select(H + (head - H) * (H / G), head, head < H);
    let at = (i / (heads * words) * 3u * H + first) * words + i % words;
    var sum = dy[at];
    if (head >= H) {
      for (var copy = 1u; copy < H / G; copy++) {
        sum += dy[at + copy * words];
      }
    }
    dx[i] = sum;
  }
}
