// C (+)= A B for matrices that stay in the cache, read where they lie: what attention is made of.
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
      for (int v = 0; v < VECS; v++) sum[r][v] = fma(factor, row[v], sum[r][v]);
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
