#include "activation.h"
#include "few_rows.h"
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

template <class Expect, class Take>
static void multiply_by_weight(Team& team, const float* x, const float* weight, float* scratch, i64 N, i64 O, i64 I,
                               Expect expect, Take take) {
  if (N < FEW_ROWS)
    return multiply_few_rows(team, x, weight, N, O, I, [&](i64 row, i64 col, auto lanes, vec product) {
      take(row, col, lanes, product, true, true);
    });
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
