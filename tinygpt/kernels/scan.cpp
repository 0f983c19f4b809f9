// A gated recurrence along a window, its gradients, and one row of it. Columns are independent of each other.
#include "args.h"
#include "vecmath.h"

constexpr i64 SCAN_COLUMNS = 16;  // that a thread takes at a time

// f(window, first column, last) for this thread's share of the windows' columns.
template <class F>
INLINE void each_strip(i64 B, i64 C, Team& team, F f) {
  i64 strips = ceil_div(C, SCAN_COLUMNS);
  Range mine = team.share(B * strips);
  for (i64 i = mine.begin; i < mine.end; i++) {
    i64 first = i % strips * SCAN_COLUMNS;
    f(i / strips, first, min_of(first + SCAN_COLUMNS, C));
  }
}

static void scan(const scan_args& a, Team& team) {
  each_strip(a.B, a.C, team, [&](i64 b, i64 first, i64 last) {
    each_vec(first, last, [&](i64 c, auto lanes) {
      vec state{};
      for (i64 at = b * a.T * a.C + c, t = 0; t < a.T; t++, at += a.C) {
        Sigmoid z = sigmoid(load(a.gate + at, lanes));
        state = fma(z.rest, state, z.value * load(a.value + at, lanes));
        store(a.y + at, state, lanes);
      }
    });
  });
}

static void scan_backward(const scan_backward_args& a, Team& team) {
  each_strip(a.B, a.C, team, [&](i64 b, i64 first, i64 last) {
    each_vec(first, last, [&](i64 c, auto lanes) {
      vec passed{};
      for (i64 t = a.T - 1, at = (b * a.T + t) * a.C + c; t >= 0; t--, at -= a.C) {
        Sigmoid z = sigmoid(load(a.gate + at, lanes));
        vec before = t ? load(a.y + at - a.C, lanes) : vec{};
        vec d = load(a.dy + at, lanes) + passed;
        passed = z.rest * d;
        store(a.dvalue + at, z.value * d, lanes);
        store(a.dgate + at, (load(a.value + at, lanes) - before) * z.value * passed, lanes);
      }
    });
  });
}

static void scan_one(const scan_one_args& a, Team& team) {
  each_strip(a.R, a.C, team, [&](i64 r, i64 first, i64 last) {
    each_vec(first, last, [&](i64 c, auto lanes) {
      i64 at = r * a.C + c;
      Sigmoid z = sigmoid(load(a.gate + at, lanes));
      store(a.y + at, fma(z.rest, load(a.state + at, lanes), z.value * load(a.value + at, lanes)), lanes);
    });
  });
}

static void scan_keep(const scan_keep_args& a, Team& team) {
  if (team.thread != 0) return;
  i64 rows = a.row ? 1 : a.N, row = a.row ? a.row[0] : 0;
  const float* from = a.row ? a.x + (i64)a.position[row] * a.C : a.x;
  each_vec(0, rows * a.C, [&](i64 i, auto lanes) { store(a.state + row * a.C + i, load(from + i, lanes), lanes); });
}
