// Small matrices, which stay in the cache: C (+)= A B read where they lie, and turning rows into columns.
#pragma once
#include "simd.h"

// The tile of C that is held in registers: rows, and vectors of columns.
constexpr int PRODUCT_ROWS = LANES == 16 ? 8 : 4, PRODUCT_VECS = 2;

// Element [i,j] is at[i * row + j * col].
struct View {
  const float* at;
  i64 row, col;
};

enum Into { OVERWRITE, ADD };

template <int ROWS, int VECS, class Lanes>
static void product_tile(View a, const float* b, i64 b_row, float* c, i64 c_row, i64 depth, Into into, Lanes lanes) {
  vec sum[ROWS][VECS];
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < VECS; v++) sum[r][v] = into == ADD ? load(c + r * c_row + v * LANES, lanes) : vec{};
  for (i64 k = 0; k < depth; k++) {
    vec row[VECS];
    for (int v = 0; v < VECS; v++) row[v] = load(b + k * b_row + v * LANES, lanes);
    for (int r = 0; r < ROWS; r++) {
      vec factor = splat(a.at[r * a.row + k * a.col]);
      for (int v = 0; v < VECS; v++) {
        sum[r][v] = fma(factor, row[v], sum[r][v]);
        done(sum[r][v]);
      }
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < VECS; v++) store(c + r * c_row + v * LANES, sum[r][v], lanes);
}

// ROWS rows of C, all columns.
template <int ROWS>
static void product_rows(View a, const float* b, i64 b_row, float* c, i64 c_row, i64 cols, i64 depth, Into into) {
  i64 at = 0;
  for (; at + PRODUCT_VECS * LANES <= cols; at += PRODUCT_VECS * LANES)
    product_tile<ROWS, PRODUCT_VECS>(a, b + at, b_row, c + at, c_row, depth, into, Whole{});
  each_vec(at, cols, [&](i64 at, auto lanes) {
    product_tile<ROWS, 1>(a, b + at, b_row, c + at, c_row, depth, into, lanes);
  });
}

// c [rows,cols] (+)= a [rows,depth] b [depth,cols]; rows of b and c lie b_row and c_row floats apart.
static void product(View a, const float* b, i64 b_row, float* c, i64 c_row, i64 rows, i64 cols, i64 depth, Into into) {
  i64 r = 0;
  for (; r + PRODUCT_ROWS <= rows; r += PRODUCT_ROWS, a.at += PRODUCT_ROWS * a.row)
    product_rows<PRODUCT_ROWS>(a, b, b_row, c + r * c_row, c_row, cols, depth, into);
  for (; r < rows; r++, a.at += a.row) product_rows<1>(a, b, b_row, c + r * c_row, c_row, cols, depth, into);
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
