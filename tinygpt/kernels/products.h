// Small matrices, which stay in the cache: C (+)= A B read where they lie, and turning rows into columns.
#pragma once
#include "simd.h"

// The tile of C that is held in registers: rows, and vectors of columns.
#if LANES == 16
constexpr int PRODUCT_ROWS = 8;
#elif defined(__wasm_relaxed_simd__)
constexpr int PRODUCT_ROWS = 6;
#else
constexpr int PRODUCT_ROWS = 4;
#endif
constexpr int PRODUCT_VECS = 2;

// Left factors. What is a constant of theirs is folded into loads, which is all that WebAssembly can fold.
struct Rows {
  const float* at;
  i64 step;  // from row to row
  i64 row_step() const { return step; }
  i64 k_step() const { return 1; }
};
template <int STEP>
struct RowsEvery {
  const float* at;
  i64 row_step() const { return STEP; }
  i64 k_step() const { return 1; }
};
struct Columns {  // a transpose, read by its columns
  const float* at;
  i64 step;
  i64 row_step() const { return 1; }
  i64 k_step() const { return step; }
};

enum Into { OVERWRITE, ADD };

template <int ROWS, int VECS, class A, class Lanes>
static void product_tile(A a, const float* b, i64 b_row, float* c, i64 c_row, i64 depth, Into into, Lanes lanes) {
  vec sum[ROWS][VECS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECS; v++) sum[r][v] = into == ADD ? load(c + r * c_row + v * LANES, lanes) : vec{};
#pragma unroll 4
  for (i64 k = 0; k < depth; k++, a.at += a.k_step(), b += b_row) {
    const float *at = opaque(a.at), *row_at = opaque(b);
    vec row[VECS];
#pragma unroll
    for (int v = 0; v < VECS; v++) row[v] = load(row_at + v * LANES, lanes);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      vec factor = splat(at[r * a.row_step()]);
#pragma unroll
      for (int v = 0; v < VECS; v++) {
        sum[r][v] = fma(factor, row[v], sum[r][v]);
        done(sum[r][v]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECS; v++) store(c + r * c_row + v * LANES, sum[r][v], lanes);
}

// As many whole tiles of ROWS rows of C as there are from row `r` on, all columns; moves `r` behind them.
template <int ROWS, class A>
static void product_rows(i64& r, A a, const float* b, i64 b_row, float* c, i64 c_row, i64 rows, i64 cols, i64 depth,
                         Into into) {
  for (; r + ROWS <= rows; r += ROWS) {
    A some = a;
    some.at += r * a.row_step();
    float* to = c + r * c_row;
    i64 at = 0;
    for (; at + PRODUCT_VECS * LANES <= cols; at += PRODUCT_VECS * LANES)
      product_tile<ROWS, PRODUCT_VECS>(some, b + at, b_row, to + at, c_row, depth, into, Whole{});
    each_vec(at, cols, [&](i64 at, auto lanes) {
      product_tile<ROWS, 1>(some, b + at, b_row, to + at, c_row, depth, into, lanes);
    });
  }
}

// c [rows,cols] (+)= a [rows,depth] b [depth,cols]; rows of b and c lie b_row and c_row floats apart.
template <class A>
static void product(A a, const float* b, i64 b_row, float* c, i64 c_row, i64 rows, i64 cols, i64 depth, Into into) {
  i64 r = 0;
  product_rows<PRODUCT_ROWS>(r, a, b, b_row, c, c_row, rows, cols, depth, into);
  if constexpr (PRODUCT_ROWS == 6) {
    product_rows<4>(r, a, b, b_row, c, c_row, rows, cols, depth, into);
    product_rows<2>(r, a, b, b_row, c, c_row, rows, cols, depth, into);
  }
  product_rows<1>(r, a, b, b_row, c, c_row, rows, cols, depth, into);
}

// rows [count, size] times factor -> columns [size][width], zero where rows are missing from whole vectors.
static void to_columns(const float* rows, i64 stride, i64 count, i64 size, float factor, float* columns, i64 width) {
  for (i64 i = 0; i < count; i += LANES)
    each_vec(0, size, [&](i64 d, auto lanes) {
      vec square[LANES];
      for (int j = 0; j < LANES; j++)
        square[j] = i + j < count ? load(rows + (i + j) * stride + d, lanes) * factor : vec{};
      transpose(square);
      for (int j = 0; j < LANES; j++)
        if (d + j < size) store(columns + (d + j) * width + i, square[j]);
    });
}

// And back: columns [size][width], times their factors (a vector of them by its first column) -> rows [count, size].
template <class Factors>
INLINE void to_rows(const float* columns, i64 width, i64 count, i64 size, Factors factors, float* rows, i64 stride) {
  for (i64 i = 0; i < count; i += LANES)
    each_vec(0, size, [&](i64 d, auto lanes) {
      vec square[LANES], factor = factors(i);
      for (int j = 0; j < LANES; j++) square[j] = d + j < size ? load(columns + (d + j) * width + i) * factor : vec{};
      transpose(square);
      for (int j = 0; j < LANES; j++)
        if (i + j < count) store(rows + (i + j) * stride + d, square[j], lanes);
    });
}

// a_i . b_i for LANES rows of which `count` are there; lanes beyond hold what is finite.
static vec row_products(const float* a, i64 a_row, const float* b, i64 b_row, i64 count, i64 D) {
  vec sums[LANES];
  for (i64 j = 0; j < LANES; j++) {
    i64 i = min_of(j, count - 1);
    sums[j] = vec{};
    each_vec(0, D, [&](i64 d, auto lanes) {
      sums[j] = fma(load(a + i * a_row + d, lanes), load(b + i * b_row + d, lanes), sums[j]);
    });
  }
  transpose(sums);
  vec total = sums[0];
  for (int j = 1; j < LANES; j++) total += sums[j];
  return total;
}
