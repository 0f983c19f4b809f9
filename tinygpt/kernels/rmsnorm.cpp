// Normalisation of rows by their root mean square, and its gradients.
#include "rows.h"

static void rmsnorm(const rmsnorm_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float* x = a.x + n * a.C;
    float* y = a.y + n * a.C;
    float rstd = 1.0f / __builtin_sqrtf(sum_of_products(x, x, a.C) / a.C + a.eps);
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      store(y + c, load(x + c, lanes) * rstd * load(a.gain + c, lanes), lanes);
    });
    a.rstd[n] = rstd;
  }
}

// Rows begin..end of dx, and with SUMS their part of dgain.
template <bool SUMS>
static void rmsnorm_backward_rows(const rmsnorm_backward_args& a, i64 begin, i64 end, float* dgain) {
  if constexpr (SUMS) each_vec(0, a.C, [&](i64 c, auto lanes) { store(dgain + c, vec{}, lanes); });
  for (i64 n = begin; n < end; n++) {
    const float *x = a.x + n * a.C, *dy = a.dy + n * a.C;
    const float* dresidual = a.dresidual ? a.dresidual + n * a.C : nullptr;
    float* dx = a.dx + n * a.C;
    float rstd = a.rstd[n];

    // n = x rstd, dn = dy gain
    vec sum_dn_n{};
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      vec dy_n = load(dy + c, lanes) * (load(x + c, lanes) * rstd);
      sum_dn_n = fma(dy_n, load(a.gain + c, lanes), sum_dn_n);
      if constexpr (SUMS) store(dgain + c, dy_n + load(dgain + c, lanes), lanes);
    });
    float mean_dn_n = sum_lanes(sum_dn_n) / a.C;

    // dx = dresidual + rstd (dn - n mean(dn n))
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      vec dn = load(dy + c, lanes) * load(a.gain + c, lanes);
      vec d = rstd * (dn - load(x + c, lanes) * rstd * mean_dn_n);
      store(dx + c, dresidual ? load(dresidual + c, lanes) + d : d, lanes);
    });
  }
}

// scratch: [ROW_CHUNKS][C], the pieces' dgain
static void rmsnorm_backward(const rmsnorm_backward_args& a, Team& team) {
  Range chunks = team.share(ROW_CHUNKS);
  for (i64 i = chunks.begin; i < chunks.end; i++) {
    i64 begin = a.N * i / ROW_CHUNKS, end = a.N * (i + 1) / ROW_CHUNKS;
    if (a.dgain)
      rmsnorm_backward_rows<true>(a, begin, end, a.scratch + i * a.C);
    else
      rmsnorm_backward_rows<false>(a, begin, end, a.scratch + i * a.C);
  }
  if (!a.dgain) return;
  team.meet();
  add_chunks(team, a.scratch, a.C, a.C, a.accumulate, a.dgain);
}
