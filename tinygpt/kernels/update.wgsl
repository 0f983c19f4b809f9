// What every optimizer's step over the flat vectors begins with. Needs slices.wgsl.
override P: u32;
override DECAYED: u32;  // weight decay is for the first of them
override ROWS: u32;

@group(0) @binding(0) var<storage, read> grads: array<Floats>;
@group(0) @binding(1) var<storage, read> norm: array<f32>;
@group(0) @binding(2) var<storage, read> rates: array<f32>;
@group(0) @binding(3) var<storage, read> counters: array<i32>;
@group(0) @binding(4) var<storage, read_write> weights: array<Floats>;
@group(0) @binding(5) var<storage, read_write> m: array<Floats>;

fn clipped_gradient(i: u32) -> Floats {
  var g = grads[in_slice(i, 0u)];
  for (var slice = 1u; slice < SLICES; slice++) {
    g += grads[in_slice(i, slice)];
  }
  return g * norm[1];
}

// The number of the step's first rate, where a step has so many.
fn first_rate(columns: u32) -> u32 {
  return columns * (u32(counters[0]) % ROWS);
}

// What decay leaves of a weight.
fn kept(i: u32, decay: f32) -> f32 {
  return select(1.0, 1.0 - decay, i < DECAYED / WIDTH);
}
