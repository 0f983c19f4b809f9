// Tokens to vectors. Tables: wte [V,C] by token, wpe [T,C] by position.
#include "args.h"
#include "simd.h"

INLINE void add_rows(const float* a, const float* b, float* sum, i64 begin, i64 end) {
  each_vec(begin, end, [&](i64 c, auto lanes) { store(sum + c, load(a + c, lanes) + load(b + c, lanes), lanes); });
}

static void embed(const embed_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++)
    add_rows(a.wte + (i64)a.tokens[n] * a.C, a.wpe + n % a.T * a.C, a.x + n * a.C, 0, a.C);
}

// Threads share the columns, so each sum over rows is one thread's, in the rows' order.
static void embed_backward(const embed_backward_args& a, Team& team) {
  Range share = team.share(ceil_div(a.C, LANES));
  i64 begin = share.begin * LANES, end = min_of(share.end * LANES, a.C);
  for (i64 n = 0; n < a.N; n++) {
    const float* dx = a.dx + n * a.C;
    float* dwte = a.dwte + (i64)a.tokens[n] * a.C;
    float* dwpe = a.dwpe + n % a.T * a.C;
    add_rows(dwte, dx, dwte, begin, end);
    if (n < a.T && !a.accumulate)
      each_vec(begin, end, [&](i64 c, auto lanes) { store(dwpe + c, load(dx + c, lanes), lanes); });
    else
      add_rows(dwpe, dx, dwpe, begin, end);
  }
}

static void embed_one(const embed_one_args& a, Team& team) {
  if (team.thread != 0) return;
  add_rows(a.wte + (i64)a.tokens[0] * a.C, a.wpe + (i64)a.position[0] * a.C, a.x, 0, a.C);
}
