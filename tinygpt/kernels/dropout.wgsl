// y = x SCALE where a word drawn for it is at least THRESHOLD, else 0 (+ residual); an invocation per word of y, whose
// numbers have their words from one draw at (number / 4, step, SITE, micro). Needs philox.wgsl.
override N: u32;
override C: u32;
override SEED: u32;
override PURPOSE: u32;
override SITE: u32;
override THRESHOLD: u32;
override SCALE: f32;
override HAS_RESIDUAL: bool;

@group(0) @binding(0) var<storage, read> x: array<Floats>;
@group(0) @binding(1) var<storage, read> counters: array<i32>;  // step, micro
@group(0) @binding(2) var<storage, read> residual: array<Floats>;
@group(0) @binding(3) var<storage, read_write> y: array<Floats>;

@compute @workgroup_size(256)
fn dropout(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  if (i >= N * C / WIDTH) {
    return;
  }
  let counter = vec4u(i * WIDTH / 4u, u32(counters[0]), SITE, u32(counters[1]));
  let drawn = of_draw(philox(vec2u(SEED, PURPOSE), counter), i * WIDTH % 4u);
  var result = x[i] * select(Floats(), Floats(SCALE), drawn >= Draws(THRESHOLD));
  if (HAS_RESIDUAL) {
    result += residual[i];
  }
  y[i] = result;
}
