// What stands between an MLP's two matmuls, on its own.
#include "activation.h"

template <int KIND>
static void activation_of(const activation_args& a, Team& team) {
  Range rows = team.share(a.N);
  each_vec(rows.begin * a.F, rows.end * a.F, [&](i64 i, auto lanes) {
    store(a.y + i, activate<KIND>(load(a.x + i, lanes)).value, lanes);
  });
}

template <int KIND>
static void activation_backward_of(const activation_backward_args& a, Team& team) {
  Range rows = team.share(a.N);
  each_vec(rows.begin * a.F, rows.end * a.F, [&](i64 i, auto lanes) {
    store(a.dx + i, load(a.dy + i, lanes) * activate<KIND>(load(a.x + i, lanes)).slope, lanes);
  });
}

static void activation(const activation_args& a, Team& team) {
  a.kind == RELU2 ? activation_of<RELU2>(a, team) : activation_of<GELU>(a, team);
}

static void activation_backward(const activation_backward_args& a, Team& team) {
  a.kind == RELU2 ? activation_backward_of<RELU2>(a, team) : activation_backward_of<GELU>(a, team);
}
