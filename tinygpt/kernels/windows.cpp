// What a step reads: windows of the corpus, at places that seed and step decide.
#include "args.h"
#include "hash.h"
#include "philox.h"

// A number below `limit` from 64 random bits.
INLINE i64 below(u64 high, u64 low, u64 limit) { return (i64)((high * limit + (low * limit >> 32)) >> 32); }

// A permutation of [0, count): a Feistel network over the next power of two, walked until it is inside.
static u32 permuted(u32 place, u32 count, const u32 keys[6]) {
  u32 bits = 0;
  while (count > 1u << bits) bits++;
  u32 low = bits / 2, left_mask = (1u << (bits - low)) - 1, right_mask = (1u << low) - 1;
  for (int walk = 0; walk < 64; walk++) {
    u32 left = place >> low, right = place & right_mask;
    for (int i = 0; i < 6; i += 2) {
      left ^= mixed(right ^ keys[i]) & left_mask;
      right ^= mixed(left ^ keys[i + 1]) & right_mask;
    }
    place = left << low | right;
    if (place < count) return place;
  }
  return place % count;
}

// Where window `number` of a run starts, if an epoch has all windows of the text in a random order.
static i64 shuffled_offset(const draw_windows_args& a, u32 number) {
  constexpr u32 SHUFFLE = 9;  // core/rng.py
  u32 count = (u32)max_of((i64)1, (i64)(a.bytes / a.T - 1)), epoch = number / count;
  Words words = philox((u32)a.seed, SHUFFLE, epoch, 0), more = philox((u32)a.seed, SHUFFLE, epoch, 1);
  u32 keys[6];
  for (int i = 0; i < 6; i++) keys[i] = (u32)(i < 4 ? words.at[i][0] : more.at[i - 4][0]);
  i64 begin = below(more.at[2][0], more.at[3][0], (u64)min_of((i64)a.T, a.bytes - (i64)count * a.T));
  return begin + (i64)a.T * permuted(number % count, count, keys);
}

static i64 random_offset(const draw_windows_args& a, u32 step, i64 row) {
  i64 half = row % 2 * 2;
  Words words = philox((u32)a.seed, (u32)a.purpose, (u32)(row / 2), step);
  return below(words.at[half][0], words.at[half + 1][0], (u64)(a.bytes - a.T));
}

static void draw_windows(const draw_windows_args& a, Team& team) {
  constexpr i32 BATCH = 2;  // core/rng.py
  bool of_step = a.purpose == BATCH;
  u32 step = of_step ? (u32)a.counters[0] + 1 : 0;
  i64 part = of_step ? a.counters[1] : a.counters[2];
  Range rows = team.share(a.B);
  for (i64 b = rows.begin; b < rows.end; b++) {
    i64 row = part * a.B + b;
    i64 number = (i64)(step - 1) * a.parts * a.B + row;
    const u8* window = a.corpus + (a.parts ? shuffled_offset(a, (u32)number) : random_offset(a, step, row));
    i32 *tokens = a.tokens + b * a.T, *targets = a.targets + b * a.T;
    for (i64 t = 0; t < a.T; t++) tokens[t] = window[t], targets[t] = window[t + 1];
  }
}
