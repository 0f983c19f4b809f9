// y = CAP tanh(x / CAP), and its gradient; an invocation per word.
override N: u32;
override V: u32;
override CAP: f32;

@group(0) @binding(0) var<storage, read> x: array<Floats>;
// softcap
@group(0) @binding(1) var<storage, read_write> y: array<Floats>;
// softcap_backward
@group(0) @binding(1) var<storage, read> dy: array<Floats>;
@group(0) @binding(2) var<storage, read_write> dx: array<Floats>;

// Near 0, where (1 - e) / (1 + e) with e = exp(-2 |z|) would cancel, a polynomial: softcap.cpp has the same one. WGSL's
// own tanh may be off by 1e-5.
fn precise_tanh(z: Floats) -> Floats {
  let square = z * z;
  var p = fma(Floats(-5.89515781e-3), square, Floats(2.07959712e-2));
  p = fma(p, square, Floats(-5.37838303e-2));
  p = fma(p, square, Floats(1.33319244e-1));
  p = fma(p, square, Floats(-3.33332986e-1));
  let near = fma(z * square, p, z);
  let e = exp(-2.0 * abs(z));
  let far = (1.0 - e) / (1.0 + e);
  return select(select(far, -far, z < Floats()), near, abs(z) < Floats(0.6));
}

@compute @workgroup_size(256)
fn softcap(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < N * V / WIDTH) {
    y[i] = CAP * precise_tanh(x[i] / CAP);
  }
}

@compute @workgroup_size(256)
fn softcap_backward(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < N * V / WIDTH) {
    let e = exp(-2.0 * abs(x[i] / CAP));
    dx[i] = dy[i] * (4.0 * e / ((1.0 + e) * (1.0 + e)));
  }
}
