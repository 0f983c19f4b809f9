// What a step reads: windows of the corpus, at places that seed and step decide.
#include "args.h"
#include "philox.h"

// A number below `limit` from 64 random bits.
INLINE i64 below(u64 high, u64 low, u64 limit) { return (i64)((high * limit + (low * limit >> 32)) >> 32); }

static void draw_windows(const draw_windows_args& a, Team& team) {
  constexpr i32 BATCH = 2;  // core/rng.py
  bool of_step = a.purpose == BATCH;
  u32 step = of_step ? (u32)a.counters[0] + 1 : 0;
  i64 part = of_step ? a.counters[1] : a.counters[2];
  Range rows = team.share(a.B);
  for (i64 b = rows.begin; b < rows.end; b++) {
    i64 row = part * a.B + b, half = row % 2 * 2;
    Words words = philox((u32)a.seed, (u32)a.purpose, (u32)(row / 2), step);
    const u8* window = a.corpus + below(words.at[half][0], words.at[half + 1][0], (u64)(a.bytes - a.T));
    i32 *tokens = a.tokens + b * a.T, *targets = a.targets + b * a.T;
    for (i64 t = 0; t < a.T; t++) tokens[t] = window[t], targets[t] = window[t + 1];
  }
}
