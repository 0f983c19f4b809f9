// exp and log of vectors. Polynomials are minimax fits. Errors are relative, and measured with and without fused
// multiply-adds; one ulp is at most 1.2e-7.
#pragma once
#include "simd.h"

// x = n + f with n whole and |f| <= 1/2: returns f, and 2^n in `power`, 0 for n = -127 and infinity for n = 128.
// Adding 1.5 * 2^23 gives a float whose last bit is worth 1; the 127 on top is the exponent's bias.
INLINE vec split_power(vec x, vec& power) {
  constexpr float ROUND = 12582912.0f + 127.0f;
  vec shifted = x + ROUND;
  power = (vec)((ivec)shifted << 23);
  return x - (shifted - ROUND);
}

// 2^x for x <= 127, error below 1.9e-7, exact at 0; 0 below -127, NaN for NaN.
INLINE vec exp2(vec x) {
  vec power, f = split_power(max_of(splat(-127.0f), x), power);
  vec p = splat(1.32647273e-3f);
  p = fma(p, f, splat(9.67151299e-3f));
  p = fma(p, f, splat(5.55073358e-2f));
  p = fma(p, f, splat(2.40222424e-1f));
  p = fma(p, f, splat(6.93147004e-1f));
  p = fma(p, f, splat(1.0f));
  return p * power;
}

// e^x for x <= 88, error below 1.2e-7, exact at 0; 0 below -87.6, NaN for NaN.
INLINE vec exp(vec x) {
  x = max_of(splat(-88.0f), x);
  vec power;
  vec n = x * 1.44269504f;
  n = n - split_power(n, power);
  vec f = fma(n, splat(-0.693359375f), x);  // this part of ln 2 has 9 bits: the product is exact
  f = fma(n, splat(2.12194440e-4f), f);
  vec p = splat(1.38435594e-3f);
  p = fma(p, f, splat(8.37423559e-3f));
  p = fma(p, f, splat(4.16680090e-2f));
  p = fma(p, f, splat(1.66664302e-1f));
  p = fma(p, f, splat(4.99999940e-1f));
  p = fma(p, f, splat(1.0f));
  p = fma(p, f, splat(1.0f));
  return p * power;
}

// ln x for a positive normal x, error below 1.8e-7, also near 1.
// x = m 2^e with sqrt(1/2) <= m < sqrt(2); ln m = 2 artanh(s) at s = (m - 1) / (m + 1).
INLINE vec log(vec x) {
  constexpr i32 SQRT_HALF_BITS = 0x3f3504f3;
  ivec above = (ivec)x - SQRT_HALF_BITS;
  vec e = __builtin_convertvector(above >> 23, vec);
  vec m = (vec)((above & 0x7fffff) + SQRT_HALF_BITS);
  vec s = (m - 1.0f) / (m + 1.0f);
  vec s2 = s * s;
  vec p = splat(0.14963748f);
  p = fma(p, s2, splat(0.19987363f));
  p = fma(p, s2, splat(0.33333408f));
  vec ln_m = fma(s + s, p * s2, s + s);
  return fma(e, splat(0.693359375f), fma(e, splat(-2.12194440e-4f), ln_m));
}

struct Sigmoid {
  vec value, rest;  // sigmoid(g), and sigmoid(-g) = 1 - sigmoid(g) without that difference's cancellation
};

INLINE Sigmoid sigmoid(vec g) {
  vec small = exp(-max_of(g, -g)), sum = 1.0f + small;
  vec large = 1.0f / sum;
  small = small / sum;
  return {g < vec{} ? small : large, g < vec{} ? large : small};
}
