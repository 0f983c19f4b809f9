// Layer normalisation of rows, and its gradients.
#include "rows.h"

static void layernorm(const layernorm_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float* x = a.x + n * a.C;
    float* y = a.y + n * a.C;
    vec sum{};
    each_vec(0, a.C, [&](i64 c, auto lanes) { sum += load(x + c, lanes); });
    float mean = sum_lanes(sum) / a.C;

    vec squares{};
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      vec off = keep(load(x + c, lanes) - mean, lanes);
      squares = fma(off, off, squares);
    });
    float rstd = 1.0f / __builtin_sqrtf(sum_lanes(squares) / a.C + a.eps);

    each_vec(0, a.C, [&](i64 c, auto lanes) {
      vec normal = (load(x + c, lanes) - mean) * rstd;
      vec bias = a.bias ? load(a.bias + c, lanes) : vec{};
      store(y + c, fma(normal, load(a.gain + c, lanes), bias), lanes);
    });
    a.stats[2 * n] = mean;
    a.stats[2 * n + 1] = rstd;
  }
}

// Rows begin..end of dx, and with SUMS their part of dgain and dbias.
template <bool SUMS>
static void layernorm_backward_rows(const layernorm_backward_args& a, i64 begin, i64 end, float* dgain, float* dbias) {
  if constexpr (SUMS)
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      store(dgain + c, vec{}, lanes);
      store(dbias + c, vec{}, lanes);
    });
  for (i64 n = begin; n < end; n++) {
    const float *x = a.x + n * a.C, *dy = a.dy + n * a.C;
    const float* dresidual = a.dresidual ? a.dresidual + n * a.C : nullptr;
    float* dx = a.dx + n * a.C;
    float mean = a.stats[2 * n], rstd = a.stats[2 * n + 1];

    // n = (x - mean) rstd, dn = dy gain
    vec sum_dn{}, sum_dn_n{};
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      vec normal = (load(x + c, lanes) - mean) * rstd, d = load(dy + c, lanes);
      vec dn = d * load(a.gain + c, lanes);
      sum_dn += dn;
      sum_dn_n = fma(dn, normal, sum_dn_n);
      if constexpr (SUMS) {
        store(dgain + c, fma(d, normal, load(dgain + c, lanes)), lanes);
        store(dbias + c, d + load(dbias + c, lanes), lanes);
      }
    });
    float mean_dn = sum_lanes(sum_dn) / a.C, mean_dn_n = sum_lanes(sum_dn_n) / a.C;

    // dx = dresidual + rstd (dn - mean(dn) - n mean(dn n))
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      vec normal = (load(x + c, lanes) - mean) * rstd;
      vec dn = load(dy + c, lanes) * load(a.gain + c, lanes);
      vec d = rstd * (dn - mean_dn - normal * mean_dn_n);
      store(dx + c, dresidual ? load(dresidual + c, lanes) + d : d, lanes);
    });
  }
}

// scratch: [ROW_CHUNKS][2][C], the pieces' dgain and dbias
static void layernorm_backward(const layernorm_backward_args& a, Team& team) {
  i64 C = a.C;
  Range chunks = team.share(ROW_CHUNKS);
  for (i64 i = chunks.begin; i < chunks.end; i++) {
    float* part = a.scratch + i * 2 * C;
    i64 begin = a.N * i / ROW_CHUNKS, end = a.N * (i + 1) / ROW_CHUNKS;
    if (a.dgain)
      layernorm_backward_rows<true>(a, begin, end, part, part + C);
    else
      layernorm_backward_rows<false>(a, begin, end, part, part + C);
  }
  if (!a.dgain) return;
  team.meet();
  add_chunks(team, a.scratch, 2 * C, C, a.accumulate, a.dgain);
  if (a.dbias) add_chunks(team, a.scratch + C, 2 * C, C, a.accumulate, a.dbias);
}
