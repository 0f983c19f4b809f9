// y = silu(gate) up, and its gradients; an invocation per word of y. A row of gate_up has the gates, then the ups.
// Needs sigmoid.wgsl.
override N: u32;
override F: u32;

@group(0) @binding(0) var<storage, read> gate_up: array<Floats>;
// swiglu
@group(0) @binding(1) var<storage, read_write> y: array<Floats>;
// swiglu_backward
@group(0) @binding(1) var<storage, read> dy: array<Floats>;
@group(0) @binding(2) var<storage, read_write> dgate_up: array<Floats>;

@compute @workgroup_size(256)
fn swiglu(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = F / WIDTH;
  if (i < N * words) {
    let at = i / words * 2u * words + i % words;
    let g = gate_up[at];
    y[i] = g * sigmoid(g).value * gate_up[at + words];
  }
}

@compute @workgroup_size(256)
fn swiglu_backward(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = F / WIDTH;
  if (i < N * words) {
    let at = i / words * 2u * words + i % words;
    let g = gate_up[at];
    let s = sigmoid(g);
    dgate_up[at] = dy[i] * gate_up[at + words] * (s.value + g * s.value * s.rest);
    dgate_up[at + words] = dy[i] * (g * s.value);
  }
}
