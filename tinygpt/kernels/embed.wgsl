// x[n] = wte[tokens[n]] (+ wpe[n mod T]), an invocation per word. With HAS_POSITION, at position[n] instead.
override N: u32;
override T: u32;
override C: u32;
override HAS_WPE: bool;
override HAS_POSITION: bool;

@group(0) @binding(0) var<storage, read> tokens: array<i32>;
@group(0) @binding(1) var<storage, read> wte: array<Floats>;
@group(0) @binding(2) var<storage, read> wpe: array<Floats>;
@group(0) @binding(3) var<storage, read> position: array<i32>;
@group(0) @binding(4) var<storage, read_write> x: array<Floats>;

@compute @workgroup_size(256)
fn embed(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = C / WIDTH;
  if (i >= N * words) {
    return;
  }
  let n = i / words;
  var t = n % T;
  if (HAS_POSITION) {
    t = u32(position[n]);
  }
  var row = wte[u32(tokens[n]) * words + i % words];
  if (HAS_WPE) {
    row += wpe[t * words + i % words];
  }
  x[i] = row;
}
