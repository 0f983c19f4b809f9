// What the kernels of normalised rows share.
#pragma once
#include "args.h"
#include "simd.h"

// out [C] (+)= the sum of ROW_CHUNKS rows, `stride` apart: what each piece of the rows adds to a parameter's gradient.
INLINE void add_chunks(Team& team, const float* parts, i64 stride, i64 C, bool accumulate, float* out) {
  Range share = team.share(ceil_div(C, LANES));
  each_vec(share.begin * LANES, min_of(share.end * LANES, C), [&](i64 c, auto lanes) {
    vec sum = accumulate ? load(out + c, lanes) : vec{};
    for (i64 i = 0; i < ROW_CHUNKS; i++) sum += load(parts + i * stride + c, lanes);
    store(out + c, sum, lanes);
  });
}

INLINE float sum_of_products(const float* a, const float* b, i64 size) {
  vec sum{};
  each_vec(0, size, [&](i64 i, auto lanes) { sum = fma(load(a + i, lanes), load(b + i, lanes), sum); });
  return sum_lanes(sum);
}
