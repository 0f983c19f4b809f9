// What a core can do at most: multiply-adds in registers and nothing else.
#include "simd.h"

extern "C" EXPORT float tg_peak(i32 rounds) {
  vec sums[SUMS];
  for (int i = 0; i < SUMS; i++) sums[i] = splat((float)i);
  const vec factor = splat(0.75f), step = splat(0.5f);
  for (i32 round = 0; round < rounds; round++)
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
      sums[i] = fma(sums[i], factor, step);
      done(sums[i]);
    }
  float sum = 0;
  for (int i = 0; i < SUMS; i++) sum += sums[i][0];
  return sum;
}
