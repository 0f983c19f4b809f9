// C = A B by register tiles: what the linear kernels share.
//
// B is packed by the whole team into panels of PANEL columns, [k][PANEL] each, zero-padded. Every thread then
// takes its share of the tiles (TILE_ROWS x PANEL of C); it copies the tile's rows of A next to each other and
// multiplies them with one panel after the other, DEPTH steps of k at a time. Between such blocks of k the sums
// wait in C. Every element of C belongs to one thread and is summed in the same order whatever the team.
#pragma once
#include "simd.h"

#if LANES == 16
constexpr int TILE_ROWS = 12, TILE_VECS = 2;
#elif LANES == 8
constexpr int TILE_ROWS = 6, TILE_VECS = 2;
#else
constexpr int TILE_ROWS = 6, TILE_VECS = 2;
#endif
constexpr int PANEL = TILE_VECS * LANES;
constexpr int DEPTH = 384;
constexpr i64 GROUP_FLOATS = 96 * 1024;  // panels multiplied by all rows before the next: they stay in the L2 cache

// A tile's rows of A for one block of k, at places known when compiling: a thread's own copy.
struct RowMajorA {
  static constexpr int ROW_STRIDE = DEPTH + 16, K_STRIDE = 1;  // + 16: rows must not share a cache set
  float at[TILE_ROWS * ROW_STRIDE + LANES];
};
struct ColumnMajorA {
  static constexpr int ROW_STRIDE = 1, K_STRIDE = TILE_ROWS;
  float at[DEPTH * TILE_ROWS + LANES];
};

struct Tile {
  float at[TILE_ROWS][PANEL];
  i64 row, col, rows, cols;  // its place in C, and how much of it lies inside
};

INLINE void copy(float* to, const float* from, i64 count) {
  i64 i = 0;
  for (; i + LANES <= count; i += LANES) store(to + i, load(from + i));
  if (i < count) store_some(to + i, load_some(from + i, count - i), count - i);
}

// tile = a panel, over `depth` steps of k.
template <class A>
static void multiply(const A& a, const float* panel, i64 depth, Tile& tile) {
  vec sum[TILE_ROWS][TILE_VECS] = {};
  const float* next = a.at;
#pragma unroll 4
  for (i64 k = 0; k < depth; k++, next += A::K_STRIDE, panel += PANEL) {
    vec b[TILE_VECS];
#pragma unroll
    for (int v = 0; v < TILE_VECS; v++) b[v] = load(panel + v * LANES);
#pragma unroll
    for (int r = 0; r < TILE_ROWS; r++)
#pragma unroll
      for (int v = 0; v < TILE_VECS; v++) sum[r][v] = fma(splat(next[r * A::ROW_STRIDE]), b[v], sum[r][v]);
  }
#pragma unroll
  for (int r = 0; r < TILE_ROWS; r++)
#pragma unroll
    for (int v = 0; v < TILE_VECS; v++) store(&tile.at[r][v * LANES], sum[r][v]);
}

// This thread's tiles of C [rows, cols] for one block of k: `depth` of `all_depth` steps. Which tiles are whose
// must not depend on the block, for the sums stay in C. Panels lie `panel_stride` apart.
// fetch(a, tile) copies the tile's rows of A; finish(tile) takes the product into C.
template <class A, class Fetch, class Finish>
static void multiply_tiles(Team& team, i64 rows, i64 cols, i64 depth, i64 all_depth, const float* panels, i64 panel_stride,
                           Fetch fetch, Finish finish) {
  A a;
  Tile tile;
  i64 row_tiles = ceil_div(rows, TILE_ROWS), panel_count = ceil_div(cols, PANEL);
  i64 group = max_of(1, GROUP_FLOATS / (min_of(all_depth, DEPTH) * PANEL));
  for (i64 first = 0; first < panel_count; first += group) {
    i64 width = min_of(group, panel_count - first);
    Range mine = team.share(row_tiles * width);
    for (i64 item = mine.begin; item < mine.end; item++) {
      i64 panel = first + item % width;
      tile.row = item / width * TILE_ROWS;
      tile.rows = min_of(TILE_ROWS, rows - tile.row);
      tile.col = panel * PANEL;
      tile.cols = min_of(PANEL, cols - tile.col);
      if (item == mine.begin || item % width == 0) fetch(a, tile);
      multiply(a, panels + panel * panel_stride, depth, tile);
      finish(tile);
    }
  }
}

// Calls f(place in C, column, lanes inside, product) for each vector of a tile; C's rows are `stride` apart.
template <class F>
INLINE void for_each_vec(const Tile& tile, i64 stride, F f) {
  for (i64 r = 0; r < tile.rows; r++)
    for (i64 c = 0; c < tile.cols; c += LANES)
      f((tile.row + r) * stride + tile.col + c, tile.col + c, min_of(LANES, tile.cols - c), load(&tile.at[r][c]));
}

// Rows that A has no more of are zeros.
INLINE void copy_rows(RowMajorA& a, const float* from, i64 stride, i64 rows, i64 depth) {
  for (i64 r = 0; r < TILE_ROWS; r++) {
    float* to = a.at + r * RowMajorA::ROW_STRIDE;
    if (r < rows)
      copy(to, from + r * stride, depth);
    else
      for (i64 k = 0; k < depth; k += LANES) store(to + k, vec{});
  }
}

// From A's transpose. Adds up each row on the way.
INLINE void copy_columns(ColumnMajorA& a, const float* from, i64 stride, i64 rows, i64 depth, float* sums) {
  constexpr int VECS = (TILE_ROWS + LANES - 1) / LANES;
  vec sum[VECS] = {};
  for (i64 k = 0; k < depth; k++)
    for (int v = 0; v < VECS; v++) {
      i64 inside = min_of(LANES, rows - v * LANES);
      vec column = inside > 0 ? load_some(from + k * stride + v * LANES, inside) : vec{};
      store(a.at + k * TILE_ROWS + v * LANES, column);  // what it writes past TILE_ROWS, the next k overwrites
      sum[v] += column;
    }
  for (int v = 0; v < VECS; v++) store(sums + v * LANES, sum[v]);
}

// Packs B [depth, cols] into panels: this thread's share of its rows.
static void pack_rows(Team& team, const float* b, i64 depth, i64 cols, float* panels) {
  Range mine = team.share(depth);
  for (i64 k = mine.begin; k < mine.end; k++)
    for (i64 col = 0; col < cols; col += PANEL) {
      float* to = panels + col * depth + k * PANEL;
      for (int v = 0; v < PANEL; v += LANES) {
        i64 inside = min_of(LANES, cols - col - v);
        store(to + v, inside > 0 ? load_some(b + k * cols + col + v, inside) : vec{});
      }
    }
}

// Packs B given as its transpose [cols, depth]: this thread's share of squares of LANES x LANES.
static void pack_columns(Team& team, const float* b, i64 depth, i64 cols, float* panels) {
  i64 steps = ceil_div(depth, LANES);
  Range mine = team.share(ceil_div(cols, PANEL) * TILE_VECS * steps);
  for (i64 item = mine.begin; item < mine.end; item++) {
    i64 col = item / steps * LANES, k = item % steps * LANES;
    i64 inside = min_of(LANES, cols - col), count = min_of(LANES, depth - k);
    vec square[LANES];
    for (int i = 0; i < LANES; i++) {
      const float* from = b + (col + i) * depth + k;
      square[i] = i < inside ? load_some(from, count) : vec{};
    }
    transpose(square);
    float* to = panels + col / PANEL * PANEL * depth + k * PANEL + col % PANEL;
    for (int i = 0; i < LANES; i++)
      if (i < count) store(to + i * PANEL, square[i]);
  }
}
