// The sum of two matrices.
#include "args.h"
#include "simd.h"

static void add(const add_args& a, Team& team) {
  Range rows = team.share(a.N);
  each_vec(rows.begin * a.C, rows.end * a.C, [&](i64 i, auto lanes) {
    store(a.y + i, load(a.x + i, lanes) + load(a.residual + i, lanes), lanes);
  });
}
