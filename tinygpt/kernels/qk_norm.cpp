// Queries and keys of every head by their root mean square, and their gradients. A row has 2H heads of q and k, then v.
#include "rows.h"

INLINE void scale_row(const float* x, float factor, float* y, i64 size) {
  each_vec(0, size, [&](i64 i, auto lanes) { store(y + i, load(x + i, lanes) * factor, lanes); });
}

static void qk_norm(const qk_norm_args& a, Team& team) {
  i64 D = a.D, heads = 2 * a.H, row = 3 * a.H * D;
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float* x = a.qkv + n * row;
    float* y = a.y + n * row;
    for (i64 h = 0; h < heads; h++) {
      const float* head = x + h * D;
      float rstd = 1.0f / __builtin_sqrtf(sum_of_products(head, head, D) / D + a.eps);
      scale_row(head, rstd, y + h * D, D);
      a.rstd[n * heads + h] = rstd;
    }
    scale_row(x + heads * D, 1.0f, y + heads * D, row - heads * D);
  }
}

static void qk_norm_backward(const qk_norm_backward_args& a, Team& team) {
  i64 D = a.D, heads = 2 * a.H, row = 3 * a.H * D;
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float *dy = a.dy + n * row, *y = a.y + n * row;
    float* dx = a.dqkv + n * row;
    for (i64 at = 0, h = 0; h < heads; h++, at += D) {
      float rstd = a.rstd[n * heads + h], mean = sum_of_products(dy + at, y + at, D) / D;
      each_vec(at, at + D, [&](i64 i, auto lanes) {
        store(dx + i, rstd * (load(dy + i, lanes) - load(y + i, lanes) * mean), lanes);
      });
    }
    scale_row(dy + heads * D, 1.0f, dx + heads * D, row - heads * D);
  }
}
