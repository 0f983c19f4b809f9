// The k and v of qkv [N,3C], row by row, to the first of the T rows of text row[0] in cache_k and cache_v; an invocation
// per word of each.
override N: u32;
override T: u32;
override C: u32;

@group(0) @binding(0) var<storage, read> qkv: array<Floats>;
@group(0) @binding(1) var<storage, read> row: array<i32>;
@group(0) @binding(2) var<storage, read_write> cache_k: array<Floats>;
@group(0) @binding(3) var<storage, read_write> cache_v: array<Floats>;

@compute @workgroup_size(256)
fn cache_fill(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = C / WIDTH;
  if (i < N * words) {
    let q = i / words * 3u * words + i % words;
    let text = u32(row[0]) * T * words;
    cache_k[text + i] = qkv[q + words];
    cache_v[text + i] = qkv[q + 2u * words];
  }
}
