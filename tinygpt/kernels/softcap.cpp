// Soft-capped logits, cap tanh(x / cap), and their gradient.
#include "args.h"
#include "vecmath.h"

// Near 0, where (1 - e) / (1 + e) with e = exp(-2 |z|) would cancel, a minimax fit on [0, 0.6], relative error 2.8e-9.
INLINE vec tanh(vec z) {
  vec size = max_of(z, -z), square = z * z;
  vec p = splat(-5.89515781e-3f);
  p = fma(p, square, splat(2.07959712e-2f));
  p = fma(p, square, splat(-5.37838303e-2f));
  p = fma(p, square, splat(1.33319244e-1f));
  p = fma(p, square, splat(-3.33332986e-1f));
  vec near = fma(z * square, p, z);
  vec e = exp(-2.0f * size), far = (1.0f - e) / (1.0f + e);
  return size < splat(0.6f) ? near : z < vec{} ? -far : far;
}

static void softcap(const softcap_args& a, Team& team) {
  float scale = 1.0f / a.cap;
  Range rows = team.share(a.N);
  each_vec(rows.begin * a.V, rows.end * a.V, [&](i64 i, auto lanes) {
    store(a.y + i, tanh(load(a.x + i, lanes) * scale) * a.cap, lanes);
  });
}

static void softcap_backward(const softcap_backward_args& a, Team& team) {
  float scale = 1.0f / a.cap;
  Range rows = team.share(a.N);
  each_vec(rows.begin * a.V, rows.end * a.V, [&](i64 i, auto lanes) {
    vec z = load(a.x + i, lanes) * scale;
    vec e = exp(-2.0f * max_of(z, -z)), sum = 1.0f + e;
    store(a.dx + i, load(a.dy + i, lanes) * (4.0f * e / (sum * sum)), lanes);
  });
}
