#include "activation.h"
#include "gemm.h"
#include "simd.h"

constexpr i64 FEW_ROWS = 16;  // fewer are not worth packing the weights

// C = A B. Where there are several blocks of k, the sums so far wait in c.
// begin(place, col, lanes) is what the products are added to, end(place, lanes, value) stores the result.
template <class GetPanels, class Expect, class Begin, class End>
static void multiply_rows(Team& team, const float* a, i64 rows, i64 cols, i64 depth, GetPanels panels, float* c,
                          Expect expect, Begin begin, End end) {
  multiply<RowsOfA>(team, {a, depth}, rows, cols, depth, panels, expect,
                    [&](const Tile& tile, const RowsOfA&, i64 k, bool last) {
                      for_each_vec(tile, cols, [&](i64 place, i64 col, auto lanes, vec product) {
                        vec value = product + (k == 0 ? begin(place, col, lanes) : load(c + place, lanes));
                        if (last)
                          end(place, lanes, value);
                        else
                          store(c + place, value, lanes);
                      });
                    });
}

// x [depth] times LANES rows of b, of which `rows` are there.
__attribute__((noinline)) static vec dot_products(const float* x, const float* b, i64 rows, i64 depth) {
  vec sums[LANES] = {};
  each_vec(0, depth, [&](i64 k, auto lanes) {
    vec some = load(x + k, lanes);
#pragma unroll
    for (int i = 0; i < LANES; i++) sums[i] = fma(some, load(b + min_of(i, rows - 1) * depth + k, lanes), sums[i]);
  });
  transpose(sums);
  for (int i = 1; i < LANES; i++) sums[0] += sums[i];
  return sums[0];
}

// The same for a few rows, with B as its transpose [cols, depth].
template <class Begin, class End>
static void multiply_few_rows(Team& team, const float* a, const float* b, i64 rows, i64 cols, i64 depth, Begin begin,
                              End end) {
  Range mine = team.share(ceil_div(cols, LANES));
  each_vec(mine.begin * LANES, min_of(mine.end * LANES, cols), [&](i64 col, auto lanes) {
    for (i64 row = 0; row < rows; row++) {
      i64 place = row * cols + col;
      vec product = dot_products(a + row * depth, b + col * depth, cols - col, depth);
      end(place, lanes, product + begin(place, col, lanes));
    }
  });
}

template <class Expect, class Begin, class End>
static void multiply_by_weight(Team& team, const float* x, const float* weight, float* scratch, i64 N, i64 O, i64 I,
                               float* y, Expect expect, Begin begin, End end) {
  if (N < FEW_ROWS) return multiply_few_rows(team, x, weight, N, O, I, begin, end);
  pack_transposed(team, weight, O, I, scratch);
  team.meet();
  multiply_rows(
      team, x, N, O, I, [&](i64 k, i64 block) { return packed_panels(scratch, O, k, block); }, y, expect, begin, end);
}

static void linear(const linear_args& a, Team& team) {
  multiply_by_weight(
      team, a.x, a.weight, a.scratch, a.N, a.O, a.I, a.y,
      [&](i64 place) {
        __builtin_prefetch(a.y + place, 1);
        if (a.residual) __builtin_prefetch(a.residual + place);
      },
      [&](i64 place, i64 col, auto lanes) {
        vec value = a.bias ? load(a.bias + col, lanes) : vec{};
        return a.residual ? value + load(a.residual + place, lanes) : value;
      },
      [&](i64 place, auto lanes, vec value) { store(a.y + place, value, lanes); });
}

template <int KIND>
static void linear_activation_of(const linear_activation_args& a, Team& team) {
  multiply_by_weight(
      team, a.x, a.weight, a.scratch, a.N, a.O, a.I, a.y,
      [&](i64 place) {
        __builtin_prefetch(a.y + place, 1);
        if (a.slope) __builtin_prefetch(a.slope + place, 1);
      },
      [&](i64, i64 col, auto lanes) { return a.bias ? load(a.bias + col, lanes) : vec{}; },
      [&](i64 place, auto lanes, vec h) {
        Activation result = activate<KIND>(h);
        store(a.y + place, result.value, lanes);
        if (a.slope) store(a.slope + place, result.slope, lanes);
      });
}

static void linear_activation(const linear_activation_args& a, Team& team) {
  a.kind == RELU2 ? linear_activation_of<RELU2>(a, team) : linear_activation_of<GELU>(a, team);
}

static void linear_backward_input(const linear_backward_input_args& a, Team& team) {
  multiply_rows(
      team, a.dy, a.N, a.I, a.O, [&](i64 o, i64) { return panels_where_they_lie({a.weight, a.I}, o); }, a.dx,
      [&](i64 place) {
        __builtin_prefetch(a.dx + place, 1);
        if (a.slope) __builtin_prefetch(a.slope + place);
      },
      [](i64, i64, auto) { return vec{}; },
      [&](i64 place, auto lanes, vec value) {
        if (a.slope) value *= load(a.slope + place, lanes);
        store(a.dx + place, value, lanes);
      });
}

static void linear_backward_weight(const linear_backward_weight_args& a, Team& team) {
  multiply<ColumnsOfA>(
      team, {a.dy, a.O}, a.O, a.I, a.N, [&](i64 n, i64) { return panels_where_they_lie({a.x, a.I}, n); },
      [&](i64 place) { __builtin_prefetch(a.dweight + place, 1); },
      [&](const Tile& tile, const ColumnsOfA& dy, i64 n, bool) {
        bool add = a.accumulate || n > 0;
        for_each_vec(tile, a.I, [&](i64 place, i64, auto lanes, vec product) {
          store(a.dweight + place, add ? product + load(a.dweight + place, lanes) : product, lanes);
        });
        if (a.dbias && tile.col == 0)
          for (i64 r = 0; r < tile.rows; r++) {
            float& sum = a.dbias[tile.row + r];
            sum = add ? sum + dy.sums[r] : dy.sums[r];
          }
      });
}
