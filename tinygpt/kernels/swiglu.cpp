// The gated MLP's activation, silu(gate) up, and its gradients.
#include "args.h"
#include "vecmath.h"

static void swiglu(const swiglu_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float *gate = a.gate_up + n * 2 * a.F, *up = gate + a.F;
    each_vec(0, a.F, [&](i64 f, auto lanes) {
      vec g = load(gate + f, lanes);
      store(a.y + n * a.F + f, g * sigmoid(g).value * load(up + f, lanes), lanes);
    });
  }
}

static void swiglu_backward(const swiglu_backward_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float *gate = a.gate_up + n * 2 * a.F, *up = gate + a.F;
    float *dgate = a.dgate_up + n * 2 * a.F, *dup = dgate + a.F;
    each_vec(0, a.F, [&](i64 f, auto lanes) {
      vec g = load(gate + f, lanes), dy = load(a.dy + n * a.F + f, lanes);
      Sigmoid s = sigmoid(g);
      vec silu = g * s.value;
      store(dgate + f, dy * load(up + f, lanes) * fma(silu, s.rest, s.value), lanes);
      store(dup + f, dy * silu, lanes);
    });
  }
}
