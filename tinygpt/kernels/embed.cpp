// Tokens to vectors. Tables: wte [V,C] by token, wpe [T,C] by position.
#include "args.h"
#include "simd.h"

// sum = a + b, or a alone where there is no b
INLINE void add_rows(const float* a, const float* b, float* sum, i64 begin, i64 end) {
  each_vec(begin, end, [&](i64 c, auto lanes) {
    vec row = load(a + c, lanes);
    store(sum + c, b ? row + load(b + c, lanes) : row, lanes);
  });
}

static void embed(const embed_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++)
    add_rows(a.wte + (i64)a.tokens[n] * a.C, a.wpe ? a.wpe + n % a.T * a.C : nullptr, a.x + n * a.C, 0, a.C);
}

// Threads share the columns, so each sum over rows is one thread's, in the rows' order.
static void embed_backward(const embed_backward_args& a, Team& team) {
  Range share = team.share(ceil_div(a.C, LANES));
  i64 begin = share.begin * LANES, end = min_of(share.end * LANES, a.C);
  if (!a.accumulate && !a.tied)
    for (i64 v = 0; v < a.V; v++)
      each_vec(begin, end, [&](i64 c, auto lanes) { store(a.dwte + v * a.C + c, vec{}, lanes); });
  for (i64 n = 0; n < a.N; n++) {
    const float* dx = a.dx + n * a.C;
    float* dwte = a.dwte + (i64)a.tokens[n] * a.C;
    add_rows(dwte, dx, dwte, begin, end);
    if (!a.dwpe) continue;
    float* dwpe = a.dwpe + n % a.T * a.C;
    bool first = n < a.T && !a.accumulate;
    add_rows(dx, first ? nullptr : dwpe, dwpe, begin, end);
  }
}

static void embed_one(const embed_one_args& a, Team& team) {
  Range rows = team.share(a.R);
  for (i64 r = rows.begin; r < rows.end; r++)
    add_rows(a.wte + (i64)a.tokens[r] * a.C, a.wpe ? a.wpe + (i64)a.position[r] * a.C : nullptr, a.x + r * a.C, 0, a.C);
}
