// The update by stochastic gradient descent with momentum.
#include "args.h"
#include "simd.h"

// shrink is 1 - decay where weights decay, 1 elsewhere.
static void sgd_range(const sgd_args& a, float lr, i64 begin, i64 end, float shrink) {
  float clip = a.norm[1];
  each_vec(begin, end, [&](i64 i, auto lanes) {
    vec m = fma(load(a.grads + i, lanes), splat(clip), load(a.m + i, lanes) * a.momentum);
    store(a.m + i, m, lanes);
    store(a.weights + i, load(a.weights + i, lanes) * shrink - lr * m, lanes);
  });
}

static void sgd(const sgd_args& a, Team& team) {
  Range share = team.share(ceil_div(a.P, LANES));
  i64 begin = share.begin * LANES, end = min_of(share.end * LANES, a.P);
  i64 decayed_end = max_of(begin, min_of(end, a.decayed));
  const float* rates = a.rates + 2 * (a.counters[0] % a.rows);
  sgd_range(a, rates[0], begin, decayed_end, 1.0f - rates[1]);
  sgd_range(a, rates[0], decayed_end, end, 1.0f);
}
