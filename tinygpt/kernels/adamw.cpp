// The update by AdamW.
#include "args.h"
#include "simd.h"

// shrink is 1 - decay where weights decay, 1 elsewhere.
static void adamw_range(const adamw_args& a, const float* rates, i64 begin, i64 end, float shrink) {
  float clip = a.norm[1], step_size = rates[0], root_correction = rates[1];
  float new1 = 1.0f - a.beta1, new2 = 1.0f - a.beta2;
  each_vec(begin, end, [&](i64 i, auto lanes) {
    vec g = load(a.grads + i, lanes) * clip;
    vec m = fma(g, splat(new1), load(a.m + i, lanes) * a.beta1);
    vec v = fma(g * g, splat(new2), load(a.v + i, lanes) * a.beta2);
    vec step = step_size * m / fma(sqrt(v), splat(root_correction), splat(a.eps));
    store(a.m + i, m, lanes);
    store(a.v + i, v, lanes);
    store(a.weights + i, load(a.weights + i, lanes) * shrink - step, lanes);
  });
}

static void adamw(const adamw_args& a, Team& team) {
  Range share = team.share(ceil_div(a.P, LANES));
  i64 begin = share.begin * LANES, end = min_of(share.end * LANES, a.P);
  i64 decayed_end = max_of(begin, min_of(end, a.decayed));
  const float* rates = a.rates + a.columns * (a.counters[0] % a.rows);
  adamw_range(a, rates, begin, decayed_end, 1.0f - rates[2]);
  adamw_range(a, rates, decayed_end, end, 1.0f);
}
