#include "activation.h"
#include "gemm.h"
#include "simd.h"

// C = A B. Where there are several blocks of k, the sums so far wait in C.
// take(row, col, lanes, product, first, last) is given the products of each block, and whether it is the first or last.
template <class GetPanels, class Expect, class Take>
static void multiply_rows(Team& team, Matrix a, i64 rows, i64 cols, i64 depth, GetPanels panels, Expect expect,
                          Take take) {
  multiply<RowsOfA>(team, a, rows, cols, depth, panels, expect,
                    [&](const Tile& tile, const RowsOfA&, i64 k, i64 block) {
                      for_each_vec(tile, [&](i64 row, i64 col, auto lanes, vec product) {
                        take(row, col, lanes, product, k == 0, k + block == depth);
                      });
                    });
}

constexpr int TOGETHER = 4;  // rows of x that meet a weight when it is loaded
constexpr i64 AHEAD = 16;    // rows of b before they are needed
// Rows of b that are read side by side, and the sums that each is added to by turns. In WebAssembly memory cannot be
// asked for, and the CPU sees coming only what is read in its order: there it is a row at a time.
#if LANES == 4
constexpr int ABREAST = 1, SUMS = 4;
#else
constexpr int ABREAST = 8, SUMS = 1;
#endif

// ROWS rows of x [depth] times LANES rows of b, of which `rows` are there. Each sum has the same order whatever ROWS is.
// Rows of b that come later are asked for: no CPU sees them coming beyond the end of a page.
template <int ROWS>
__attribute__((noinline)) static void dot_products(const float* x, const float* b, i64 rows, i64 depth,
                                                   vec (&products)[ROWS]) {
  constexpr int WIDE = ABREAST == 1 || ROWS == 1 ? ABREAST : 4;
  vec sums[ROWS][LANES];
  for (int first = 0; first < LANES; first += WIDE) {
    const float* at[WIDE];
    for (int i = 0; i < WIDE; i++) at[i] = b + min_of(first + i, rows - 1) * depth;
    vec some[ROWS][WIDE][SUMS] = {};
    auto add = [&](i64 k, int sum, auto lanes) __attribute__((always_inline)) {
      vec weights[WIDE];
#pragma unroll
      for (int i = 0; i < WIDE; i++) {
        weights[i] = load(at[i] + k, lanes);
        if (k % CACHE_LINE == 0) __builtin_prefetch(at[i] + AHEAD * depth + k, 0, 2);
      }
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        vec mine = load(x + r * depth + k, lanes);
#pragma unroll
        for (int i = 0; i < WIDE; i++) some[r][i][sum] = fma(mine, weights[i], some[r][i][sum]);
      }
    };
    i64 k = 0;
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
    products[r] = sums[r][0];
  }
}

// The same for a few rows, with B as its transpose [cols, depth].
template <class Take>
static void multiply_few_rows(Team& team, const float* a, const float* b, i64 rows, i64 cols, i64 depth, Take take) {
  Range mine = team.share(ceil_div(cols, LANES));
  each_vec(mine.begin * LANES, min_of(mine.end * LANES, cols), [&](i64 col, auto lanes) {
    i64 row = 0;
    for (; row + TOGETHER <= rows; row += TOGETHER) {
      vec products[TOGETHER];
      dot_products(a + row * depth, b + col * depth, cols - col, depth, products);
      for (int r = 0; r < TOGETHER; r++) take(row + r, col, lanes, products[r], true, true);
    }
    for (; row < rows; row++) {
      vec products[1];
      dot_products(a + row * depth, b + col * depth, cols - col, depth, products);
      take(row, col, lanes, products[0], true, true);
    }
  });
}

template <class Expect, class Take>
static void multiply_by_weight(Team& team, const float* x, const float* weight, float* scratch, i64 N, i64 O, i64 I,
                               Expect expect, Take take) {
  if (N < FEW_ROWS) return multiply_few_rows(team, x, weight, N, O, I, take);
  pack_transposed(team, weight, O, I, scratch);
  team.meet();
  multiply_rows(
      team, {x, I}, N, O, I, [&](i64 k, i64 block) { return packed_panels(scratch, O, k, block); }, expect, take);
}

static void linear(const linear_args& a, Team& team) {
  auto y_at = [&](i64 row, i64 col) { return a.y + row * a.y_pitch + col; };
  multiply_by_weight(
      team, a.x, a.weight, a.scratch, a.N, a.O, a.I,
      [&](i64 row, i64 col) {
        Matrix out{y_at(row, col), a.y_pitch};
        return Expected{out, a.residual ? Matrix{a.residual + row * a.O + col, a.O} : out};
      },
      [&](i64 row, i64 col, auto lanes, vec product, bool first, bool) {
        float* y = y_at(row, col);
        vec before{};
        if (first) {
          if (a.bias) before = load(a.bias + col, lanes);
          if (a.residual) before += load(a.residual + row * a.O + col, lanes);
          if (a.accumulate) before += load(y, lanes);
        } else {
          before = load(y, lanes);
        }
        store(y, product * a.scale + before, lanes);
      });
}

template <int KIND>
static void linear_activation_of(const linear_activation_args& a, Team& team) {
  multiply_by_weight(
      team, a.x, a.weight, a.scratch, a.N, a.O, a.I,
      [&](i64 row, i64 col) {
        i64 place = row * a.O + col;
        const float* with = a.slope ? a.slope : a.residual ? a.residual : a.y;
        return Expected{{a.y + place, a.O}, {with + place, a.O}};
      },
      [&](i64 row, i64 col, auto lanes, vec product, bool first, bool last) {
        i64 place = row * a.O + col;
        vec before{};
        if (first) {
          if (a.bias) before = load(a.bias + col, lanes);
          if (a.residual) before += load(a.residual + place, lanes);
        } else {
          before = load(a.y + place, lanes);
        }
        vec h = product + before;
        if (!last) return store(a.y + place, h, lanes);
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
      team, {a.dy, a.dy_pitch}, a.N, a.I, a.O,
      [&](i64 o, i64) { return panels_where_they_lie({a.weight, a.I}, o); },
      [&](i64 row, i64 col) {
        i64 place = row * a.I + col;
        return Expected{{a.dx + place, a.I}, {(a.slope ? a.slope : a.dx) + place, a.I}};
      },
      [&](i64 row, i64 col, auto lanes, vec product, bool first, bool last) {
        i64 place = row * a.I + col;
        vec sum = product * a.scale;
        if (a.accumulate && a.slope) sum *= load(a.slope + place, lanes);  // what was there before must not meet it
        sum += first && !a.accumulate ? vec{} : load(a.dx + place, lanes);
        if (!a.accumulate && last && a.slope) sum *= load(a.slope + place, lanes);
        store(a.dx + place, sum, lanes);
      });
}

static void linear_backward_weight(const linear_backward_weight_args& a, Team& team) {
  multiply<ColumnsOfA>(
      team, {a.dy, a.dy_pitch}, a.O, a.I, a.N, [&](i64 n, i64) { return panels_where_they_lie({a.x, a.I}, n); },
      [&](i64 row, i64 col) {
        Matrix out{a.dweight + row * a.I + col, a.I};
        return Expected{out, out};
      },
      [&](const Tile& tile, const ColumnsOfA& dy, i64 n, i64 block) {
        bool add = a.accumulate || n > 0;
        for_each_vec(tile, [&](i64 row, i64 col, auto lanes, vec product) {
          float* dweight = a.dweight + row * a.I + col;
          store(dweight, add ? product + load(dweight, lanes) : product, lanes);
        });
        if (!a.dbias || tile.col != 0) return;
        float sums[ColumnsOfA::VECS * LANES];
        dy.sums(block, sums);
        for (i64 r = 0; r < tile.rows; r++) {
          float& sum = a.dbias[tile.row + r];
          sum = add ? sum + sums[r] : sums[r];
        }
      });
}
