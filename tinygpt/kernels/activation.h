// What stands between an MLP's two matmuls, with its slope.
#pragma once
#include "args.h"
#include "simd.h"

struct Activation {
  vec value, slope;
};

// max(h, 0)^2; NaN stays NaN.
INLINE Activation squared_relu(vec h) {
  vec above = max_of(vec{}, h);
  return {above * above, above + above};
}

// The exact GELU, h * Phi(h) with Phi the normal distribution, and its slope Phi(h) + h * phi(h).
// Both come from the tail Phi(-|h|) = exp(-h^2/2) mills(|h|), which keeps its relative accuracy where
// (1 + erf) / 2 would cancel. mills(t) = exp(t^2/2) erfc(t/sqrt(2)) / 2 is a ratio of polynomials with positive
// coefficients, so that nothing cancels in them either: a minimax fit on [0, 13], relative error 1.1e-8.
// Measured: the value within 6 ulp of the true one (7 without fused multiply-adds), the slope within 1.4e-7.
// Below -13, where the true value is smaller than 1e-37, value and slope are 0.
INLINE Activation gelu(vec h) {
  constexpr float LIMIT = 13.0f;
  vec magnitude = min_of(max_of(h, -h), splat(LIMIT));

  // x = -h^2/2, in two parts: the first is exact for it squares 12 bits, the second is small.
  vec high = __builtin_bit_cast(vec, __builtin_bit_cast(ivec, magnitude) & (ivec{} + (i32)0xfffff000));
  vec x = high * high * splat(-0.5f);
  vec x_rest = (magnitude - high) * (magnitude + high) * splat(-0.5f);

  // exp(x) = 2^n exp(r) with |r| <= ln(2)/2: adding ROUND leaves n in the low bits.
  constexpr float ROUND = 12582912.0f;  // 1.5 * 2^23
  vec shifted = fma(x, splat(1.44269504f), splat(ROUND));
  vec n = shifted - splat(ROUND);
  vec r = fma(n, splat(-0.693145751953125f), x);  // this part of ln 2 has 16 bits: the product is exact
  r = fma(n, splat(-1.42860677e-6f), r) + x_rest;
  vec e = splat(0.0013811663f);
  e = fma(e, r, splat(0.008370135f));
  e = fma(e, r, splat(0.041668527f));
  e = fma(e, r, splat(0.16666509f));
  e = fma(e, r, splat(0.49999994f));
  e = fma(e, r * r, r) + splat(1.0f);
  e = __builtin_bit_cast(vec, __builtin_bit_cast(ivec, e) + (__builtin_bit_cast(ivec, shifted) << 23));

  vec p = splat(0.00397151336f);
  p = fma(p, magnitude, splat(0.0396482237f));
  p = fma(p, magnitude, splat(0.180294707f));
  p = fma(p, magnitude, splat(0.434294939f));
  p = fma(p, magnitude, splat(0.5f));
  vec q = splat(0.00995494984f);
  q = fma(q, magnitude, splat(0.0993913114f));
  q = fma(q, magnitude, splat(0.461712092f));
  q = fma(q, magnitude, splat(1.19024026f));
  q = fma(q, magnitude, splat(1.6664747f));
  q = fma(q, magnitude, splat(1.0f));

  e = magnitude < splat(LIMIT) ? e : vec{};
  vec tail = e * (p / q);
  vec below = h < vec{} ? tail : splat(1.0f) - tail;
  return {h * below, fma(h * e, splat(0.39894228f), below)};
}

template <int KIND>
INLINE Activation activate(vec h) {
  if constexpr (KIND == RELU2)
    return squared_relu(h);
  else
    return gelu(h);
}
