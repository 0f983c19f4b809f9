// C [rows, cols] = A [rows, depth] B [depth, cols] by register tiles: what the linear kernels share.
//
// Every thread takes its share of C's tiles, TILE_ROWS x PANEL each. It copies the rows of A that a tile needs next
// to each other and multiplies them with one panel of B, PANEL columns, after the other. The depth is cut into equal
// blocks of at most DEPTH steps of k, between which the sums wait in C. Every element of C belongs to one thread
// and is summed in the same order whatever the team.
#pragma once
#include "simd.h"

#if LANES == 16 || defined(__aarch64__)  // 32 vector registers
constexpr int TILE_ROWS = 12;
#else
constexpr int TILE_ROWS = 6;
#endif
constexpr int TILE_VECS = 2;
constexpr int PANEL = TILE_VECS * LANES;
static_assert(PANEL <= WIDEST_PANEL && WIDEST_PANEL % PANEL == 0);
constexpr i64 DEPTH = 384;
constexpr i64 GROUP_FLOATS = 160 * 1024;  // panels that meet all of A before the next do: they stay in the L2 cache
constexpr int CACHE_LINE = 16;            // floats

struct Matrix {
  const float* at;
  i64 stride;  // from row to row
};

// B's panels in a block: the first, the way to the next, and from row to row. Read where B lies, the last
// panel may be cut off by the end of the rows; packed, it is padded.
struct Panels {
  const float* at;
  i64 panel_step, k_step;
  bool padded;
};

struct Tile {
  i64 row, col, rows, cols;  // its place in C, and how much of it lies inside
  float product[TILE_ROWS][PANEL];
};

// A tile's rows of A, in a block of k: a thread's own copy, laid out by constants.
struct RowsOfA {
  static constexpr int ROW_STEP = DEPTH + CACHE_LINE, K_STEP = 1;  // a power of two would crowd a few cache sets
  float at[TILE_ROWS * ROW_STEP];

  static Matrix part(Matrix a, i64 row, i64 k) { return {a.at + row * a.stride + k, a.stride}; }

  void copy(Matrix from, i64 rows, i64 depth) {
    for (i64 r = 0; r < TILE_ROWS; r++)
      each_vec(0, depth, [&](i64 k, auto lanes) {
        store(at + r * ROW_STEP + k, r < rows ? load(from.at + r * from.stride + k, lanes) : vec{}, lanes);
      });
  }

  static void prefetch(Matrix from, i64 rows, i64 depth, i64 share, i64 shares) {
    for (i64 r = rows * share / shares; r < rows * (share + 1) / shares; r++)
      for (i64 k = 0; k < depth; k += CACHE_LINE) __builtin_prefetch(from.at + r * from.stride + k, 0, 2);
  }
};

// The same from A's transpose [depth, rows]; with each row's sum.
struct ColumnsOfA {
  static constexpr int ROW_STEP = 1, K_STEP = TILE_ROWS;
  static constexpr int VECS = (TILE_ROWS + LANES - 1) / LANES;
  float at[DEPTH * TILE_ROWS + LANES];
  float sums[VECS * LANES];

  static Matrix part(Matrix a, i64 row, i64 k) { return {a.at + k * a.stride + row, a.stride}; }

  void copy(Matrix from, i64 rows, i64 depth) {
    vec sum[VECS] = {};
    for (i64 k = 0; k < depth; k++)
      for (int v = 0; v < VECS; v++) {
        i64 inside = min_of(LANES, rows - v * LANES);
        vec some = inside > 0 ? load_some(from.at + k * from.stride + v * LANES, inside) : vec{};
        store(at + k * TILE_ROWS + v * LANES, some);  // what it writes past TILE_ROWS, the next k overwrites
        sum[v] += some;
      }
    for (int v = 0; v < VECS; v++) store(sums + v * LANES, sum[v]);
  }

  static void prefetch(Matrix from, i64 rows, i64 depth, i64 share, i64 shares) {
    for (i64 k = depth * share / shares; k < depth * (share + 1) / shares; k++)
      __builtin_prefetch(from.at + k * from.stride + rows - 1, 0, 2);
  }
};

// `inside`: the columns that a panel has. Only where CUT may they be fewer than its VECS vectors hold.
template <bool CUT, int VECS = TILE_VECS, class A>
__attribute__((noinline)) static void multiply_tile(const A& a, const float* panel, i64 k_step, i64 depth, i64 inside,
                                                    float (&product)[TILE_ROWS][PANEL]) {
  vec sum[TILE_ROWS][VECS] = {};
  const float* next = a.at;
#pragma unroll 4
  for (i64 k = 0; k < depth; k++, next += A::K_STEP, panel += k_step) {
    vec b[VECS];
#pragma unroll
    for (int v = 0; v < VECS; v++) {
      i64 count = CUT ? min_of(LANES, inside - v * LANES) : LANES;
      b[v] = !CUT ? load(opaque(panel) + v * LANES) : count > 0 ? load_some(panel + v * LANES, count) : vec{};
    }
    const float* at = opaque(next);
#pragma unroll
    for (int r = 0; r < TILE_ROWS; r++) {
      vec factor = splat(at[r * A::ROW_STEP]);
#pragma unroll
      for (int v = 0; v < VECS; v++) {
        sum[r][v] = fma(factor, b[v], sum[r][v]);
        done(sum[r][v]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < TILE_ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECS; v++) store(&product[r][v * LANES], sum[r][v]);
}

INLINE i64 block_depth(i64 depth) {
  i64 blocks = ceil_div(depth, DEPTH);
  return ceil_div(ceil_div(depth, blocks), CACHE_LINE) * CACHE_LINE;
}

// panels(k, depth) gives B's block from k on; expect(row, col) prefetches what finish will touch at a place of C;
// finish(tile, a, k, last) takes the product of the block from k on into C. Which tiles are a thread's does not
// depend on the block: it is the only one to touch them.
template <class A, class GetPanels, class Expect, class Finish>
static void multiply(Team& team, Matrix a, i64 rows, i64 cols, i64 depth, GetPanels panels, Expect expect,
                     Finish finish) {
  A own;
  Tile tile;
  i64 full_block = block_depth(depth);
  i64 row_tiles = ceil_div(rows, TILE_ROWS), panel_count = ceil_div(cols, PANEL);
  i64 group = max_of(1, GROUP_FLOATS / (full_block * PANEL));
  for (i64 k = 0; k < depth; k += full_block) {
    i64 block = min_of(full_block, depth - k);
    Panels b = panels(k, block);
    for (i64 first = 0; first < panel_count; first += group) {
      i64 width = min_of(group, panel_count - first);
      Range mine = team.share(row_tiles * width);
      for (i64 item = mine.begin; item < mine.end; item++) {
        i64 panel = first + item % width;
        tile.row = item / width * TILE_ROWS;
        tile.rows = min_of(TILE_ROWS, rows - tile.row);
        tile.col = panel * PANEL;
        tile.cols = min_of(PANEL, cols - tile.col);
        if (item == mine.begin || item % width == 0) own.copy(A::part(a, tile.row, k), tile.rows, block);
        i64 row_after = tile.row + TILE_ROWS;
        if (row_after < rows)
          A::prefetch(A::part(a, row_after, k), min_of(TILE_ROWS, rows - row_after), block, item % width, width);
        for (i64 r = 0; r < tile.rows; r++)
          for (i64 c = 0; c < tile.cols; c += CACHE_LINE) expect(tile.row + r, tile.col + c);
        const float* b_panel = b.at + panel * b.panel_step;
        if (b.padded || tile.cols == PANEL)
          multiply_tile<false>(own, b_panel, b.k_step, block, PANEL, tile.product);
        else
          multiply_tile<true>(own, b_panel, b.k_step, block, tile.cols, tile.product);
        finish(tile, own, k, k + block == depth);
      }
    }
  }
}

// Calls f(row, column, lanes, product) for each vector of a tile.
template <class F>
INLINE void for_each_vec(const Tile& tile, F f) {
  for (i64 r = 0; r < tile.rows; r++) {
    auto call = [&](i64 c, auto lanes) { f(tile.row + r, tile.col + c, lanes, load(&tile.product[r][c])); };
    if (tile.cols == PANEL)
      for (int c = 0; c < PANEL; c += LANES) call(c, Whole{});
    else
      each_vec(0, tile.cols, call);
  }
}

INLINE Panels panels_where_they_lie(Matrix b, i64 k) { return {b.at + k * b.stride, PANEL, b.stride, false}; }

INLINE i64 packed_floats(i64 cols, i64 depth) { return ceil_div(cols, PANEL) * PANEL * depth; }

INLINE Panels packed_panels(const float* packed, i64 cols, i64 k, i64 block) {
  return {packed + packed_floats(cols, k), block * PANEL, PANEL, true};
}

// Packs a block of B given as its transpose [cols, depth]: this thread's share of squares of LANES x LANES.
static void pack_block(Team& team, Matrix b, i64 depth, i64 cols, float* panels) {
  i64 steps = ceil_div(depth, LANES);
  Range mine = team.share(ceil_div(cols, PANEL) * TILE_VECS * steps);
  for (i64 item = mine.begin; item < mine.end; item++) {
    i64 col = item / steps * LANES, k = item % steps * LANES;
    i64 count = min_of(LANES, depth - k);
    vec square[LANES];
    for (int i = 0; i < LANES; i++)
      square[i] = col + i < cols ? load_some(b.at + (col + i) * b.stride + k, count) : vec{};
    transpose(square);
    float* to = panels + col / PANEL * PANEL * depth + k * PANEL + col % PANEL;
    for (int i = 0; i < LANES; i++)
      if (i < count) store(to + i * PANEL, square[i]);
  }
}

// Packs all blocks of B, given as its transpose [cols, depth].
static void pack_transposed(Team& team, const float* b, i64 cols, i64 depth, float* packed) {
  i64 full_block = block_depth(depth);
  for (i64 k = 0; k < depth; k += full_block)
    pack_block(team, {b + k, depth}, min_of(full_block, depth - k), cols, packed + packed_floats(cols, k));
}
