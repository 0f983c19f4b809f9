// Philox4x32-10, as core/rng.py has it, a vector of calls at a time: each lane has its words in 64 bits.
#pragma once
#include "simd.h"

constexpr int DRAW_LANES = LANES / 2;  // calls at a time
typedef u64 u64s __attribute__((vector_size(LANES * 4)));

struct Words {
  u64s at[4];
};

// Four words for each of DRAW_LANES calls, at counters (first, c1, c2, c3), (first + 1, c1, c2, c3), ...
INLINE Words philox(u32 k0, u32 k1, u32 first, u32 c1 = 0, u32 c2 = 0, u32 c3 = 0) {
  constexpr u64 LOW = 0xffffffff;
  Words c = {u64s{}, u64s{} + c1, u64s{} + c2, u64s{} + c3};
  for (int lane = 0; lane < DRAW_LANES; lane++) c.at[0][lane] = (u32)(first + lane);
  for (int round = 0; round < 10; round++) {
    u64s product0 = c.at[0] * 0xD2511F53ull, product1 = c.at[2] * 0xCD9E8D57ull;
    c = {(product1 >> 32) ^ c.at[1] ^ k0, product1 & LOW, (product0 >> 32) ^ c.at[3] ^ k1, product0 & LOW};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}
