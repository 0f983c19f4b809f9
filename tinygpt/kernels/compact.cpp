// Weights as whole numbers with a scale per row, read as they are.
#include "activation.h"
#include "args.h"
#include "few_rows.h"

// take(place, lanes, h) is given h [N,O] = (x weight^T) * scales (+ bias) (+ residual), a vector at a time.
template <class Args, class Take>
INLINE void scaled_products(const Args& a, Team& team, Take take) {
  multiply_few_rows(team, a.x, a.weight, a.N, a.O, a.I, [&](i64 row, i64 col, auto lanes, vec product) {
    i64 place = row * a.O + col;
    vec h = product * load(a.weight_scales + col, lanes);
    if (a.bias) h += load(a.bias + col, lanes);
    if (a.residual) h += load(a.residual + place, lanes);
    take(place, lanes, h);
  });
}

static void linear_int8(const linear_int8_args& a, Team& team) {
  scaled_products(a, team, [&](i64 place, auto lanes, vec h) { store(a.y + place, h, lanes); });
}

template <int KIND>
static void linear_activation_int8_of(const linear_activation_int8_args& a, Team& team) {
  scaled_products(a, team, [&](i64 place, auto lanes, vec h) { store(a.y + place, activate<KIND>(h).value, lanes); });
}

static void linear_activation_int8(const linear_activation_int8_args& a, Team& team) {
  a.kind == RELU2 ? linear_activation_int8_of<RELU2>(a, team) : linear_activation_int8_of<GELU>(a, team);
}

// x = row number `token` of wte, each times its scale (+ row number `position` of wpe)
template <class Args>
INLINE void embed_row(const Args& a, i64 token, i64 position, float* x) {
  const i8* of_token = a.wte + token * a.C;
  const i8* of_place = a.wpe ? a.wpe + position * a.C : nullptr;
  each_vec(0, a.C, [&](i64 c, auto lanes) {
    vec row = widened(of_token + c, lanes) * a.wte_scales[token];
    if (of_place) row += widened(of_place + c, lanes) * a.wpe_scales[position];
    store(x + c, row, lanes);
  });
}

static void embed_int8(const embed_int8_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) embed_row(a, a.tokens[n], n % a.T, a.x + n * a.C);
}

static void embed_one_int8(const embed_one_int8_args& a, Team& team) {
  Range rows = team.share(a.R);
  for (i64 r = rows.begin; r < rows.end; r++) embed_row(a, a.tokens[r], a.position[r], a.x + r * a.C);
}

static void unpack_int8(const unpack_int8_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++)
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      store(a.y + n * a.C + c, widened(a.x + n * a.C + c, lanes) * a.scales[n], lanes);
    });
}
