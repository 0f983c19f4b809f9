// y[b, t] = (1 - z) y[b, t - 1] + z value[b, t] with z = sigmoid(gate[b, t]), its gradients, and one row of it; an
// invocation goes along a window with a word of its columns. Needs sigmoid.wgsl.
override B: u32;
override T: u32;
override C: u32;

@group(0) @binding(0) var<storage, read> gate: array<Floats>;
@group(0) @binding(1) var<storage, read> value: array<Floats>;
// scan
@group(0) @binding(2) var<storage, read_write> y: array<Floats>;
// scan_backward
@group(0) @binding(2) var<storage, read> left: array<Floats>;
@group(0) @binding(3) var<storage, read> dy: array<Floats>;
@group(0) @binding(4) var<storage, read_write> dgate: array<Floats>;
@group(0) @binding(5) var<storage, read_write> dvalue: array<Floats>;
// scan_one
@group(0) @binding(2) var<storage, read> state: array<Floats>;
@group(0) @binding(3) var<storage, read_write> next: array<Floats>;

@compute @workgroup_size(256)
fn scan(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = C / WIDTH;
  if (i < B * words) {
    let first = i / words * (T * words) + i % words;
    var row = Floats();
    for (var t = 0u; t < T; t++) {
      let at = first + t * words;
      let z = sigmoid(gate[at]);
      row = z.rest * row + z.value * value[at];
      y[at] = row;
    }
  }
}

@compute @workgroup_size(256)
fn scan_backward(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let words = C / WIDTH;
  if (i < B * words) {
    let first = i / words * (T * words) + i % words;
    var passed = Floats();
    for (var done = 0u; done < T; done++) {
      let t = T - 1u - done;
      let at = first + t * words;
      let z = sigmoid(gate[at]);
      var before = Floats();
      if (t > 0u) {
        before = left[at - words];
      }
      let d = dy[at] + passed;
      passed = z.rest * d;
      dvalue[at] = z.value * d;
      dgate[at] = (value[at] - before) * z.value * passed;
    }
  }
}

@compute @workgroup_size(256)
fn scan_one(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i < B * (C / WIDTH)) {
    let z = sigmoid(gate[i]);
    next[i] = z.rest * state[i] + z.value * value[i];
  }
}
