// Numbers set to 0 at random, the others grown to make up for it.
#include "args.h"
#include "philox.h"

static void dropout(const dropout_args& a, Team& team) {
  constexpr i64 BLOCK_SIZE = 4 * DRAW_LANES;
  i64 size = (i64)a.N * a.C;
  u64 threshold = (u64)(a.rate * 4294967296.0f);
  float scale = 1.0f / (1.0f - a.rate);
  Range blocks = team.share(ceil_div(size, BLOCK_SIZE));
  for (i64 block = blocks.begin; block < blocks.end; block++) {
    Words words = philox(a.seed, DROPOUT, (u32)(block * DRAW_LANES), a.counters[0], a.site, a.counters[1]);
    float factors[BLOCK_SIZE];
    for (int i = 0; i < BLOCK_SIZE; i++) factors[i] = words.at[i % 4][i / 4] >= threshold ? scale : 0.0f;
    i64 begin = block * BLOCK_SIZE;
    each_vec(begin, min_of(begin + BLOCK_SIZE, size), [&](i64 i, auto lanes) {
      vec y = load(a.x + i, lanes) * load(factors + i - begin);
      store(a.y + i, a.residual ? y + load(a.residual + i, lanes) : y, lanes);
    });
  }
}
