// The update: the gradient's global norm, then AdamW.
#include "args.h"
#include "simd.h"

typedef float half_vec __attribute__((vector_size(LANES * 2), aligned(4), may_alias));
typedef double double_vec __attribute__((vector_size(LANES * 4)));

// In double: a float's square, and the sum of many, lose nothing that matters.
static double sum_of_squares(const float* x, i64 size) {
  constexpr i64 HALF = LANES / 2;
  double_vec sums[4] = {};
  i64 i = 0;
  for (; i + 4 * HALF <= size; i += 4 * HALF)
    for (int j = 0; j < 4; j++) {
      double_vec d = __builtin_convertvector(*(const half_vec*)(x + i + j * HALF), double_vec);
      sums[j] += d * d;
    }
  double total = 0;
  for (; i < size; i++) total += (double)x[i] * x[i];
  double_vec sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (int j = 0; j < HALF; j++) total += sum[j];
  return total;
}

// scratch: NORM_CHUNKS doubles, the pieces' sums
static void grad_norm(const grad_norm_args& a, Team& team) {
  constexpr double CLIP_EPS = 1e-6;  // as in torch.nn.utils.clip_grad_norm_
  double* parts = (double*)a.scratch;
  Range chunks = team.share(NORM_CHUNKS);
  for (i64 i = chunks.begin; i < chunks.end; i++) {
    i64 begin = a.P * i / NORM_CHUNKS, end = a.P * (i + 1) / NORM_CHUNKS;
    parts[i] = sum_of_squares(a.grads + begin, end - begin);
  }
  team.meet();

  if (team.thread != 0) return;
  double total = 0;
  for (i64 i = 0; i < NORM_CHUNKS; i++) total += parts[i];
  double norm = __builtin_sqrt(total);
  double factor = a.limit / (norm + CLIP_EPS);
  a.norm[0] = (float)norm;
  a.norm[1] = a.limit == 0 || factor > 1 ? 1.0f : (float)factor;  // NaN stays NaN
}

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
