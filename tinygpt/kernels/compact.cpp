// Weights in float16, or as whole numbers with a scale per row, read as they are.
#include "activation.h"
#include "args.h"
#include "few_rows.h"

// take(place, lanes, h) is given h [N,O] = (x weight^T) * scales (+ bias) (+ residual), a vector at a time.
template <class Args, class Take>
INLINE void products(const Args& a, const float* scales, Team& team, Take take) {
  auto finish = [&](i64 row, i64 col, auto lanes, vec h) {
    i64 place = row * a.O + col;
    if (scales) h *= load(scales + col, lanes);
    if (a.bias) h += load(a.bias + col, lanes);
    if (a.residual) h += load(a.residual + place, lanes);
    take(place, lanes, h);
  };
#if defined(__wasm_simd128__)
  if constexpr (sizeof(*a.weight) == 1)
    if (a.I <= FixedRow::MOST) return multiply_fixed_rows(team, a.x, a.weight, a.N, a.O, a.I, finish);
#endif
  multiply_few_rows(team, a.x, a.weight, a.N, a.O, a.I, finish);
}

template <class Args>
INLINE void linear_of(const Args& a, const float* scales, Team& team) {
  products(a, scales, team, [&](i64 place, auto lanes, vec h) { store(a.y + place, h, lanes); });
}

template <class Args>
INLINE void linear_activation_of(const Args& a, const float* scales, Team& team) {
  auto with = [&](auto activated) {
    products(a, scales, team, [&](i64 place, auto lanes, vec h) { store(a.y + place, activated(h), lanes); });
  };
  if (a.kind == RELU2)
    with([](vec h) { return activate<RELU2>(h).value; });
  else
    with([](vec h) { return activate<GELU>(h).value; });
}

static void linear_int8(const linear_int8_args& a, Team& team) { linear_of(a, a.weight_scales, team); }
static void linear_float16(const linear_float16_args& a, Team& team) { linear_of(a, nullptr, team); }
static void linear_activation_int8(const linear_activation_int8_args& a, Team& team) {
  linear_activation_of(a, a.weight_scales, team);
}
static void linear_activation_float16(const linear_activation_float16_args& a, Team& team) {
  linear_activation_of(a, nullptr, team);
}

// Row number `row` of a table [., C], times its scale, from c on.
template <class W, class Lanes>
INLINE vec table_row(const W* table, const float* scales, i64 row, i64 C, i64 c, Lanes lanes) {
  vec numbers = widened(table + row * C + c, lanes);
  return scales ? numbers * scales[row] : numbers;
}

// x = row number `token` of wte (+ row number `position` of wpe)
template <class Args>
INLINE void embed_row(const Args& a, const float* wte_scales, const float* wpe_scales, i64 token, i64 position,
                      float* x) {
  each_vec(0, a.C, [&](i64 c, auto lanes) {
    vec row = table_row(a.wte, wte_scales, token, a.C, c, lanes);
    if (a.wpe) row += table_row(a.wpe, wpe_scales, position, a.C, c, lanes);
    store(x + c, row, lanes);
  });
}

template <class Args>
INLINE void embed_of(const Args& a, const float* wte_scales, const float* wpe_scales, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++)
    embed_row(a, wte_scales, wpe_scales, a.tokens[n], n % a.T, a.x + n * a.C);
}

template <class Args>
INLINE void embed_one_of(const Args& a, const float* wte_scales, const float* wpe_scales, Team& team) {
  Range rows = team.share(a.R);
  for (i64 r = rows.begin; r < rows.end; r++)
    embed_row(a, wte_scales, wpe_scales, a.tokens[r], a.position[r], a.x + r * a.C);
}

static void embed_int8(const embed_int8_args& a, Team& team) { embed_of(a, a.wte_scales, a.wpe_scales, team); }
static void embed_float16(const embed_float16_args& a, Team& team) { embed_of(a, nullptr, nullptr, team); }
static void embed_one_int8(const embed_one_int8_args& a, Team& team) {
  embed_one_of(a, a.wte_scales, a.wpe_scales, team);
}
static void embed_one_float16(const embed_one_float16_args& a, Team& team) { embed_one_of(a, nullptr, nullptr, team); }

template <class Args>
INLINE void unpack_of(const Args& a, const float* scales, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++)
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      store(a.y + n * a.C + c, table_row(a.x, scales, n, a.C, c, lanes), lanes);
    });
}

static void unpack_int8(const unpack_int8_args& a, Team& team) { unpack_of(a, a.scales, team); }
static void unpack_float16(const unpack_float16_args& a, Team& team) { unpack_of(a, nullptr, team); }
