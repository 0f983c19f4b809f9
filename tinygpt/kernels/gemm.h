// C [rows, cols] = A [rows, depth] B [depth, cols] by register tiles: what the linear kernels share.
//
// Every thread takes its share of C's tiles, TILE_ROWS x PANEL each, and multiplies the rows of A that a tile needs
// with one panel of B, PANEL columns, after the other. The depth is cut into equal blocks of at most DEPTH steps of k,
// between which the sums wait in C. Every element of C is summed in the same order whatever the team.
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

// Whether A is read where it lies, and memory asked for between the sums. Narrower tiles than those of 16 lanes would
// read too much of A that they do not need, and have no registers left to ask; WebAssembly folds only constants into
// its loads. There, a tile's part of A is copied, and memory asked for before the sums.
constexpr bool IN_PLACE = LANES == 16;

// Memory that will be needed soon: `lines` next to each other in each of some rows; and, if any, a panel of B that
// lies in rows far apart and is new to this thread.
struct Ahead {
  const float* at;
  i64 stride, lines, rows;
  const float* panel = nullptr;
};

// A tile's rows of A, in a block of k: where they lie, or a copy, zero where rows are missing.
struct RowsOfA {
  static constexpr int OWN_STEP = DEPTH + CACHE_LINE;  // a power of two would crowd a few cache sets
  static constexpr int TOGETHER = IN_PLACE ? 3 : TILE_ROWS;  // rows that are found from one pointer
  static constexpr i64 CROWDED = 1024;  // strides, or multiples of them, at which all rows would share a cache set
  const float* at;
  i64 given_step;
  float own[TILE_ROWS * OWN_STEP];

  i64 row_step() const { return IN_PLACE ? given_step : OWN_STEP; }
  i64 k_step() const { return 1; }

  static Matrix part(Matrix a, i64 row, i64 k) { return {a.at + row * a.stride + k, a.stride}; }

  void take(Matrix from, i64 rows, i64 depth) {
    bool in_place = IN_PLACE && rows == TILE_ROWS && from.stride % CROWDED != 0;
    at = in_place ? from.at : own;
    given_step = in_place ? from.stride : OWN_STEP;
    if (in_place) return;
    for (i64 r = 0; r < TILE_ROWS; r++)
      each_vec(0, depth, [&](i64 k, auto lanes) {
        store(own + r * OWN_STEP + k, r < rows ? load(from.at + r * from.stride + k, lanes) : vec{}, lanes);
      });
  }

  // This share of what a later tile will take.
  static Ahead ahead(Matrix from, i64 rows, i64 depth, i64 share, i64 shares) {
    i64 first = rows * share / shares, count = rows * (share + 1) / shares - first;
    return {from.at + first * from.stride, from.stride, ceil_div(depth, CACHE_LINE), count};
  }
};

// The same from A's transpose [depth, rows].
struct ColumnsOfA {
  static constexpr int TOGETHER = TILE_ROWS;
  static constexpr int VECS = (TILE_ROWS + LANES - 1) / LANES;
  static constexpr i64 CROWDED = 512;
  const float* at;
  i64 given_step;
  float own[DEPTH * TILE_ROWS + LANES];
  float copied_sums[VECS * LANES];

  i64 row_step() const { return 1; }
  i64 k_step() const { return IN_PLACE ? given_step : TILE_ROWS; }

  static Matrix part(Matrix a, i64 row, i64 k) { return {a.at + k * a.stride + row, a.stride}; }

  void take(Matrix from, i64 rows, i64 depth) {
    bool in_place = IN_PLACE && rows == TILE_ROWS && from.stride % CROWDED != 0;
    at = in_place ? from.at : own;
    given_step = in_place ? from.stride : TILE_ROWS;
    if (in_place) return;
    vec sum[VECS] = {};
    for (i64 k = 0; k < depth; k++)
      for (int v = 0; v < VECS; v++) {
        i64 inside = min_of(LANES, rows - v * LANES);
        vec some = inside > 0 ? load_some(from.at + k * from.stride + v * LANES, inside) : vec{};
        store(own + k * TILE_ROWS + v * LANES, some);  // what it writes past TILE_ROWS, the next k overwrites
        sum[v] += some;
      }
    for (int v = 0; v < VECS; v++) store(copied_sums + v * LANES, sum[v]);
  }

  // Each row's sum over the block.
  void sums(i64 depth, float (&to)[VECS * LANES]) const {
    for (int v = 0; v < VECS; v++) {
      vec sum = load(copied_sums + v * LANES);
      if (at != own) {
        sum = vec{};
        i64 inside = min_of(LANES, TILE_ROWS - v * LANES);
        for (i64 k = 0; k < depth; k++) sum += load_some(at + k * k_step() + v * LANES, inside);
      }
      store(to + v * LANES, sum);
    }
  }

  static Ahead ahead(Matrix from, i64 rows, i64 depth, i64 share, i64 shares) {
    i64 first = depth * share / shares;
    return {from.at + first * from.stride + rows - 1, from.stride, 1, depth * (share + 1) / shares - first};
  }
};

// What a tile's product will be taken into, and what is read there.
struct Expected {
  Matrix out, with;
};

static void ask_at_once(const Ahead& ahead, Expected expected, i64 rows) {
  for (i64 r = 0; r < ahead.rows; r++)
    for (i64 line = 0; line < ahead.lines; line++)
      __builtin_prefetch(ahead.at + r * ahead.stride + line * CACHE_LINE, 0, 2);
  for (i64 r = 0; r < rows; r++, expected.out.at += expected.out.stride, expected.with.at += expected.with.stride)
    for (int c = 0; c < PANEL; c += CACHE_LINE) {
      __builtin_prefetch(expected.out.at + c, 1);
      __builtin_prefetch(expected.with.at + c, 0);
    }
}

// `inside`: the columns that a panel has. Only where CUT may they be fewer than its VECS vectors hold.
template <bool CUT, int VECS = TILE_VECS, class A>
__attribute__((noinline)) static void multiply_tile(const A& a, const float* panel, i64 panel_step, i64 depth,
                                                    i64 inside, float (&product)[TILE_ROWS][PANEL], Ahead ahead,
                                                    Expected expected) {
  constexpr int STEPS = 4, POINTERS = TILE_ROWS / A::TOGETHER;
  vec sum[TILE_ROWS][VECS] = {};
  const float* rows[POINTERS];
  i64 row_step = a.row_step(), k_step = a.k_step();
  for (int p = 0; p < POINTERS; p++) rows[p] = a.at + p * A::TOGETHER * row_step;

  auto add_product = [&]() __attribute__((always_inline)) {
    vec b[VECS];
#pragma unroll
    for (int v = 0; v < VECS; v++) {
      i64 count = CUT ? min_of(LANES, inside - v * LANES) : LANES;
      b[v] = !CUT ? load(opaque(panel) + v * LANES) : count > 0 ? load_some(panel + v * LANES, count) : vec{};
    }
#pragma unroll
    for (int p = 0; p < POINTERS; p++) {
      const float* at = in_order(rows[p]);
#pragma unroll
      for (int i = 0; i < A::TOGETHER; i++) {
        vec factor = splat(at[i * row_step]);
#pragma unroll
        for (int v = 0; v < VECS; v++) {
          vec& s = sum[p * A::TOGETHER + i][v];
          s = fma(factor, b[v], s);
          done(s);
        }
      }
      rows[p] = at + k_step;
    }
    panel += panel_step;
  };

  constexpr i64 ASKING = STEPS * TILE_ROWS;  // steps to ask for what is expected; as many are left for it to come
  i64 k = 0, line = 0, ask_from = max_of(0, depth / STEPS * STEPS - 2 * ASKING);
  for (; k + STEPS <= depth; k += STEPS) {
    if constexpr (IN_PLACE) {
      if (k >= ask_from && k < ask_from + ASKING) {
        for (int c = 0; c < PANEL; c += CACHE_LINE) {
          __builtin_prefetch(expected.out.at + c, 1);
          __builtin_prefetch(expected.with.at + c, 0);
        }
        expected.out.at += expected.out.stride;
        expected.with.at += expected.with.stride;
      } else {
        __builtin_prefetch(ahead.at + line * CACHE_LINE, 0, 2);
        if (++line >= ahead.lines) {
          line = 0;
          ahead.at += --ahead.rows > 0 ? ahead.stride : 0;
        }
      }
      if (ahead.panel)
        for (int s = 0; s < STEPS; s++, ahead.panel += panel_step)
          for (int c = 0; c < PANEL; c += CACHE_LINE) __builtin_prefetch(ahead.panel + c, 0, 2);
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) add_product();
  }
  for (; k < depth; k++) add_product();
#pragma unroll
  for (int r = 0; r < TILE_ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECS; v++) store(&product[r][v * LANES], sum[r][v]);
}

INLINE i64 block_depth(i64 depth) {
  i64 blocks = ceil_div(depth, DEPTH);
  return ceil_div(ceil_div(depth, blocks), CACHE_LINE) * CACHE_LINE;
}

// How many vectors of a panel are computed: one, where its columns are no more than that holds.
template <int COUNT>
struct Vecs {
  static constexpr int count = COUNT;
};

// Threads stand in `across` columns of teams, each with its part of the panels and, within, of the rows: what a thread
// reads of A and B together is least where its part of C is about as high as wide.
struct Grid {
  Team column;
  Range panels;

  Grid(const Team& team, i64 rows, i64 panel_count) : column(team) {
    i32 across = 1;
    while (team.threads % (2 * across) == 0 && panel_count % (2 * across) == 0 &&
           2 * across * across * rows < team.threads * panel_count * PANEL)
      across *= 2;
    column.threads = team.threads / across;
    column.thread = team.thread % column.threads;
    column.first = team.thread - column.thread;
    panels = Team{team.thread / column.threads, across, nullptr}.share(panel_count);
  }
};

// panels(k, depth) gives B's block from k on; expect(row, col) says where finish will write and read from there on;
// finish(tile, a, k, block) takes the product of the block from k on into C. Which tiles are a thread's does not depend
// on the block, but of the last one others may do some for it.
template <class A, class GetPanels, class Expect, class Finish>
static void multiply(Team& team, Matrix a, i64 rows, i64 cols, i64 depth, GetPanels panels, Expect expect,
                     Finish finish) {
  A part;
  Tile tile;
  i64 full_block = block_depth(depth);
  i64 row_tiles = ceil_div(rows, TILE_ROWS);
  Grid grid(team, rows, ceil_div(cols, PANEL));
  i64 group = max_of(1, GROUP_FLOATS / (full_block * PANEL));
  for (i64 k = 0; k < depth; k += full_block) {
    i64 block = min_of(full_block, depth - k), number = 0;
    Panels b = panels(k, block);
    for (i64 first = grid.panels.begin; first < grid.panels.end; first += group, number++) {
      i64 width = min_of(group, grid.panels.end - first);
      Range items;
      for (Pieces mine(grid.column, row_tiles * width, k + block == depth ? number : Pieces::ALONE); mine.next(items);)
        for (i64 item = items.begin; item < items.end; item++) {
          i64 panel = first + item % width;
          tile.row = item / width * TILE_ROWS;
          tile.rows = min_of(TILE_ROWS, rows - tile.row);
          tile.col = panel * PANEL;
          tile.cols = min_of(PANEL, cols - tile.col);
          if (item == items.begin || item % width == 0) part.take(A::part(a, tile.row, k), tile.rows, block);
          i64 next = min_of(tile.row + TILE_ROWS, rows - 1);
          Ahead ahead = A::ahead(A::part(a, next, k), min_of(TILE_ROWS, rows - next), block, item % width, width);
          Expected expected = expect(tile.row, tile.col);
          const float* b_panel = b.at + panel * b.panel_step;
          bool met_b = b.padded || item + 1 >= mine.own.begin + width;
          if (!met_b && panel + 1 < first + width) ahead.panel = b_panel + b.panel_step;
          if constexpr (!IN_PLACE) ask_at_once(ahead, expected, tile.rows);
          auto multiply_panel = [&](auto vecs) __attribute__((always_inline)) {
            constexpr int VECS = decltype(vecs)::count;
            if (b.padded || tile.cols == PANEL)
              multiply_tile<false, VECS>(part, b_panel, b.k_step, block, PANEL, tile.product, ahead, expected);
            else
              multiply_tile<true, VECS>(part, b_panel, b.k_step, block, tile.cols, tile.product, ahead, expected);
          };
          tile.cols <= LANES ? multiply_panel(Vecs<1>{}) : multiply_panel(Vecs<TILE_VECS>{});
          finish(tile, part, k, block);
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
