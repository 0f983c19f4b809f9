// Grouped queries: heads of keys and values that several heads of queries share.
#include "args.h"
#include "simd.h"

static void kv_heads(const kv_heads_args& a, Team& team) {
  i64 C = (i64)a.H * a.D, group = a.H / a.G;
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float* x = a.x + n * a.W;
    float* y = a.y + n * 3 * C;
    each_vec(0, C, [&](i64 c, auto lanes) { store(y + c, load(x + c, lanes), lanes); });
    for (i64 head = 0; head < 2 * a.H; head++) {
      const float* from = x + C + head / group * a.D;
      float* to = y + C + head * a.D;
      each_vec(0, a.D, [&](i64 d, auto lanes) { store(to + d, load(from + d, lanes), lanes); });
    }
  }
}

static void kv_heads_backward(const kv_heads_backward_args& a, Team& team) {
  i64 C = (i64)a.H * a.D, group = a.H / a.G;
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float* dy = a.dy + n * 3 * C;
    float* dx = a.dx + n * a.W;
    each_vec(0, C, [&](i64 c, auto lanes) { store(dx + c, load(dy + c, lanes), lanes); });
    for (i64 head = 0; head < 2 * a.G; head++) {
      const float* copies = dy + C + head * group * a.D;
      float* to = dx + C + head * a.D;
      each_vec(0, a.D, [&](i64 d, auto lanes) {
        vec sum = load(copies + d, lanes);
        for (i64 copy = 1; copy < group; copy++) sum += load(copies + copy * a.D + d, lanes);
        store(to + d, sum, lanes);
      });
    }
  }
}
