// angles[t] = cos of the D/2 angles t base^(-2i/D), then their sines, or with HAS_POSITION those of position[t]; an
// invocation per angle.
//
// An angle is a fraction of a turn in 64 bits (high, low): what a place adds to it, times the place; what overflows are
// whole turns. Neither f32 nor the language's cos has the bits for it. Needs philox.wgsl, for high_product.
override T: u32;
override D: u32;
override RATIO_HIGH: u32;  // base^(-2/D), a fraction in 64 bits
override RATIO_LOW: u32;
override HAS_POSITION: bool;

@group(0) @binding(0) var<storage, read> position: array<i32>;
@group(0) @binding(1) var<storage, read_write> angles: array<f32>;

const INVERSE_TWO_PI = vec2u(0x28BE60DBu, 0x9391054Au);
const TURN_UNIT = 1.462918079e-9;  // 2 pi / 2^32

// The product of two fractions, short of it by less than three units of the last place.
fn times(a: vec2u, b: vec2u) -> vec2u {
  let upper = high_product(a.x, b.y);
  let lower = high_product(a.y, b.x);
  let sum = upper + lower;
  let low = a.x * b.x + sum;
  return vec2u(high_product(a.x, b.x) + select(0u, 1u, sum < upper) + select(0u, 1u, low < sum), low);
}

// cos and sin of a fraction of a turn in 32 bits: the nearest quarter turn exactly, the rest by Taylor.
fn cos_sin(fraction: u32) -> vec2f {
  let quarter = (fraction + 0x20000000u) >> 30u;
  let angle = f32(bitcast<i32>(fraction - (quarter << 30u))) * TURN_UNIT;
  let a2 = angle * angle;
  var c = fma(a2, -1.0 / 3628800.0, 1.0 / 40320.0);
  c = fma(a2, c, -1.0 / 720.0);
  c = fma(a2, c, 1.0 / 24.0);
  c = fma(a2, c, -0.5);
  c = fma(a2, c, 1.0);
  var s = fma(a2, 1.0 / 362880.0, -1.0 / 5040.0);
  s = fma(a2, s, 1.0 / 120.0);
  s = fma(a2, s, -1.0 / 6.0);
  s = fma(angle, a2 * s, angle);
  let turned = select(vec2f(c, s), vec2f(-s, c), (quarter & 1u) != 0u);
  return select(turned, -turned, (quarter & 2u) != 0u);
}

@compute @workgroup_size(256)
fn rotary_table(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let number = id.x + id.y * (256u * groups.x);
  let half = D / 2u;
  if (number >= T * half) {
    return;
  }
  let row = number / half;
  let i = number % half;
  var frequency = INVERSE_TWO_PI;
  for (var n = 0u; n < D / 2u; n++) {
    if (n >= i) {
      break;
    }
    frequency = times(frequency, vec2u(RATIO_HIGH, RATIO_LOW));
  }
  var place = row;
  if (HAS_POSITION) {
    place = u32(position[row]);
  }
  let turn = cos_sin(place * frequency.x + high_product(place, frequency.y));
  angles[row * D + i] = turn.x;
  angles[row * D + half + i] = turn.y;
}
