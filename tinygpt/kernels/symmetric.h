// Products that are symmetric: the upper half is computed, the lower half is its mirror image.
#pragma once
#include "gemm.h"

// Calls f(row tile, first vector of columns, vectors) for this thread's share of the tiles that reach the diagonal of a
// square of C rows: of TILE_VECS vectors, but one alone where a row tile is left with an odd number.
template <class F>
static void each_upper_tile(Team& team, i64 C, F f) {
  i64 row_tiles = ceil_div(C, TILE_ROWS), vecs = ceil_div(C, LANES), count = 0, item = 0;
  for (i64 r = 0; r < row_tiles; r++) count += ceil_div(vecs - r * TILE_ROWS / LANES, TILE_VECS);
  Range mine = team.share(count);
  for (i64 r = 0; r < row_tiles; r++)
    for (i64 v = r * TILE_ROWS / LANES; v < vecs; v += TILE_VECS, item++)
      if (mine.begin <= item && item < mine.end) f(r, v, min_of(TILE_VECS, vecs - v));
}

// The upper half of c [C, C] = a [C, depth] b [depth, C], and somewhat more. Rows of b and c lie `stride` floats apart,
// with room for whole vectors. end(place, value, lanes) is what becomes of a sum.
template <class A, class End>
static void multiply_upper(Team& team, Matrix a, const float* b, i64 C, i64 depth, i64 stride, float* c, End end) {
  static_assert(TILE_VECS == 2);
  A part;
  Tile tile;
  i64 full_block = block_depth(depth);
  for (i64 k = 0; k < depth; k += full_block) {
    i64 block = min_of(full_block, depth - k), taken = -1;
    each_upper_tile(team, C, [&](i64 row_tile, i64 v, i64 vecs) {
      tile.row = row_tile * TILE_ROWS;
      tile.rows = min_of(TILE_ROWS, C - tile.row);
      tile.col = v * LANES;
      tile.cols = min_of(PANEL, C - tile.col);
      if (taken != row_tile) part.take(A::part(a, tile.row, k), tile.rows, block);
      taken = row_tile;
      const float* b_panel = b + k * stride + tile.col;
      Matrix out{c + tile.row * stride + tile.col, stride};
      Ahead ahead{b_panel, 0, 1, 1};
      if (vecs == TILE_VECS)
        multiply_tile<false>(part, b_panel, stride, block, PANEL, tile.product, ahead, {out, out});
      else
        multiply_tile<false, 1>(part, b_panel, stride, block, LANES, tile.product, ahead, {out, out});
      for_each_vec(tile, [&](i64 row, i64 col, auto lanes, vec product) {
        i64 place = row * stride + col;
        vec sum = k == 0 ? product : product + load(c + place, lanes);
        store(c + place, k + block == depth ? end(place, sum, lanes) : sum, lanes);
      });
    });
  }
}

// Of a square of LANES x LANES that lies across the diagonal: the upper half and its image.
INLINE void mirror_within(vec (&rows)[LANES], float diagonal) {
  vec image[LANES];
  for (int i = 0; i < LANES; i++) image[i] = rows[i];
  transpose(image);
  for (int i = 0; i < LANES; i++) {
    rows[i] = LANE_NUMBERS >= i ? rows[i] : image[i];
    rows[i] = LANE_NUMBERS == i ? rows[i] + diagonal : rows[i];
  }
}

// c [C, C] = its upper half times `factor`, with `diagonal` added there, and the image of both below.
static void mirror(Team& team, i64 C, i64 stride, float factor, float diagonal, float* c) {
  i64 squares = ceil_div(C, LANES), item = 0;
  Range mine = team.share(squares * (squares + 1) / 2);
  for (i64 i = 0; i < squares; i++)
    for (i64 j = i; j < squares; j++, item++) {
      if (item < mine.begin || item >= mine.end) continue;
      i64 rows = min_of(LANES, C - i * LANES), cols = min_of(LANES, C - j * LANES);
      float *upper = c + (i * stride + j) * LANES, *lower = c + (j * stride + i) * LANES;
      vec square[LANES];
      for (int r = 0; r < LANES; r++) square[r] = r < rows ? load_some(upper + r * stride, cols) * factor : vec{};
      if (i == j) mirror_within(square, diagonal);
      if (i == j || factor != 1)
        for (int r = 0; r < LANES; r++)
          if (r < rows) store_some(upper + r * stride, square[r], cols);
      if (i == j) continue;
      transpose(square);
      for (int r = 0; r < LANES; r++)
        if (r < cols) store_some(lower + r * stride, square[r], rows);
    }
}
