// A few rows times weights, which are read where they lie: floats, or what is made floats as it comes.
#pragma once
#include "fixed_rows.h"
#include "simd.h"

constexpr int TOGETHER = 4;  // rows of x that meet a weight when it is loaded
constexpr i64 AHEAD = 16;    // rows of b before they are needed
// Rows of b that are read side by side, and the sums that each is added to by turns. In WebAssembly memory cannot be
// asked for, and the CPU sees coming only what is read in its order: there it is a row at a time.
#if LANES == 4
constexpr int ABREAST = 1, SUMS = 4;
#else
constexpr int ABREAST = 8, SUMS = 1;
#endif

typedef i8 bytes_vec __attribute__((vector_size(LANES)));

INLINE vec widened(const i8* p, Whole) {
  bytes_vec bytes;
  __builtin_memcpy(&bytes, p, LANES);
  return __builtin_convertvector(bytes, vec);
}
INLINE vec widened(const i8* p, Part part) {
  vec v{};
  for (int i = 0; i < LANES; i++)
    if (i < part.count) v[i] = p[i];
  return v;
}

#if LANES == 4 && !defined(__aarch64__)
// By hand: a float's exponent has three bits more, and is larger by 112. (There is neither infinity nor NaN among them.)
typedef unsigned short halves_vec __attribute__((vector_size(2 * LANES)));
INLINE vec floats_of(halves_vec halves) {
  ivec bits = __builtin_convertvector(halves, ivec) << 16 >> 3 & (i32)0x8fffffff;
  return (vec)bits * 0x1p112f;
}
#else
typedef _Float16 halves_vec __attribute__((vector_size(2 * LANES)));
INLINE vec floats_of(halves_vec halves) { return __builtin_convertvector(halves, vec); }
#endif
INLINE vec widened(const half* p, Whole) {
  halves_vec halves;
  __builtin_memcpy(&halves, p, sizeof(halves));
  return floats_of(halves);
}
INLINE vec widened(const half* p, Part part) {
  half some[LANES] = {};
  for (int i = 0; i < LANES; i++)
    if (i < part.count) some[i] = p[i];
  return widened(some, Whole{});
}

// A vector of weights, times UNIT, a power of two.
template <class W>
constexpr float UNIT = 1;
template <class Lanes>
INLINE vec load_weights(const float* p, Lanes lanes) {
  return load(p, lanes);
}
#if LANES == 4
template <>
constexpr float UNIT<i8> = 1 << 24;
#endif
template <class Lanes>
INLINE vec load_weights(const i8* p, Lanes lanes) {
  return widened(p, lanes) * UNIT<i8>;
}

template <class Lanes>
INLINE vec load_weights(const half* p, Lanes lanes) {
  return widened(p, lanes);
}

#if LANES == 4
// SUMS vectors of them at once, where there is no instruction that widens four bytes: each becomes the highest of a word
// by two interleavings with zeros, and one instruction interleaves for all of a vector.
INLINE void load_together(const i8* p, vec (&to)[SUMS]) {
  typedef i8 b16 __attribute__((vector_size(16)));
  typedef short h8 __attribute__((vector_size(16)));
  b16 bytes, none{};
  __builtin_memcpy(&bytes, p, 16);
  h8 zeros{}, halves[2] = {
      (h8)__builtin_shufflevector(none, bytes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
      (h8)__builtin_shufflevector(none, bytes, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    ivec low = (ivec)__builtin_shufflevector(zeros, halves[i], 0, 8, 1, 9, 2, 10, 3, 11);
    ivec high = (ivec)__builtin_shufflevector(zeros, halves[i], 4, 12, 5, 13, 6, 14, 7, 15);
    to[2 * i] = __builtin_convertvector(low, vec);
    to[2 * i + 1] = __builtin_convertvector(high, vec);
  }
}
#endif

// ROWS rows of x [depth] times LANES rows of b, of which `rows` are there. Each sum has the same order whatever ROWS is.
// Rows of b that come later are asked for: no CPU sees them coming beyond the end of a page. (Products leave as floats:
// within a template a vector's type forgets that it may lie anywhere.)
template <int ROWS, class W>
__attribute__((noinline)) static void dot_products(const float* x, const W* b, i64 rows, i64 depth,
                                                   float (&products)[ROWS][LANES]) {
  constexpr int WIDE = ABREAST == 1 || ROWS == 1 ? ABREAST : 4;
  constexpr i64 LINE_WEIGHTS = CACHE_LINE * sizeof(float) / sizeof(W);
  vec sums[ROWS][LANES];
  for (int first = 0; first < LANES; first += WIDE) {
    const W* at[WIDE];
    for (int i = 0; i < WIDE; i++) at[i] = b + min_of(first + i, rows - 1) * depth;
    vec some[ROWS][WIDE][SUMS] = {};
    auto add = [&](i64 k, int sum, auto lanes) __attribute__((always_inline)) {
      vec weights[WIDE];
#pragma unroll
      for (int i = 0; i < WIDE; i++) {
        weights[i] = load_weights(at[i] + k, lanes);
        if (k % LINE_WEIGHTS == 0) __builtin_prefetch(at[i] + AHEAD * depth + k, 0, 2);
      }
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        vec mine = load(x + r * depth + k, lanes);
#pragma unroll
        for (int i = 0; i < WIDE; i++) some[r][i][sum] = fma(mine, weights[i], some[r][i][sum]);
      }
    };
    i64 k = 0;
#if LANES == 4
    if constexpr (sizeof(W) == 1)
      for (; k + SUMS * LANES <= depth; k += SUMS * LANES) {
        vec weights[SUMS];
        load_together(at[0] + k, weights);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int sum = 0; sum < SUMS; sum++) {
            some[r][0][sum] = fma(load(x + r * depth + k + sum * LANES), weights[sum], some[r][0][sum]);
            done(some[r][0][sum]);
          }
      }
#endif
    for (; k + SUMS * LANES <= depth; k += SUMS * LANES)
#pragma unroll
      for (int sum = 0; sum < SUMS; sum++) add(k + sum * LANES, sum, Whole{});
    each_vec(k, depth, [&](i64 k, auto lanes) { add(k, 0, lanes); });
    for (int r = 0; r < ROWS; r++)
      for (int i = 0; i < WIDE; i++) {
        for (int sum = 1; sum < SUMS; sum++) some[r][i][0] += some[r][i][sum];
        sums[r][first + i] = some[r][i][0];
      }
  }
  for (int r = 0; r < ROWS; r++) {
    transpose(sums[r]);
    for (int i = 1; i < LANES; i++) sums[r][0] += sums[r][i];
    store(products[r], sums[r][0] * (1 / UNIT<W>));
  }
}

// a [rows, depth] times the transpose of b [cols, depth]: take(row, col, lanes, products) for every row of vectors.
template <class W, class Take>
static void multiply_few_rows(Team& team, const float* a, const W* b, i64 rows, i64 cols, i64 depth, Take take) {
  Range mine = team.share(ceil_div(cols, LANES));
  each_vec(mine.begin * LANES, min_of(mine.end * LANES, cols), [&](i64 col, auto lanes) {
    i64 row = 0;
    for (; row + TOGETHER <= rows; row += TOGETHER) {
      float products[TOGETHER][LANES];
      dot_products(a + row * depth, b + col * depth, cols - col, depth, products);
      for (int r = 0; r < TOGETHER; r++) take(row + r, col, lanes, load(products[r]));
    }
    for (; row < rows; row++) {
      float products[1][LANES];
      dot_products(a + row * depth, b + col * depth, cols - col, depth, products);
      take(row, col, lanes, load(products[0]));
    }
  });
}

#if defined(__wasm_simd128__)
template <class Take>
static void multiply_fixed_rows(Team& team, const float* a, const i8* b, i64 rows, i64 cols, i64 depth, Take take) {
  Range mine = team.share(ceil_div(cols, LANES));
  FixedRow x[TOGETHER];
  for (i64 first = 0; first < rows; first += TOGETHER) {
    i64 count = min_of(TOGETHER, rows - first);
    for (i64 r = 0; r < count; r++) x[r].take(a + (first + r) * depth, depth);
    each_vec(mine.begin * LANES, min_of(mine.end * LANES, cols), [&](i64 col, auto lanes) {
      for (i64 r = 0; r < count; r++)
        take(first + r, col, lanes, fixed_products(x[r], b + col * depth, cols - col, depth));
    });
  }
}
#endif
