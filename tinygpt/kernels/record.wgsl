// Keeping count of steps, and of their losses and norms until someone reads them; a single invocation.
override ROWS: i32;
override WHICH: u32;

@group(0) @binding(0) var<storage, read> loss: array<f32>;
@group(0) @binding(1) var<storage, read> norm: array<f32>;
@group(0) @binding(2) var<storage, read_write> ring: array<vec2f>;
@group(0) @binding(3) var<storage, read_write> counters: array<i32>;
@group(0) @binding(0) var<storage, read_write> counted: array<i32>;

@compute @workgroup_size(1)
fn record() {
  ring[counters[0] % ROWS] = vec2f(loss[0], norm[0]);
  counters[0]++;
  counters[1] = 0;
}

@compute @workgroup_size(1)
fn count() {
  counted[WHICH]++;
}
