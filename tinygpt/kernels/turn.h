// cos and sin of a fraction of a turn in 32 bits, from operations that IEEE 754 rounds exactly.
#pragma once
#include "philox.h"

typedef double f64s __attribute__((vector_size(LANES * 4)));

struct CosSin {
  f64s cos, sin;
};

// Exact for whole numbers below 2^52.
INLINE f64s to_double(u64s n) {
  constexpr u64 TWO_52_BITS = 0x4330000000000000;
  return (f64s)(n | TWO_52_BITS) - 4503599627370496.0;
}

// Of 2 pi word / 2^32: the nearest quarter turn exactly, the rest by Taylor.
INLINE CosSin exact_cos_sin(u64s word) {
  u64s quarter = (word + (1ull << 29)) >> 30;
  f64s rest = (to_double(word) - to_double(quarter) * 1073741824.0) / 1073741824.0;
  f64s angle = rest * 1.5707963267948966;
  f64s a2 = angle * angle;
  f64s cos = f64s{} + 1.0, sin = cos;
  for (int k = 8; k > 0; k--) {
    cos = 1.0 - a2 / (double)((2 * k - 1) * (2 * k)) * cos;
    sin = 1.0 - a2 / (double)((2 * k) * (2 * k + 1)) * sin;
  }
  sin = angle * sin;
  auto odd = (quarter & 1) != 0;  // a turn swaps them, and changes signs by turns
  f64s turned_cos = odd ? sin : cos, turned_sin = odd ? cos : sin;
  return {((quarter + 1) & 2) != 0 ? -turned_cos : turned_cos, (quarter & 2) != 0 ? -turned_sin : turned_sin};
}
