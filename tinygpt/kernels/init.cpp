// Start values, bit for bit those of init.py: the same float64 operations in the same order, on vectors.
#include "args.h"
#include "turn.h"

// ln x for a positive normal x below 2: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)).
INLINE f64s exact_log(f64s x) {
  constexpr u64 MANTISSA = 0xfffffffffffff, HALF_BITS = 0x3fe0000000000000;
  u64s bits = (u64s)x;
  f64s m = (f64s)((bits & MANTISSA) | HALF_BITS);
  f64s e = to_double(bits >> 52) - 1022.0;
  auto low = m < 0.7071067811865476;
  m = low ? m * 2.0 : m;
  e = low ? e - 1.0 : e;
  f64s s = (m - 1.0) / (m + 1.0);
  f64s s2 = s * s;
  f64s series = f64s{} + 1.0 / 21;
  for (int k = 9; k >= 0; k--) series = series * s2 + 1.0 / (2 * k + 1);
  return e * 0.6931471805599453 + 2.0 * s * series;
}

// Draws number first * 4 and further, up to `size`, of normal(0, std), four to a Philox call.
static void draw_normal(float* out, i64 first, i64 size, u32 seed, u32 purpose, u32 tensor, double std) {
  Words word = philox(seed, purpose, (u32)first, 0, tensor);
  f64s draw[4];
  for (int pair = 0; pair < 2; pair++) {
    f64s u1 = (to_double(word.at[2 * pair]) + 1.0) / 4294967296.0;
    f64s radius = __builtin_elementwise_sqrt(-2.0 * exact_log(u1));
    CosSin turn = exact_cos_sin(word.at[2 * pair + 1]);
    draw[2 * pair] = radius * turn.cos * std;
    draw[2 * pair + 1] = radius * turn.sin * std;
  }
  for (i64 i = 0; i < min_of(4 * DRAW_LANES, size - first * 4); i++) out[first * 4 + i] = (float)draw[i % 4][i / 4];
}

static void normal(const normal_args& a, Team& team) {
  double std = __builtin_bit_cast(double, (u64)(u32)a.std_high << 32 | (u32)a.std_low);
  Range calls = team.share(ceil_div(a.P, 4 * DRAW_LANES));
  for (i64 call = calls.begin; call < calls.end; call++)
    draw_normal(a.y + a.start, call * DRAW_LANES, a.P, (u32)a.seed, (u32)a.purpose, (u32)a.index, std);
}

static void constant(const constant_args& a, Team& team) {
  Range share = team.share(a.P);
  for (i64 i = share.begin; i < share.end; i++) a.y[a.start + i] = a.value;
}
