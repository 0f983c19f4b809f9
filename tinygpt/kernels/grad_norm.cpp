// The gradients' global norm, and the factor that clips them.
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

// The gradients are summed in NORM_CHUNKS chunks, however many threads share them, and thread 0 adds the chunks in order:
// so the norm does not depend on the number of threads. scratch: a double per chunk.
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
