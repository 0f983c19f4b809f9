// A few rows times whole numbers, in WebAssembly: the rows are made whole numbers as well, of 30 bits, and so a product
// is two instructions for eight weights, and its sums are exact.
#pragma once
#include "simd.h"

#if defined(__wasm_simd128__)
typedef short halfwords __attribute__((vector_size(16)));

// A row of x, x[k] = (high[k] 2^15 + low[k]) unit + less than a unit, where unit <= 2^-29 max|x|.
struct FixedRow {
  static constexpr i64 MOST = 2040;  // numbers: the sums of more might not fit into 32 bits
  short high[MOST + 8], low[MOST + 8];
  float unit;

  void take(const float* x, i64 depth) {
    ivec top{};
    each_vec(0, depth, [&](i64 k, auto lanes) {
      ivec size = (ivec)load(x + k, lanes) & 0x7fffffff;
      top = size > top ? size : top;
    });
    i32 largest = 0;
    for (int i = 0; i < LANES; i++) largest = top[i] > largest ? top[i] : largest;
    i32 exponent = largest >> 23;                  // with its bias of 127
    bool there = exponent > 31 && exponent < 255;  // below, all of x is as good as 0; 255 is no number
    float factor = there ? __builtin_bit_cast(float, (127 + 29 + 127 - exponent) << 23) : 0;
    unit = there ? __builtin_bit_cast(float, (exponent - 29) << 23) : exponent == 255 ? __builtin_nanf("") : 0;
    for (i64 k = 0; k < depth; k += 8) {
      ivec some[2];
      for (int i = 0; i < 2; i++) {
        i64 at = k + i * LANES, left = depth - at;
        vec v = left >= LANES ? load(x + at) : left > 0 ? load_some(x + at, left) : vec{};
        some[i] = __builtin_convertvector(v * factor, ivec);
      }
      *(halfwords*)(high + k) = __builtin_wasm_narrow_s_i16x8_i32x4(some[0] >> 15, some[1] >> 15);
      *(halfwords*)(low + k) = __builtin_wasm_narrow_s_i16x8_i32x4(some[0] & 0x7fff, some[1] & 0x7fff);
    }
  }
};

INLINE halfwords eight(const i8* p, i64 left) {
  typedef i8 b8 __attribute__((vector_size(8)));
  b8 bytes{};
  if (left >= 8)
    __builtin_memcpy(&bytes, p, 8);
  else
    for (int i = 0; i < 8; i++)
      if (i < left) bytes[i] = p[i];
  return __builtin_convertvector(bytes, halfwords);
}

// x times LANES rows of b, of which `rows` are there.
__attribute__((noinline)) static vec fixed_products(const FixedRow& x, const i8* b, i64 rows, i64 depth) {
  const i8* at[LANES];
  for (int i = 0; i < LANES; i++) at[i] = b + min_of(i, rows - 1) * depth;
  ivec high[LANES] = {}, low[LANES] = {};
  auto add = [&](i64 k, i64 left) __attribute__((always_inline)) {
    halfwords of_high = *(const halfwords*)(x.high + k), of_low = *(const halfwords*)(x.low + k);
#pragma unroll
    for (int i = 0; i < LANES; i++) {
      halfwords weights = eight(at[i] + k, left);
      high[i] += (ivec)__builtin_wasm_dot_s_i32x4_i16x8(weights, of_high);
      __asm__ volatile("" : "+r"(high[i])::"memory");
      low[i] += (ivec)__builtin_wasm_dot_s_i32x4_i16x8(weights, of_low);
      __asm__ volatile("" : "+r"(low[i])::"memory");
    }
  };
  i64 k = 0;
  for (; k + 8 <= depth; k += 8) add(k, 8);
  if (k < depth) add(k, depth - k);
  vec sums[LANES];
  for (int i = 0; i < LANES; i++)
    sums[i] = __builtin_convertvector(high[i], vec) * 32768 + __builtin_convertvector(low[i], vec);
  transpose(sums);
  for (int i = 1; i < LANES; i++) sums[0] += sums[i];
  return sums[0] * x.unit;
}
#endif
