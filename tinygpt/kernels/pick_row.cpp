// One row of many.
#include "args.h"
#include "simd.h"

static void pick_row(const pick_row_args& a, Team& team) {
  if (team.thread != 0) return;
  const float* row = a.x + (i64)a.position[a.row[0]] * a.C;
  each_vec(0, a.C, [&](i64 c, auto lanes) { store(a.y + c, load(row + c, lanes), lanes); });
}
