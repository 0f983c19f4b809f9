// Pairs (i, i + D/2) of every head of q and k, turned by angles[n mod T] (cosines, then sines), or back;
// v as it is. An invocation per word of first halves.
override N: u32;
override T: u32;
override H: u32;
override D: u32;
override INVERSE: bool;

@group(0) @binding(0) var<storage, read> qkv: array<Floats>;
@group(0) @binding(1) var<storage, read> angles: array<Floats>;
@group(0) @binding(2) var<storage, read_write> y: array<Floats>;

@compute @workgroup_size(256)
fn rotary(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let word = id.x + id.y * (256u * groups.x);
  let half = D / 2u / WIDTH;
  let head = word / half;
  if (head >= N * 3u * H) {
    return;
  }
  let i = word % half;
  let at = head * 2u * half + i;
  let a = qkv[at];
  let b = qkv[at + half];
  if (head % (3u * H) >= 2u * H) {
    y[at] = a;
    y[at + half] = b;
    return;
  }
  let row = head / (3u * H) % T * 2u * half + i;
  let c = angles[row];
  var s = angles[row + half];
  if (INVERSE) {
    s = -s;
  }
  y[at] = a * c - b * s;
  y[at + half] = a * s + b * c;
}
