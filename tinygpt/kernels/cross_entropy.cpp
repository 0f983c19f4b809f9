// The loss of each row of logits, and the gradient it starts from.
#include "args.h"
#include "vecmath.h"

constexpr float LOWEST = -3.4e38f;

// How far the row's logits are below `top` on average.
static float mean_below(const float* z, i64 V, float top) {
  vec sums{};
  each_vec(0, V, [&](i64 v, auto lanes) { sums += keep(top - load(z + v, lanes), lanes); });
  return sum_lanes(sums) / (float)V;
}

static void cross_entropy(const cross_entropy_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float* z = a.logits + n * a.V;
    float* dz = a.dlogits ? a.dlogits + n * a.V : nullptr;
    i64 target = a.targets[n];

    vec tops = splat(LOWEST);
    i64 v = 0;
    for (; v + LANES <= a.V; v += LANES) tops = max_of(tops, load(z + v));
    float top = max_lanes(tops);
    for (; v < a.V; v++) top = max_of(top, z[v]);

    vec sums{};
    each_vec(0, a.V, [&](i64 v, auto lanes) {
      vec e = exp(load(z + v, lanes) - top);
      sums += keep(e, lanes);
      if (dz) store(dz + v, e, lanes);
    });
    float sum = sum_lanes(sums);
    float below = top - z[target];
    if (a.smoothing != 0) below += a.smoothing * (mean_below(z, a.V, top) - below);
    a.losses[n] = below + log(splat(sum))[0];

    if (!dz) continue;
    float at_target = (dz[target] / sum - (1.0f - a.smoothing)) / (float)a.count;
    float factor = 1.0f / ((float)a.count * sum);
    each_vec(0, a.V, [&](i64 v, auto lanes) { store(dz + v, load(dz + v, lanes) * factor, lanes); });
    dz[target] = at_target;
    if (a.smoothing == 0) continue;
    float spread = a.smoothing / ((float)a.V * (float)a.count);
    each_vec(0, a.V, [&](i64 v, auto lanes) { store(dz + v, load(dz + v, lanes) - spread, lanes); });
  }
}

static void mean_loss(const mean_loss_args& a, Team& team) {
  if (team.thread != 0) return;
  double sum = 0;
  for (i64 n = 0; n < a.N; n++) sum += a.losses[n];
  a.loss[0] = (float)((a.accumulate ? a.loss[0] : 0.0) + sum / a.count);
}
