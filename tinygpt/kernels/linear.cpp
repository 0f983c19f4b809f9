#include "gelu.h"
#include "gemm.h"
#include "simd.h"

constexpr i64 FEW_ROWS = 4;  // fewer are not worth packing the weights

// C [rows, cols] = A [rows, depth] B, with B in panels. Where A has several blocks of k, the sums so far wait in c.
// begin(place, col, lanes) is what the products are added to, end(place, lanes, value) stores the result.
template <class Begin, class End>
static void multiply_rows(Team& team, const float* a, const float* panels, i64 rows, i64 cols, i64 depth, float* c,
                          Begin begin, End end) {
  for (i64 k = 0; k < depth; k += DEPTH) {
    i64 block = min_of(DEPTH, depth - k);
    multiply_tiles<RowMajorA>(
        team, rows, cols, block, depth, panels + k * PANEL, depth * PANEL,
        [&](RowMajorA& to, const Tile& tile) { copy_rows(to, a + tile.row * depth + k, depth, tile.rows, block); },
        [&](const Tile& tile) {
          for_each_vec(tile, cols, [&](i64 place, i64 col, i64 lanes, vec product) {
            vec value = product + (k == 0 ? begin(place, col, lanes) : load_some(c + place, lanes));
            if (k + DEPTH < depth)
              store_some(c + place, value, lanes);
            else
              end(place, lanes, value);
          });
        });
  }
}

// The same for a few rows, with B as its transpose [cols, depth]: dot products, LANES columns at a time.
template <class Begin, class End>
static void multiply_few_rows(Team& team, const float* a, const float* b, i64 rows, i64 cols, i64 depth, Begin begin,
                              End end) {
  Range mine = team.share(ceil_div(cols, LANES));
  for (i64 col = mine.begin * LANES; col < min_of(mine.end * LANES, cols); col += LANES) {
    i64 lanes = min_of(LANES, cols - col);
    for (i64 row = 0; row < rows; row++) {
      vec sums[LANES] = {};
      for (i64 k = 0; k < depth; k += LANES) {
        i64 count = min_of(LANES, depth - k);
        vec x = load_some(a + row * depth + k, count);
#pragma unroll
        for (int i = 0; i < LANES; i++)
          sums[i] = fma(x, load_some(b + min_of(col + i, cols - 1) * depth + k, count), sums[i]);
      }
      transpose(sums);
      vec value = sums[0];
      for (int i = 1; i < LANES; i++) value += sums[i];
      i64 place = row * cols + col;
      end(place, lanes, value + begin(place, col, lanes));
    }
  }
}

template <class Begin, class End>
static void multiply_by_weight(Team& team, const float* x, const float* weight, float* scratch, i64 N, i64 O, i64 I,
                               float* y, Begin begin, End end) {
  if (N < FEW_ROWS) return multiply_few_rows(team, x, weight, N, O, I, begin, end);
  pack_columns(team, weight, I, O, scratch);
  team.meet();
  multiply_rows(team, x, scratch, N, O, I, y, begin, end);
}

static void linear(const linear_args& a, Team& team) {
  multiply_by_weight(
      team, a.x, a.weight, a.scratch, a.N, a.O, a.I, a.y,
      [&](i64 place, i64 col, i64 lanes) {
        vec value = a.bias ? load_some(a.bias + col, lanes) : vec{};
        return a.residual ? value + load_some(a.residual + place, lanes) : value;
      },
      [&](i64 place, i64 lanes, vec value) { store_some(a.y + place, value, lanes); });
}

static void linear_gelu(const linear_gelu_args& a, Team& team) {
  multiply_by_weight(
      team, a.x, a.weight, a.scratch, a.N, a.O, a.I, a.y,
      [&](i64, i64 col, i64 lanes) { return load_some(a.bias + col, lanes); },
      [&](i64 place, i64 lanes, vec h) {
        Gelu result = gelu(h);
        store_some(a.y + place, result.value, lanes);
        if (a.slope) store_some(a.slope + place, result.slope, lanes);
      });
}

static void linear_backward_input(const linear_backward_input_args& a, Team& team) {
  pack_rows(team, a.weight, a.O, a.I, a.scratch);
  team.meet();
  multiply_rows(
      team, a.dy, a.scratch, a.N, a.I, a.O, a.dx, [](i64, i64, i64) { return vec{}; },
      [&](i64 place, i64 lanes, vec value) {
        if (a.slope) value *= load_some(a.slope + place, lanes);
        store_some(a.dx + place, value, lanes);
      });
}

static void linear_backward_weight(const linear_backward_weight_args& a, Team& team) {
  i64 half = ceil_div(a.I, PANEL) * PANEL * DEPTH;
  for (i64 n = 0; n < a.N; n += DEPTH) {
    i64 block = min_of(DEPTH, a.N - n);
    float* panels = a.scratch + n / DEPTH % 2 * half;  // who is ahead packs one half while others read the other
    pack_rows(team, a.x + n * a.I, block, a.I, panels);
    team.meet();
    bool add = a.accumulate || n > 0;
    multiply_tiles<ColumnMajorA>(
        team, a.O, a.I, block, a.N, panels, block * PANEL,
        [&](ColumnMajorA& to, const Tile& tile) {
          float sums[TILE_ROWS + LANES];
          copy_columns(to, a.dy + n * a.O + tile.row, a.O, tile.rows, block, sums);
          if (a.dbias && tile.col == 0)
            for (i64 r = 0; r < tile.rows; r++) a.dbias[tile.row + r] = add ? a.dbias[tile.row + r] + sums[r] : sums[r];
        },
        [&](const Tile& tile) {
          for_each_vec(tile, a.I, [&](i64 place, i64, i64 lanes, vec product) {
            vec value = add ? product + load_some(a.dweight + place, lanes) : product;
            store_some(a.dweight + place, value, lanes);
          });
        });
  }
}
