// A running average of the weights.
#include "args.h"
#include "simd.h"

static void average(const average_args& a, Team& team) {
  Range share = team.share(ceil_div(a.P, LANES));
  vec rate = splat(a.rates[a.counters[0] % a.rows]);
  each_vec(share.begin * LANES, min_of(share.end * LANES, a.P), [&](i64 i, auto lanes) {
    vec kept = load(a.weights + i, lanes);
    store(a.weights + i, fma(rate, load(a.live + i, lanes) - kept, kept), lanes);
  });
}

static void copy(const copy_args& a, Team& team) {
  Range share = team.share(ceil_div(a.P, LANES));
  each_vec(share.begin * LANES, min_of(share.end * LANES, a.P),
           [&](i64 i, auto lanes) { store(a.y + i, load(a.x + i, lanes), lanes); });
}
