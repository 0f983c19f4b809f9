// What a model would say behind each row.
#include "args.h"
#include "simd.h"

static void likeliest(const likeliest_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    const float* z = a.logits + n * a.V;
    i32 best = 0;
    bool numbers = true;
    for (i64 v = 0; v < a.V; v++) {
      if (z[v] > z[best]) best = (i32)v;
      numbers = numbers && z[v] - z[v] == 0;
    }
    a.best[n] = numbers ? best : -1;
  }
}
