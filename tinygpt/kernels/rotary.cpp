// Queries and keys turned by their places.
#include "args.h"
#include "turn.h"

// base^(-2/D), as in core/ops/rotary.py: a square root for each binary digit of the exponent.
static double frequency_ratio(i64 base, i64 D) {
  double root = (double)base, power = 1.0;
  i64 digits = 2;
  for (int i = 0; i < 53; i++) {
    root = __builtin_sqrt(root);
    digits *= 2;
    if (digits >= D) digits -= D, power *= root;
  }
  return 1.0 / power;
}

// An angle is a fraction of a turn in 64 bits: what a place adds to it, times the place; what overflows are whole turns.
static void rotary_table(const rotary_table_args& a, Team& team) {
  constexpr double INVERSE_TWO_PI = 0.15915494309189535, TWO_64 = 18446744073709551616.0;
  i64 half = a.D / 2;
  double ratio = frequency_ratio(a.base, a.D);
  Range mine = team.share(ceil_div(half, DRAW_LANES));
  i64 begin = mine.begin * DRAW_LANES, end = min_of(mine.end * DRAW_LANES, half);
  double frequency = INVERSE_TWO_PI;
  for (i64 i = 0; i < begin; i++) frequency *= ratio;
  for (i64 first = begin; first < end; first += DRAW_LANES) {
    u64s step{};
    for (int lane = 0; lane < DRAW_LANES; lane++, frequency *= ratio) step[lane] = (u64)(frequency * TWO_64);
    for (i64 t = 0; t < a.T; t++) {
      CosSin turn = exact_cos_sin(step * (u64)(a.position ? a.position[t] : t) >> 32);
      float* cos = a.angles + t * a.D + first;
      for (int lane = 0; lane < min_of(DRAW_LANES, end - first); lane++) {
        cos[lane] = (float)turn.cos[lane];
        cos[half + lane] = (float)turn.sin[lane];
      }
    }
  }
}

static void rotary(const rotary_args& a, Team& team) {
  i64 half = a.D / 2, turned = 2 * a.H * a.D, row = 3 * a.H * a.D;
  float sign = a.inverse ? -1.0f : 1.0f;
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float *x = a.qkv + n * row, *cos = a.angles + n % a.T * a.D, *sin = cos + half;
    float* y = a.y + n * row;
    for (i64 head = 0; head < turned; head += a.D)
      each_vec(0, half, [&](i64 i, auto lanes) {
        vec c = load(cos + i, lanes), s = load(sin + i, lanes) * sign;
        vec first = load(x + head + i, lanes), second = load(x + head + half + i, lanes);
        store(y + head + i, first * c - second * s, lanes);
        store(y + head + half + i, first * s + second * c, lanes);
      });
    each_vec(turned, row, [&](i64 i, auto lanes) { store(y + i, load(x + i, lanes), lanes); });
  }
}
